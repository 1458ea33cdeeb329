"""What a server reads for a call: each command that it gets, those of scripts too, and what each of them answers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager

from stanchion.stores.redis.store import RedisStore

_LINE = re.compile(rb"^[\d.]+ \[(\d+) [^\]]*\] (.*)$", re.S)
_PART = re.compile(rb'"(?:[^"\\]|\\.)*"', re.S)
_END = b"end of what is counted"
_MANY = frozenset(
    {
        *("ZRANGE", "ZREVRANGE", "ZRANGEBYLEX", "ZREVRANGEBYLEX", "ZRANGEBYSCORE", "SMEMBERS"),
        *("HGETALL", "HKEYS", "HVALS", "HSCAN"),
    }
)
"""Commands that may answer by more than they are asked for by name."""


class Reads:
    """The commands that a store was sent while a block ran."""

    def __init__(self, store: RedisStore) -> None:
        self._client = store.server.client
        self.commands: list[list[bytes]] = []

    def count(self) -> int:
        """Return how many entries these commands name or find, as far as the store still has them."""
        return sum(len(parts) + self._found(parts) for parts in self.commands)

    def _found(self, parts: list[bytes]) -> int:
        return len(self._client.execute_command(*parts)) if parts[0].decode().upper() in _MANY else 0


@contextmanager
def reads_of(store: RedisStore) -> Iterator[Reads]:
    """Record the commands of this store while the block runs."""
    reads, client = Reads(store), store.server.client
    own = client.connection_pool.connection_kwargs["db"]
    with client.monitor() as monitor:
        yield reads
        client.echo(_END)
        while True:
            line = _LINE.match(monitor.connection.read_response())
            assert line is not None
            parts = [ast.literal_eval("b" + part.decode()) for part in _PART.findall(line[2])]
            if parts[-1] == _END:
                return
            if int(line[1]) == own:
                reads.commands.append(parts)
