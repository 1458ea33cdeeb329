"""Calls of managers: deadlines, the next host when one is away, and safe repeats."""

from __future__ import annotations

import random
import time
from typing import Any

import grpc

from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.client.forking import LIBRARY
from stanchion.stores.records import calls
from stanchion.stores.wire.calls import CALLS, Call
from stanchion.stores.wire.messages import Message, pb, read, written
from stanchion.stores.wire.statuses import METADATA, error_of
from stanchion.stores.wire.transport import REPLY_TOO_LARGE, REQUEST_BYTES

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5
_SHORTEST = 0.001
"""Seconds of a deadline that has passed already."""

_AWAY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
"""Statuses of a call whose manager, or the connection to it, is gone: it may have been carried out."""


class ReplyTooLarge(Exception):
    """The reply is over the largest one; ask for less."""


class RequestTooLarge(InvalidInput):
    """The request is over the largest message; pass fewer jobs."""


class Calls:
    """Calls the verbs of whichever manager answers.

    A call whose reply is lost is repeated, at the next host if there are several: jobs are known by their ids, claims
    by their tokens, outcomes by theirs; other verbs may be carried out twice without harm.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def make(self, verb: str, seconds: float | None = None, /, **arguments: object) -> Any:
        """Call a verb within `seconds` (CALL_SECONDS); return its result.

        Raises the manager's error, and StoreUnavailable if no manager answers.
        """
        return self.make_repeatable(verb, seconds, **arguments)[0]

    def make_repeatable(self, verb: str, seconds: float | None = None, /, **arguments: object) -> tuple[Any, bool]:
        """The same; return also whether an earlier try may have been carried out."""
        call, pause, again = CALLS[verb], _FIRST_PAUSE, False
        request = call.request(arguments)
        deadline = time.monotonic() + (calls.CALL_SECONDS if seconds is None else seconds)
        while True:
            hosts = self._channels.hosts()
            for number, host in enumerate(hosts):
                # One that hangs leaves time for the others.
                share = (deadline - time.monotonic()) / (len(hosts) - number)
                try:
                    result = self._ask(host, call, request, share)
                except grpc.RpcError as error:
                    failure = self.failure(host, error)
                    if error.code() in _AWAY and not again:
                        again = True
                        _mark(request)
                else:
                    if number:
                        self._channels.prefer(host)
                    return result, again
            if failure.lasting or time.monotonic() + pause > deadline:
                raise failure
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            pause = min(pause * 2, _LONGEST_PAUSE)

    def once(self, verb: str, **arguments: object) -> Any:
        """Call a verb that must not be repeated after a lost reply."""
        call, host = CALLS[verb], self._channels.hosts()[0]
        try:
            return self._ask(host, call, call.request(arguments), calls.CALL_SECONDS)
        except grpc.RpcError as error:
            self._channels.avoid(host)
            raise self.failure(host, error) from None

    def _ask(self, host: str, call: Call, request: Message, seconds: float) -> object:
        data = written(request)
        if len(data) > REQUEST_BYTES:
            raise RequestTooLarge(
                f"this call takes {len(data):,} bytes, and a manager accepts {REQUEST_BYTES:,} per call; pass fewer "
                f"jobs at a time, or smaller payloads"
            )
        while True:
            ask = self._channels.call(host, call.method)
            try:
                with LIBRARY.used():
                    reply = ask(data, timeout=max(seconds, _SHORTEST), metadata=self._channels.metadata)
            except ValueError:
                if self._channels.is_open(host, call.method, ask):
                    raise
            else:
                return call.result(read(call.method.reply, reply))

    def failure(self, host: str, error: grpc.RpcError) -> StoreUnavailable:
        """Return the error after which another try may help; raise any other."""
        trailing = tuple((one.key, one.value) for one in error.trailing_metadata() or ())
        if any(key == REPLY_TOO_LARGE for key, _ in trailing):
            raise ReplyTooLarge(error.details())
        said = self._channels.address.without_token(" ".join(str(error.details()).split()))
        found = error_of(error.code().value[0], said, trailing)
        if not isinstance(found, StoreUnavailable):
            raise found from None
        if any(key == METADATA for key, _ in trailing):
            return found  # the store of the manager is unavailable, or the manager refuses the call
        return StoreUnavailable(
            f"can't use the manager {host}: {said}; check the URL, and that the manager runs", lasting=found.lasting
        )


def _mark(request: Message) -> None:
    """Say in a request that an earlier try may have been carried out."""
    if isinstance(request, pb.PushRequest | pb.FinishRequest):
        request.repeat = True
    elif isinstance(request, pb.ReserveRequest):
        request.claim.repeat = True
