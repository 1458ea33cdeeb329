"""A TCP proxy whose network fails on demand."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self

CHUNK = 64 * 1024
SWITCH_SECONDS = 10
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class TcpProxy:
    """Forwards a free loopback port to the target, until told to misbehave.

    Each switch has taken effect when it returns.
    """

    def __init__(self, target_host: str, target_port: int) -> None:
        self.accepted = 0
        self._target = (target_host, target_port)
        self._connections: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._listener: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._thread.start()
        self.port = 0
        self.pass_through()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def active(self) -> int:
        """The number of client connections open now; `accepted` is that of all so far."""
        return len(self._connections)

    def pass_through(self) -> None:
        """Accept and forward; what a black hole withheld flows again."""
        self._switch(self._pass_through())

    def drop(self) -> None:
        """Close every connection and refuse new ones."""
        self._switch(self._drop())

    def black_hole(self) -> None:
        """Accept and keep connections, and forward nothing, not even their end, in either direction."""
        self._switch(self._black_hole())

    def reset(self) -> None:
        """Reset every connection, on both sides; new ones are treated as before."""
        self._switch(self._end_connections(reset=True))

    def close(self) -> None:
        """End every connection and stop; a second call does nothing."""
        if self._loop.is_closed():
            return
        self.drop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _switch(self, change: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(change, self._loop).result(SWITCH_SECONDS)

    async def _pass_through(self) -> None:
        await self._listen()
        self._flowing.set()

    async def _black_hole(self) -> None:
        self._flowing.clear()
        await self._listen()

    async def _drop(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self._end_connections(reset=False)

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._listener.sockets[0].getsockname()[1]

    async def _end_connections(self, *, reset: bool) -> None:
        if reset:
            for writers in self._connections.values():
                for writer in writers:
                    with contextlib.suppress(OSError):  # one side may have closed already
                        set_option = writer.get_extra_info("socket").setsockopt
                        set_option(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the aborted transports close their sockets in this turn of the loop

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._listener is None:  # dropped since it was accepted
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self.accepted += 1
        writers = self._connections[task] = [writer]
        try:
            await self._flowing.wait()
            target_reader, target_writer = await asyncio.open_connection(*self._target)
            writers.append(target_writer)
            await asyncio.gather(self._pump(reader, target_writer), self._pump(target_reader, writer))
        except OSError:
            await self._flowing.wait()
        finally:
            for each in writers:
                each.transport.abort()
            del self._connections[task]

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = b"-"
        while data:
            data = await reader.read(CHUNK)
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
