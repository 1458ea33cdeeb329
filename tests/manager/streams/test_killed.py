"""A receiver that is killed: its stream ends with one error, and none is left over for the log."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stanchion.manager.server.streams.receivers import Receivers


def test_both_ends_of_a_broken_stream_are_one_error() -> None:
    told: list[dict[str, Any]] = []

    async def broken(*_: object) -> None:
        raise ConnectionResetError("gone")

    async def served() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context))
        streams = cast("Any", Receivers.__new__(Receivers))
        streams.engine, streams._read = None, broken
        outgoing = SimpleNamespace(close=lambda: None)
        stream = SimpleNamespace(write=broken, over=loop.create_future(), outgoing=outgoing)
        with pytest.raises(ConnectionResetError):
            await streams._serve(None, stream)
        del stream
        gc.collect()

    asyncio.run(served())
    gc.collect()
    assert told == []
