"""JSON items for tests, and what makes chunks of them."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from stanchion.core.chunks.chunk import Chunk

EDGES = st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30])
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1.0, -0.0, 0.0, 2.0**53])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
SCALARS = st.none() | st.booleans() | st.integers() | EDGES | FLOATS | TEXTS
NAMES = st.sampled_from(["a", "b", "c", "", "miles", "é"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


@st.composite
def alike(draw: st.DrawFn) -> list[object]:
    """Objects with the same fields, most of which have values of one type: these have columns."""
    fields = draw(st.dictionaries(NAMES, st.sampled_from([TEXTS, st.integers(-9, 9), FLOATS, st.booleans(), VALUES])))
    nullable = {name: draw(st.booleans()) for name in fields}
    each = {name: st.none() | kind if nullable[name] else kind for name, kind in fields.items()}
    items: list[object] = draw(st.lists(st.fixed_dictionaries(each), max_size=5))
    return items


ITEMS = alike() | st.lists(OBJECTS, max_size=5) | st.lists(VALUES, max_size=5)


def exact(items: object) -> str:
    """Return a text that differs where items differ: `1` from `1.0` and `true`, a missing field from null."""
    return json.dumps(items, sort_keys=True, ensure_ascii=False)


def stored(chunk: Chunk) -> Chunk:
    """Return what is read of the chunk once it is stored."""
    return Chunk.decoded(bytes(chunk.encoded()))
