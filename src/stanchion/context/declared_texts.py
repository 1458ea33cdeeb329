"""What code declares, as stored for those who have not the code: one versioned value for each name."""

from __future__ import annotations

from collections.abc import Mapping

from stanchion.stores.protocol import Store


def keep(store: Store, kind: str, texts: Mapping[str, str]) -> None:
    """Store texts by their names, those that differ from what is stored; over another process, the last one wins."""
    left = dict(texts)
    while left:
        known = {value.name: value for value in store.values(kind, [*left])}
        for name, text in [*left.items()]:
            before = known.get(name)
            same = before is not None and before.text == text
            if same or store.compare_and_set(kind, name, text, 0 if before is None else before.version):
                del left[name]
