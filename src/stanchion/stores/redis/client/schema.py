"""The version of the keys, and whether a server is usable."""

from __future__ import annotations

import logging
from contextlib import suppress

from redis.exceptions import ResponseError

from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.stores.redis.client import functions
from stanchion.stores.redis.client.server import Server

log = logging.getLogger("stanchion.redis")

VERSION = 2
"""The version of the keys and their contents. From 2 on, keys of idle queues may have a TTL, which pushes end."""


class Schema:
    """Writes and checks the version of the keys, and loads the function for pushes without the package."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def setup(self, *, dry_run: bool = False) -> list[str]:
        """Write the version; return the commands for that."""
        found = self._version()
        steps = [f"SET {self._version_key} {VERSION}"] if found is None or found < VERSION else []
        if dry_run:
            return steps
        self.check()
        functions.load(self._server)  # before the version: a function of an earlier one ends no TTL
        if steps:
            self._server.command("SET", self._version_key, VERSION)
        self._warn_of_lost_writes()
        return steps

    def may_lapse(self) -> bool:
        """Return whether the keys of idle queues may have a TTL.

        Not if the server may delete some keys with a TTL before others, or before `setup` has raised the version.
        """
        found = self._server.command("GET", self._version_key)
        try:
            infos = self._server.infos("memory")
        except ResponseError:  # some hosted servers hide it
            return False
        return int(found or VERSION) >= VERSION and all(one.get("maxmemory_policy") == "noeviction" for one in infos)

    def _version(self) -> int | None:
        """Return the version of the keys; None if there is none, or no server."""
        with suppress(StoreUnavailable):
            found = self._server.command("GET", self._version_key)
            return None if found is None else int(found)
        return None

    @property
    def _version_key(self) -> str:
        return self._server.keys.own("version")

    def check(self) -> None:
        """Raise StoreUnavailable or SchemaMismatch unless the store can be used.

        Writes nothing: a server out of memory refuses writes, and must be usable to be emptied.
        """
        found = int(self._server.command("GET", self._version_key) or VERSION)
        if found > VERSION:
            raise SchemaMismatch(
                f"the keys are of version {found}, newer than this release's {VERSION}; "
                f"upgrade this process: pip install -U stanchion"
            )
        self._refuse_eviction()

    def _warn_of_lost_writes(self) -> None:
        """Log a warning if a master behind sentinels takes writes without a replica."""
        if self._server.address.watch is None:
            return
        try:
            infos = self._server.infos("replication")
        except ResponseError:  # some hosted servers hide it
            return
        if any("min_slaves_good_slaves" not in info for info in infos):  # shown only where the setting is not 0
            log.warning(
                "the master of %s takes writes without a replica, so a failover can lose acknowledged ones; "
                "set min-replicas-to-write 1 on all servers of the service",
                self._server.address.shown,
            )

    def _refuse_eviction(self) -> None:
        """Refuse a server that would delete jobs when its memory is full."""
        try:
            infos = self._server.infos("memory")
        except ResponseError:  # some hosted servers hide it
            return
        for info in infos:
            policy = str(info.get("maxmemory_policy", "noeviction"))
            if policy.startswith("allkeys"):
                raise StoreUnavailable(
                    f"the server {self._server.address.shown} deletes keys when its memory is full "
                    f"(maxmemory-policy {policy}), jobs too; set it: CONFIG SET maxmemory-policy noeviction"
                )
