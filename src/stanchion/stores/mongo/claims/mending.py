"""Other programs' documents that a claim could not reserve: fields that its update needs are rewritten.

The server computes with some fields when it reserves jobs. With another type, they make the update fail. A claim that
meets this replaces them, and stores their names in the field `misfit`, by which it ends the job: `rules/misfits.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from stanchion.core.ids import id_named
from stanchion.stores.mongo.client.documents import NUMBER, Document
from stanchion.stores.mongo.client.place import Place

_TYPE_MISMATCH: Final = frozenset({2, 14})  # BadValue, TypeMismatch
_COMPUTED: Final[tuple[tuple[str, Document, object], ...]] = (
    ("attempts", NUMBER, 0),
    ("version", NUMBER, 0),
    ("events", {"$type": "array"}, []),
)
"""Fields that an update computes with when it reserves jobs: conditions on them, and initial values."""


def is_misfit(error: OperationFailure) -> bool:
    """Return whether an update failed on a value that it can't compute with."""
    if isinstance(error, BulkWriteError):
        return any(one["code"] in _TYPE_MISMATCH for one in error.details["writeErrors"])
    return error.code in _TYPE_MISMATCH


def mend(on: Place, ids: Sequence[str]) -> None:
    """Rewrite fields that an update of these jobs can't compute with."""
    for name, fits, value in _COMPUTED:
        odd = {"_id": {"$in": list(ids)}, "$nor": [{name: {"$exists": False}}, {name: fits}]}
        on.jobs.update_many(odd, {"$set": {name: value}, "$addToSet": {"misfit": name}})


def named(on: Place, ids: Sequence[object]) -> list[str]:
    """Return the ids of jobs; a document whose id is no text is stored again under one that is, made of it."""
    return [one if type(one) is str else _renamed(on, one) for one in ids]


def _renamed(on: Place, found: object) -> str:
    job = id_named(repr(found), 0)
    document = on.jobs.find_one({"_id": found})
    if document is not None:
        document.pop("unique", None)  # the other one has it still
        with suppress(DuplicateKeyError):  # by another claim, or by one that died before the next line
            on.jobs.insert_one({**document, "_id": job, "misfit": ["_id"]})
        on.jobs.delete_one({"_id": found})
    return job
