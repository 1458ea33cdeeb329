"""The names of partitions: "orders#3" is partition 3 of the queue "orders"."""

from __future__ import annotations

from typing import Any

from stanchion.core.checks import MAX_NAME, checked_name
from stanchion.errors import InvalidInput

_MARK = "#"

MAX_PARTITIONS = 1024

_LONGEST = MAX_NAME - len(f"{_MARK}{MAX_PARTITIONS - 1}")


def partition_name(queue: str, number: int) -> str:
    """Return the name of a partition."""
    return f"{queue}{_MARK}{number}"


def logical_name(queue: str) -> str:
    """Return the queue that a partition belongs to; another name as given."""
    return queue if _MARK not in queue or partition_number(queue) is None else queue.rpartition(_MARK)[0]


def partition_number(queue: str) -> int | None:
    """Return the number of a partition by its name; None for any other name."""
    before, mark, digits = queue.rpartition(_MARK)
    if not mark or not before or not digits.isascii() or not digits.isdigit():
        return None
    number = int(digits)
    return number if digits == str(number) and number < MAX_PARTITIONS else None


def checked_partitioned(queue: str) -> str:
    """Return the name of a queue that is to have partitions. Raises InvalidInput if theirs would be too long."""
    if len(queue) > _LONGEST:
        raise InvalidInput(
            f"the name of a queue with partitions has at most {_LONGEST} characters, as those of the partitions are "
            f"longer; {queue[:20]!r}... has {len(queue)}"
        )
    return queue


def checked_queue(value: Any, what: str = "queue") -> str:
    """Return the name of a queue as given. Raises InvalidInput for one that only a partition may have."""
    name = checked_name(value, what)
    if _MARK in name and partition_number(name) is not None:
        raise InvalidInput(
            f"{what} {name!r} is named like a partition: name the queue itself, {logical_name(name)!r}, "
            f"or do not end a name with {_MARK} and a number"
        )
    return name
