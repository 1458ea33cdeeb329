"""Two shards of SQLite files, and one that can be shut."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stanchion import Stanchion

NewMap = Callable[..., str]


@pytest.fixture
def new_map(tmp_path: Path) -> NewMap:
    """Writes a map of `one`, the default, and of `two`, with the partitions 1 to 3 of the queue "orders"."""

    def written(**urls: str) -> str:
        named = {name: f"sqlite:///{name}.db?synchronous=off" for name in ("one", "two")} | urls
        lines = [f'{name} = "{url}"' for name, url in named.items()]
        text = "\n".join(['default = "one"', "[shards]", *lines, "[partitions.orders]", 'two = "1-3"'])
        (tmp_path / "shards.toml").write_text(text)
        return f"shards:///{tmp_path / 'shards.toml'}"

    return written


@pytest.fixture
def url(new_map: NewMap) -> str:
    """Two shards, with their schema; "orders" has four partitions."""
    url = new_map()
    with closing(Stanchion(url)) as app:
        app.queue("orders", partitions=4)
        app.setup()
    return url


@pytest.fixture
def app(url: str) -> Iterator[Stanchion]:
    with closing(Stanchion(url)) as app:
        yield app


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
