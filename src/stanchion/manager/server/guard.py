"""Allowed callers and their concurrency: decided before a request is received."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from stanchion.errors import StoreUnavailable
from stanchion.manager.server.settings import ServerSettings
from stanchion.manager.server.tokens import Caller
from stanchion.stores.wire.statuses import Status

STOPPING = "this manager is stopping; call another one"


class CallContext(Protocol):
    """A call of gRPC under way: its messages are bytes."""

    async def read(self) -> Any:
        """Return the next message, or `grpc.aio.EOF`."""

    async def write(self, message: bytes, /) -> None: ...

    async def abort(self, code: Any, details: str, trailing_metadata: Any, /) -> object: ...

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...

    def auth_context(self) -> Mapping[str, Sequence[bytes]]: ...


class Refused(StoreUnavailable):
    """A call is refused with this status; to the client the store is unavailable. `beside`: further metadata."""

    def __init__(
        self, status: Status, message: str, *, lasting: bool = False, beside: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message, lasting=lasting)
        self.status, self.beside = status, beside


class Room:
    """A bound on concurrent calls."""

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self.taken = 0

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Count one more for the block; Refused if there is no room."""
        if self.taken >= self._most:
            raise Refused(
                Status.RESOURCE_EXHAUSTED,
                f"this manager has {self._most:,} {self._what}, as many as it takes; try again later or at another "
                f"manager",
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class Guard:
    """Knows the callers by their tokens or certificates, and counts their calls."""

    def __init__(self, settings: ServerSettings) -> None:
        self._tokens = settings.tokens
        self._mutual = settings.tls is not None and settings.tls.callers_authority is not None
        self.calls = Room(settings.limits.calls, "calls under way")
        self.streams = Room(settings.limits.streams, "callers listening")
        self.draining = False

    def caller_of(self, context: CallContext) -> Caller:
        """Return who calls; Refused for an unknown caller, and while the manager drains."""
        if self.draining:
            raise Refused(Status.UNAVAILABLE, STOPPING)
        if self._tokens:
            return self._by_token(context)
        if self._mutual:
            names = context.auth_context().get("x509_common_name") or [b"a certificate without a name"]
            return Caller(names[0].decode(errors="replace"))
        return Caller("anyone")

    def _by_token(self, context: CallContext) -> Caller:
        given = next((value for key, value in context.invocation_metadata() or () if key == "authorization"), None)
        scheme, _, secret = str(given or "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Refused(
                Status.UNAUTHENTICATED,
                "this manager takes calls with a token only: send the metadata 'authorization: Bearer TOKEN', or give "
                "the client grpc://host?token=TOKEN or STANCHION_MANAGER_TOKEN",
                lasting=True,
            )
        caller = self._tokens.caller_of(secret.strip())
        if caller is None:
            raise Refused(
                Status.UNAUTHENTICATED, "this manager does not know the token; check it for mistakes", lasting=True
            )
        return caller
