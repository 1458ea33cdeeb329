"""The connection to Redis: one node or a cluster, deadlines, and safe retries."""

from __future__ import annotations

import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from redis import ConnectionPool
from redis.cluster import RedisCluster
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterError,
    ConnectionError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from stanchion.errors import StoreUnavailable
from stanchion.stores.cas.faults import Fault
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.redis.client.address import Address
from stanchion.stores.redis.client.clients import client_of, sentinels_of
from stanchion.stores.redis.client.failovers import Failovers
from stanchion.stores.redis.client.keys import Keys
from stanchion.stores.redis.client.scripts import Script, script
from stanchion.stores.rules.set_back import AHEAD

T = TypeVar("T")

# ClusterError: the cluster is down, or the client gave up on a slot that moves; each of its calls was refused.
_BUSY = (BusyLoadingError, ReadOnlyError, ClusterError, MasterDownError, TryAgainError)
_BUSY_CODES = frozenset({"READONLY", "MISCONF", "NOREPLICAS", "BUSY", "UNBLOCKED", "MOVED", "ASK"})
_HOPELESS = (AuthenticationError, AuthorizationError, NoPermissionError)
# The first word of an error is its code; redis-py makes a class of some, and drops the word. Redis 6.2 puts the line of
# a script before it.
_CODE = re.compile(r"(?:Error running script .*?: -?)?([A-Z]+)\b")
# Redis 6.2 gives these errors no code within a script.
_FORBIDDEN_IN_SCRIPTS = ("can't run this command", "can't access at least one of the keys")


class Call(NamedTuple):
    """A command, or a script with its arguments."""

    parts: tuple[object, ...]
    script: Script | None = None

    @property
    def sent(self) -> tuple[object, ...]:
        """The command for a server that has cached the script."""
        return self.parts if self.script is None else ("EVALSHA", self.script.sha, *self.parts)

    @property
    def whole(self) -> tuple[object, ...]:
        """The command with the text of the script."""
        return self.parts if self.script is None else ("EVAL", self.script.text, *self.parts)


class Server:
    """A client that runs scripts, each on the keys of one queue."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.keys = Keys(address.prefix)
        self.clock_offset = 0.0
        self._client: Any = None
        self._under_way = threading.local()
        watch = address.watch
        self._failovers = watch and Failovers(watch.service, partial(sentinels_of, address, watch), self._connect_to)

    @property
    def client(self) -> Any:
        """The redis-py client, made on first use: a Redis or a RedisCluster."""
        if self._client is None:
            self._client = client_of(self.address, self._announced)
        return self._client

    def _announced(self) -> tuple[str, int] | None:
        return None if self._failovers is None else self._failovers.master

    def _connect_to(self, master: tuple[str, int] | None) -> None:
        """Drop connections to a server that is not this master; None: all connections."""
        client = self._client
        if client is not None and (master is None or client.connection_pool.master_address not in (None, master)):
            self.close()

    def close(self) -> None:
        """Close all connections; a later call opens them again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def script(self, name: str, key: str, *arguments: object) -> Call:
        """Return a call of a script on the keys with the prefix `key`."""
        # A second key, always missing, makes the server defer a script while the keys of its slot are being migrated.
        keys = (key, f"{key}moving") if key.endswith(":") else (key,)
        return Call((len(keys), *keys, int(self.clock_offset * SECOND), *arguments), script(name))

    def run(self, name: str, key: str, *arguments: object) -> Any:
        """Run a script once."""
        call = self.script(name, key, *arguments)
        try:
            return self.client.execute_command(*call.sent)
        except NoScriptError:
            return self.client.execute_command(*call.whole)

    def all(self, calls: Sequence[Call]) -> list[Any]:
        """Send calls in one round trip, and repeat all of them if necessary; they must be safe to repeat.

        One server executes them in this order; each node of a cluster on its own.
        """
        return self.call(lambda _again: self._all(calls)) if calls else []

    def _all(self, calls: Sequence[Call]) -> list[object]:
        answers = self._piped([call.sent for call in calls])
        if unknown := [number for number, answer in enumerate(answers) if isinstance(answer, NoScriptError)]:
            first = {calls[number].script: number for number in reversed(unknown)}  # the server keeps what these send
            again = [calls[one].whole if first[calls[one].script] == one else calls[one].sent for one in unknown]
            for number, answer in zip(unknown, self._piped(again), strict=True):
                other_node = isinstance(answer, NoScriptError)  # of a cluster
                answers[number] = self.client.execute_command(*calls[number].whole) if other_node else answer
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _piped(self, commands: Iterable[tuple[object, ...]]) -> list[object]:
        with self.client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return list(pipeline.execute(raise_on_error=False))

    def together(self, calls: Sequence[Call]) -> list[object]:
        """Run calls of one script as one transaction, not on a cluster; they must be safe to repeat."""

        def work(_again: bool) -> list[object]:
            answers = self._transaction([call.sent for call in calls])
            if isinstance(answers[0], NoScriptError):  # so no script ran
                answers = self._transaction([calls[0].whole, *(call.sent for call in calls[1:])])
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
            return answers

        return self.call(work)

    def _transaction(self, commands: Iterable[tuple[object, ...]]) -> list[object]:
        with self.client.pipeline(transaction=True) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return list(pipeline.execute(raise_on_error=False))

    def command(self, *parts: object) -> Any:
        """Run a command on one key, repeated if necessary; it must be safe to repeat."""
        return self.call(lambda _again: self.client.execute_command(*parts))

    def enlist(self, name: str, *members: str, at: int | None = None, known: bool = False) -> Call:
        """Return a call that lists names in a sorted set, with a time (None: now), even if the server is out of memory.

        `known`: update present names only.
        """
        moment = "" if at is None else at
        return self.script("enlist", self.keys.own(name), moment, "1" if known else "", *members)

    def overdue(self, name: str, now: int, micros: int) -> dict[bytes, int]:
        """Return the names, with their times, in a sorted set of steps that their processes have not ended in time."""
        key, ahead = self.keys.own(name), f"({now + AHEAD}"
        ranges = self.all(
            [
                Call(("ZRANGEBYSCORE", key, "-inf", f"({now - micros}", "WITHSCORES")),
                Call(("ZRANGEBYSCORE", key, ahead, "+inf", "WITHSCORES")),
            ]
        )
        return {one: int(at) for listed in ranges for one, at in listed}

    def now(self) -> int:
        """Return the clock in microseconds; of any node in a cluster."""
        where = {"target_nodes": RedisCluster.RANDOM} if self.address.cluster else {}
        seconds, micros = self.call(lambda _again: self.client.time(**where))
        return int(seconds) * SECOND + int(micros) + int(self.clock_offset * SECOND)

    def infos(self, section: str) -> list[dict[str, object]]:
        """Return this section of INFO from each master; empty if this user may not read it."""
        where = {"target_nodes": RedisCluster.PRIMARIES} if self.address.cluster else {}

        def asked(_again: bool) -> dict[str, Any]:
            try:
                found: dict[str, object] = self.client.info(section, **where)
                return found
            except NoPermissionError:
                return {}

        found = self.call(asked)
        if not found:
            return []
        return list(found.values()) if all(isinstance(one, dict) for one in found.values()) else [found]

    def pool_of(self, key: str) -> ConnectionPool:
        """Return the connections to the node of the key."""
        if self.address.cluster:
            client = self.client
            of_node: ConnectionPool = client.get_redis_connection(client.get_node_from_key(key)).connection_pool
            return of_node
        found: ConnectionPool = self.client.connection_pool
        return found

    def call(self, work: Callable[[bool], T]) -> T:
        """Do the work, and repeat it while that is safe and may help; its argument is True after a lost reply.

        Calls within the work share its deadline.
        """
        with self._deadline() as deadline:
            return self._call(work, deadline)

    @contextmanager
    def _deadline(self) -> Iterator[float]:
        """Return the deadline of the call in progress in this thread, or of a new one."""
        if hasattr(self._under_way, "deadline"):
            yield self._under_way.deadline
            return
        self._under_way.deadline = time.monotonic() + calls.CALL_SECONDS
        try:
            yield self._under_way.deadline
        finally:
            del self._under_way.deadline

    def _call(self, work: Callable[[bool], T], deadline: float) -> T:
        pause, again = 0.01, False
        while True:
            if self._failovers is not None:
                self._failovers.await_promotion(deadline)
            try:
                return work(again)
            except RedisError as error:
                fault = _fault(error)
                if fault is Fault.OTHER:
                    raise
                if fault is Fault.HOPELESS or time.monotonic() + pause > deadline:
                    raise self._unavailable(error) from error
                again = again or fault is Fault.LOST
                if _is_read_only(error):
                    self.close()  # the master has changed: reconnect to the present one
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            pause = min(pause * 2, 0.5)

    def _unavailable(self, error: RedisError) -> StoreUnavailable:
        reason = self.address.without_password(" ".join(str(error).split()) or type(error).__name__)
        message = f"can't use the store {self.address.shown}: {reason}; {_way_out(error)}"
        return StoreUnavailable(message, lasting=_fault(error) is Fault.HOPELESS and not _is_full(error))


def _code(error: RedisError) -> str:
    found = _CODE.match(str(error)) if isinstance(error, ResponseError) else None
    return found[1] if found else ""


def _is_read_only(error: RedisError) -> bool:
    return isinstance(error, ReadOnlyError) or _code(error) == "READONLY"


def _is_forbidden(error: RedisError) -> bool:
    # Within a script, the error type does not reach the client.
    if isinstance(error, NoPermissionError) or _code(error) == "NOPERM":
        return True
    return isinstance(error, ResponseError) and any(words in str(error) for words in _FORBIDDEN_IN_SCRIPTS)


def _is_full(error: RedisError) -> bool:
    return isinstance(error, OutOfMemoryError) or _code(error) == "OOM"


def _is_unresolved(error: BaseException | None) -> bool:
    """Return whether the host is unknown; redis-py raises its error while handling the resolver's."""
    while isinstance(error, RedisError):
        error = error.__cause__ or error.__context__
    return isinstance(error, socket.gaierror)


def _fault(error: RedisError) -> Fault:
    if isinstance(error, _HOPELESS) or _is_full(error) or _is_forbidden(error) or _is_unresolved(error):
        return Fault.HOPELESS
    if isinstance(error, _BUSY) or _code(error) in _BUSY_CODES:
        return Fault.BUSY
    if isinstance(error, (ConnectionError, TimeoutError, RedisClusterException)):
        return Fault.LOST
    return Fault.OTHER


def _way_out(error: RedisError) -> str:
    if _is_full(error):
        return "give the server more memory (maxmemory), or keep less history (history_ttl), then try again"
    if _is_read_only(error):
        return "this server is a replica: give the address of the master, or wait until one is elected"
    if _is_forbidden(error):
        return "give this user of the server the commands and keys that the page on Redis names (ACL SETUSER)"
    if _code(error) == "MISCONF":
        return "the server can't write to its disk: see its log, make room, then try again"
    return "check host, port, user, password and database number in the URL, and that the server runs"
