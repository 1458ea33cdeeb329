"""Ids: of jobs, UUID version 7, strictly increasing within a process; of workers and consumers."""

from __future__ import annotations

import os
import re
import threading
import time
from hashlib import sha256
from typing import Final

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of all ids of jobs."""

_lock = threading.Lock()
_last = 0
_random = b""
"""Random bytes to use. Each call of the system for some lets another thread go first."""

_tokens: list[str] = []
"""Tokens to use, drawn together for the same reason: the claimer of a worker needs one for each claim."""
_TOKEN_BYTES = 8

_RANDOM_BITS = 74  # 12 bits of rand_a and 62 bits of rand_b around the version and the variant
_LAST_GROUP = (1 << 48) - 1
_RANDOM_BYTES, _AT_ONCE = 10, 64


def new_ids(count: int) -> list[str]:
    """Return `count` ids in ascending order.

    RFC 9562, section 6.2, method 2 (monotonic random): the first id of a millisecond is random, each
    further one adds one, even if the clock is set back. The clock only orders the ids of one process;
    the store's clock decides which jobs are due.
    """
    return [f"{head}{number:012x}" for head, low, some in id_spans(count) for number in range(low, low + some)]


def id_spans(count: int) -> list[tuple[str, int, int]]:
    """Return `count` ids as `new_ids` does, in spans: all but the last group, the number in the last one, how many.

    Each further id of a span adds one to that number, which has twelve hexadecimal digits.
    """
    first = _first_of(count)
    end, spans = first + count, []
    while first < end:
        shared, low = first >> 48, first & _LAST_GROUP
        stop = min(end, (shared + 1) << 48)
        spans.append((_head(shared), low, stop - first))
        first = stop
    return spans


def new_id() -> str:
    """Return one id."""
    number = _first_of(1)
    return f"{_head(number >> 48)}{number & _LAST_GROUP:012x}"


_ROOM_BITS, _TURN_BITS = 36, 16
"""What is left of an id's random bits keeps the rooms of different processes apart: 37."""
PLACES: Final = 1 << _ROOM_BITS - _TURN_BITS
"""Places in the room of an id."""


def new_id_with_room() -> str:
    """Return one id, behind which there is room for the ids of parts: see `id_within`.

    For jobs of which a process makes few a millisecond: two processes may make the same one of 2**37 then.
    """
    first = _first_of(2 << _ROOM_BITS)
    return _text(-(-first >> _ROOM_BITS) << _ROOM_BITS)


def id_within(one: str, place: int) -> str:
    """Return a new id for a part of a job that has an id with room, or itself one within that room.

    `place`: of the first item of the part among all that were pushed together. Ids within a room are in the order of
    their places. Of parts with the same place only one may exist at a time, and come from the one before.
    """
    number = int(one.replace("-", ""), 16)
    number = (number >> 80 << _RANDOM_BITS) | (number >> 64 & 0xFFF) << 62 | number & (1 << 62) - 1
    room, turn = number >> _ROOM_BITS << _ROOM_BITS, number & (1 << _TURN_BITS) - 1
    place = min(place, PLACES - 1)
    if number >> _TURN_BITS == (room >> _TURN_BITS) + place:
        turn = (turn + 1) % (1 << _TURN_BITS)  # none that its line has had: a job with a known id is not stored again
    else:
        turn = int.from_bytes(os.urandom(_TURN_BITS // 8)) >> 1
    return _text(room | place << _TURN_BITS | turn)


def id_named(name: str, moment: int) -> str:
    """Return the id that belongs to a name and a time in microseconds, so that a repeated push makes no second job."""
    digest = int.from_bytes(sha256(name.encode()).digest()[:_RANDOM_BYTES]) >> (8 * _RANDOM_BYTES - _RANDOM_BITS + 1)
    number = (moment // 1000 << _RANDOM_BITS) | digest
    return f"{_head(number >> 48)}{number & _LAST_GROUP:012x}"


def _first_of(count: int) -> int:
    """Return the first of `count` consecutive numbers that this process has not used."""
    global _last, _random
    moment = time.time_ns() // 1_000_000
    with _lock:
        if not _random:
            _random = os.urandom(_AT_ONCE * _RANDOM_BYTES)
        drawn, _random = _random[:_RANDOM_BYTES], _random[_RANDOM_BYTES:]
        # The top random bit stays clear, so that a whole batch fits in before the counter overflows.
        fresh = (moment << _RANDOM_BITS) | (int.from_bytes(drawn) >> (8 * _RANDOM_BYTES - _RANDOM_BITS + 1))
        first = max(fresh, _last + 1)
        _last = first + count - 1
    return first


def _in_forked_child() -> None:
    """Reset counter, random bytes and tokens: parent and child would otherwise create the same ids and tokens."""
    global _last, _lock, _random
    _last, _lock, _random = 0, threading.Lock(), b""
    _tokens.clear()


os.register_at_fork(after_in_child=_in_forked_child)


def _head(shared: int) -> str:
    """Return all but the last group of an id."""
    moment, a, b = shared >> 26, shared >> 14 & 0xFFF, shared & 0x3FFF
    return f"{moment >> 16:08x}-{moment & 0xFFFF:04x}-7{a:03x}-{0x8000 | b:04x}-"


NAME_MAX = 100
"""Characters of the name of a worker or a consumer, which leaves room for the rest of its id."""


def process_id(name: str) -> str:
    """Return an id for a worker or consumer of this name in this process; no other one gets the same."""
    return f"{name}-{os.getpid()}-{os.urandom(4).hex()}"


def beside(one: str, distance: int) -> str:
    """Return the id at a distance from another one. Ids at the same distance from others are in the order of those.

    Distances below 2**72 stay within the millisecond of an id of this process.
    """
    number = int(one.replace("-", ""), 16)
    moment, a, b = number >> 80, number >> 64 & 0xFFF, number & (1 << 62) - 1
    return _text((moment << _RANDOM_BITS | a << 62 | b) + distance)


def first_id_at(micros: int) -> str:
    """Return the lowest id of a time, given in microseconds since 1970."""
    return _text(max(0, micros) // 1000 << _RANDOM_BITS)


def _text(number: int) -> str:
    number &= (1 << 48 + _RANDOM_BITS) - 1
    return f"{_head(number >> 48)}{number & _LAST_GROUP:012x}"


def new_token() -> str:
    """Return a fencing token for one reservation, which nobody can guess."""
    try:
        return _tokens.pop()
    except IndexError:
        drawn = os.urandom(_AT_ONCE * _TOKEN_BYTES).hex()
        token, *others = (drawn[n : n + 2 * _TOKEN_BYTES] for n in range(0, len(drawn), 2 * _TOKEN_BYTES))
        _tokens.extend(others)
        return token
