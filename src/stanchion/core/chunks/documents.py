"""Items as JSON documents, for items that have no typed columns: a column of text, one document per item."""

from __future__ import annotations

import json.encoder
from collections.abc import Callable, Sequence
from itertools import chain
from json import JSONEncoder

from stanchion.core.chunks.arrow import pa
from stanchion.core.values.codec import NotJson, check_keys, decoder, not_json
from stanchion.core.values.plain import ToPlain, plain_model
from stanchion.errors import InvalidInput

NAME = "item"
"""Name of the column."""

_decode = decoder()

_SCALARS = frozenset({int, float, bool, type(None)})
"""Types whose JSON has no comma."""

_STRINGS = frozenset({str})


def documents_of(items: Sequence[object], what: str = "payload", to_plain: ToPlain = plain_model) -> pa.Table:
    """Return items as a table of documents. Raises InvalidInput if JSON can't hold one.

    `what`: what an item is, for errors. `to_plain`: returns the plain values of models.
    """
    encode = _encoder(to_plain)
    try:
        if items and _SCALARS.issuperset(map(type, items)):  # such as results
            texts = encode([*items])[1:-1].split(",")
        else:
            if not _is_flat(items):
                check_keys(items, what)
            texts = [*map(encode, items)]
        return pa.table({NAME: pa.array(texts, pa.string())})
    except InvalidInput:  # of a model
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise not_json(what, error) from error


def _is_flat(items: Sequence[object]) -> bool:
    """Return whether all items are objects whose names are strings, without values that may have other names."""
    objects = [item for item in items if type(item) is dict]
    return (
        len(objects) == len(items)
        and _STRINGS.issuperset(map(type, chain.from_iterable(objects)))
        and (_SCALARS | _STRINGS).issuperset(map(type, chain.from_iterable(map(dict.values, objects))))
    )


def _encoder(to_plain: ToPlain) -> Callable[[object], str]:
    """Return a function that encodes as `Codec` does. JSONEncoder makes it anew per item, which takes as long again."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # Pythons without the module in C
        return JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=to_plain).encode
    parts = make(None, to_plain, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    return lambda item: "".join(parts(item, 0))


def items_of(documents: pa.Table) -> list[object]:
    """Return the items of a table of documents."""
    texts: list[str] = documents.column(0).to_pylist()
    try:
        found = _decode(f"[{','.join(texts)}]")
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"an item of a chunk is not JSON, so another program has written it: {error}") from None
    return found if isinstance(found, list) else []


def document_at(documents: pa.Table, index: int) -> str:
    """Return one document."""
    found: str = documents.column(0)[index].as_py()
    return found
