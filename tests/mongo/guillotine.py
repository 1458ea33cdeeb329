"""Cuts a verb of the store between two commands, in the middle of one, or loses the answer of one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect

READS = ("find", "find_one", "aggregate", "distinct", "count_documents")
COMMANDS = (
    *READS,
    *("insert_one", "insert_many", "update_one", "update_many", "bulk_write"),
    *("delete_one", "delete_many", "find_one_and_update"),
)
BATCHES = ("insert_many", "bulk_write")
BY_IDS = ("update_many", "delete_many")

Command = Callable[..., Any]
Way = Callable[..., Any]


class Killed(BaseException):
    """The process ends here; nothing in the store catches it."""


def before(_name: str, _command: Command, *_args: Any, **_options: Any) -> Any:
    """Die before the command."""
    raise Killed


def halfway(name: str, command: Command, *args: Any, **options: Any) -> Any:
    """Die when the server has done half of the batch."""
    collection, whole, *rest = args
    if name in BATCHES:
        command(collection, whole[: len(whole) // 2], *rest, **options)
    else:
        ids = whole["_id"]["$in"]
        command(collection, {**whole, "_id": {"$in": ids[: len(ids) // 2]}}, *rest, **options)
    raise Killed


def _has_halves(name: str, args: tuple[Any, ...]) -> bool:
    if name in BATCHES:
        return len(args[1]) > 1
    return name in BY_IDS and len(dict(args[1].get("_id", ())).get("$in", ())) > 1


def unanswered(_name: str, command: Command, *args: Any, **options: Any) -> Any:
    """Lose the connection when the command is done, before the answer."""
    command(*args, **options)
    raise AutoReconnect("the connection was cut")


def after(meanwhile: Callable[[], Any]) -> Way:
    """Return a way to let something else happen before the command."""

    def way(_name: str, command: Command, *args: Any, **options: Any) -> Any:
        meanwhile()
        return command(*args, **options)

    return way


class Guillotine:
    """Stands between the store and the driver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands = 0
        self.writes: list[int] = []
        """The commands of the last block that write. What fails at another finds what the write before it has left."""
        self.divisible: list[int] = []
        """Those of them that can be half done."""
        self._at: int | None = None
        self._way: Way = before
        self._thread = threading.get_ident()
        for name in COMMANDS:
            monkeypatch.setattr(Collection, name, self._guarded(name, getattr(Collection, name)))

    @contextmanager
    def falls(self, at: int, way: Way) -> Iterator[None]:
        """Let it fall on the command of that number in the block, counted from 1."""
        self.commands, self.writes, self.divisible, self._at, self._way = 0, [], [], at, way
        try:
            yield
        finally:
            self._at = None

    def _guarded(self, name: str, command: Command) -> Command:
        def run(*args: Any, **options: Any) -> Any:
            if self._at is None or threading.get_ident() != self._thread:
                return command(*args, **options)
            self.commands += 1
            if name not in READS:
                self.writes.append(self.commands)
            if _has_halves(name, args):
                self.divisible.append(self.commands)
            at, self._at = self._at, None  # what a command calls in turn is part of it
            try:
                return self._way(name, command, *args, **options) if self.commands == at else command(*args, **options)
            finally:
                self._at = at

        return run
