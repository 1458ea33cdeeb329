"""Versioned values in Redis: one hash per kind, independent of queues."""

from __future__ import annotations

from collections.abc import Iterable

from stanchion.stores.records.values import VersionedValue
from stanchion.stores.redis.client.layout import FIELD
from stanchion.stores.redis.client.server import Server


class Values:
    """Small texts by kind and name, changed by compare-and-set."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def key(self, kind: str) -> str:
        """Return the key of the values of a kind."""
        return f"{self._server.address.prefix}:values:{kind}"

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return the values of a kind, by name: all, or the known ones among `names`."""
        if names is None:
            return sorted(value_in(*one) for one in self._server.command("HGETALL", self.key(kind)).items())
        wanted = sorted(set(names))
        found = self._server.command("HMGET", self.key(kind), *wanted) if wanted else []
        named = zip(wanted, found, strict=True)
        return [value_in(name.encode(), stored) for name, stored in named if stored is not None]

    def version(self, kind: str, name: str) -> int:
        """Return the version of a value, 0 if it is absent."""
        return next((value.version for value in self.values(kind, [name])), 0)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write a value, or delete it if `text` is None, if its version is still `version`; 0: it is absent."""
        written = "" if text is None else f"{version + 1}{FIELD}{text}"

        def work(again: bool) -> bool:
            given = (name, version, int(text is not None), text or "")
            done, stands = self._server.run("compare_and_set", self.key(kind), *given)
            # A repeat after a lost reply: if the value is the one to write, the first try wrote it.
            return bool(done) or (again and stands.decode() == written)

        return self._server.call(work)


def value_in(name: bytes, stored: bytes) -> VersionedValue:
    """Return a value from its stored form."""
    version, _, text = stored.decode().partition(FIELD)
    return VersionedValue(name.decode(), text, int(version))
