"""Versioned values in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stanchion.stores.records.values import VersionedValue


class Values:
    """Small texts by kind and name, changed by compare-and-set; the caller holds the store's lock."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], VersionedValue] = {}

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return the values of a kind, by name: all, or the known ones among `names`."""
        if names is not None:
            found = (self._values.get((kind, name)) for name in sorted(set(names)))
            return [value for value in found if value is not None]
        return sorted(value for (its_kind, _), value in self._values.items() if its_kind == kind)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write a value, or delete it if `text` is None, if its version is still `version`; 0: it is absent."""
        if self.version(kind, name) != version:
            return False
        if text is None:
            self._values.pop((kind, name), None)
        else:
            self._values[kind, name] = VersionedValue(name, text, version + 1)
        return True

    def version(self, kind: str, name: str) -> int:
        """Return the version of a value, 0 if it is absent."""
        known = self._values.get((kind, name))
        return known.version if known else 0

    def forget(self, kind: str, unwanted: Callable[[VersionedValue], bool]) -> None:
        """Delete the unwanted values of a kind."""
        for value in self.values(kind):
            if unwanted(value):
                del self._values[kind, value.name]
