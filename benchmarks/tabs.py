"""What tabs of `stanchion web` cost its process: `python -m benchmarks.tabs [--tabs 200] [--seconds 20]`.

The page is served by a process of its own; this one opens the streams. It prints the memory of a stream, the CPU of the
server while each stream gets an event a second, and the time in which all tabs fetch the same page.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from stanchion import Stanchion
from stanchion.ops.web.access.callers import Tokens
from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.site import Site


def serve(listening: socket.socket, stop: Any) -> None:
    """Serve a page, all topics of which are new once a second."""
    app = Stanchion("memory://")
    for number in range(20):
        app.queue(f"q{number}").push_many([{"n": one} for one in range(100)])
    site = Site(app, Tokens([]))

    async def run() -> None:
        server = uvicorn.Server(uvicorn.Config(site_app(site), log_config=None, lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not stop.is_set():
            await asyncio.sleep(1)
            site.board.touch()
        site.end_streams()
        server.should_exit = True
        await serving

    asyncio.run(run())


def memory_and_cpu(pid: int) -> tuple[int, float]:
    """Return the resident bytes and the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[21]) * 4096, (int(fields[11]) + int(fields[12])) / 100


async def measure(url: str, pid: int, tabs: int, seconds: float) -> None:
    """Open the tabs, and print what they cost."""
    events = 0

    async def listen(client: httpx.AsyncClient, opened: asyncio.Semaphore) -> None:
        nonlocal events
        async with client.stream("GET", f"{url}/events?topics=verdict") as answer:
            opened.release()
            async for line in answer.aiter_lines():
                events += line == "event: stale"

    limits = httpx.Limits(max_connections=2 * tabs)
    async with httpx.AsyncClient(limits=limits, timeout=None) as client:  # noqa: S113 - a stream has no end
        page = (await client.get(url, headers={"HX-Request": "true"})).content
        before, opened = memory_and_cpu(pid)[0], asyncio.Semaphore(0)
        streams = [asyncio.create_task(listen(client, opened)) for _ in range(tabs)]
        for _ in range(tabs):
            await opened.acquire()
        await asyncio.sleep(3)
        (memory, cpu), began, heard = memory_and_cpu(pid), time.monotonic(), events
        await asyncio.sleep(seconds)
        spent, took = memory_and_cpu(pid)[1] - cpu, time.monotonic() - began
        print(f"{tabs} streams: {(memory - before) / tabs / 1000:.0f} kB each")
        print(f"{(events - heard) / took / tabs:.2f} events a second and tab: {100 * spent / took:.1f} % of a core")
        cpu, began = memory_and_cpu(pid)[1], time.monotonic()
        await asyncio.gather(*(client.get(url, headers={"HX-Request": "true"}) for _ in range(tabs)))
        spent, took = memory_and_cpu(pid)[1] - cpu, time.monotonic() - began
        print(f"{tabs} tabs fetch a page of {len(page) / 1000:.0f} kB: {1000 * took:.0f} ms, {1000 * spent:.0f} ms CPU")
        for stream in streams:
            stream.cancel()


def main() -> None:
    """Serve, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tabs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        spawn = multiprocessing.get_context("fork")
        stop = spawn.Event()
        server = spawn.Process(target=serve, args=(listening, stop))
        server.start()
        assert server.pid is not None
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        asyncio.run(measure(url, server.pid, given.tabs, given.seconds))
        stop.set()
        server.join(10)


if __name__ == "__main__":
    main()
