"""Items as JSON documents, for items that have no typed columns: a column of text, one document per item."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from stanchion.core.chunks.arrow import pa
from stanchion.core.values.codec import Codec, NotJson, decoder
from stanchion.core.values.plain import ToPlain, plain_model

NAME = "item"
"""Name of the column."""

_decode = decoder()

_codec = Codec(max_payload=sys.maxsize)

_SCALARS = frozenset({int, float, bool, type(None)})
"""Types whose JSON has no comma."""


def documents_of(items: Sequence[object], what: str = "payload", to_plain: ToPlain = plain_model) -> pa.Table:
    """Return items as a table of documents. Raises InvalidInput if JSON can't hold one.

    `what`: what an item is, for errors. `to_plain`: returns the plain values of models.
    """
    if items and _SCALARS.issuperset(map(type, items)):  # such as results
        texts = _codec.plain(items, what, to_plain)[1:-1].split(",")
    else:
        texts = [_codec.plain(item, what, to_plain) for item in items]
    return pa.table({NAME: pa.array(texts, pa.string())})


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
