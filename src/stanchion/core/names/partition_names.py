"""The names of partitions: "orders#3" is partition 3 of the queue "orders"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

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
            f"the name of a queue with partitions has at most {_LONGEST} characters, as the names of partitions are "
            f"longer; {queue[:20]!r}... has {len(queue)}"
        )
    return queue


def checked_queue(value: object, what: str = "queue") -> str:
    """Return the name of a queue as given. Raises InvalidInput for one that only a partition may have."""
    name = checked_name(value, what)
    if _MARK in name and partition_number(name) is not None:
        refuse_partition(name, what)
    return name


def is_queue(name: str) -> bool:
    """Return whether a queue may have this name; other programs may have stored others."""
    try:
        checked_queue(name)
    except InvalidInput:
        return False
    return True


def refuse_partition(name: str, what: str = "queue") -> NoReturn:
    """Raise the error for a name that only a partition may have."""
    raise InvalidInput(
        f"{what} {name!r} is named like a partition: name the queue itself, {logical_name(name)!r}, "
        f"or do not end a name with {_MARK} and a number"
    )


_RANGE = re.compile(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", re.ASCII)


def numbers_in(text: object, queue: str) -> list[int]:
    """Return the numbers of partitions in a text such as "0-3,8". Raises InvalidInput."""
    numbers: list[int] = []
    for part in text.split(",") if isinstance(text, str) else [""]:
        found = _RANGE.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < MAX_PARTITIONS:
            raise InvalidInput(
                f"the partitions of queue {queue!r} are a text such as '0-3,8', of numbers below {MAX_PARTITIONS}, "
                f"not {text!r}"
            )
        numbers += range(first, last + 1)
    return numbers


def ranges_of(numbers: Sequence[int]) -> str:
    """Return ascending numbers as a text such as "0-3,8"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
