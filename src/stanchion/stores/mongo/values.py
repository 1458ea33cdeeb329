"""Versioned values as documents."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pymongo.errors import DuplicateKeyError

from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.records.values import VersionedValue


class Values:
    """Small texts by kind and name, changed by compare-and-set."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return the values of a kind, by name: all, or the known ones among `names`."""
        wanted: Document = {"kind": kind}
        if names is not None:
            if not (ids := [id_of(kind, name) for name in set(names)]):
                return []
            wanted["_id"] = {"$in": ids}
        found = self._server.call(lambda on, _again: list(on.values.find(wanted)))
        return sorted(VersionedValue(one["name"], one["text"], one["version"]) for one in found)

    def version(self, kind: str, name: str) -> int:
        """Return the version of a value, 0 if it is absent."""
        found = self._server.call(lambda on, _again: on.values.find_one({"_id": id_of(kind, name)}, {"version": 1}))
        return found["version"] if found else 0

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write a value, or delete it if `text` is None, if its version is still `version`; 0: it is absent."""
        one: Document = {"_id": id_of(kind, name)}
        seen = {**one, "version": version}

        def work(on: Place, again: bool) -> bool:
            if text is None:
                if version:
                    on.values.delete_one(seen)
                return on.values.find_one(one) is None
            if version:
                if on.values.update_one(seen, {"$set": {"text": text, "version": version + 1}}).matched_count:
                    return True
            else:
                with suppress(DuplicateKeyError):  # it is there
                    on.values.insert_one({**one, "kind": kind, "name": name, "text": text, "version": 1})
                    return True
            # A repeat after a lost reply: if the value is the one to write, the first try wrote it.
            return again and on.values.find_one({**one, "text": text, "version": version + 1}) is not None

        return self._server.call(work)


def id_of(kind: str, name: str) -> str:
    """Return the id of the document of a value."""
    return f"{kind}:{name}"
