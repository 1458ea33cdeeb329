"""Which session each slice of a queue belongs to: rendezvous hashing with a cap.

A pure function of the queue, the number of its slices, and the sessions alive. The definition, for other
implementations (`tests/data/slice_assignments.json` has test vectors):

1. The score of a session for a slice is the first 8 bytes, as a big-endian number, of the SHA-256 of
   `session LF name`, both in UTF-8. `name` is the name of the slice's value, see `slices.value_name`.
2. All pairs of a session and a slice are taken by descending score; equal scores by ascending session, in the order of
   code points, then by ascending number of the slice.
3. A pair is taken if its slice has no session yet, and its session has fewer than `floor(S / n)` slices; or exactly as
   many, and fewer than `S mod n` sessions have more. S: slices of the queue; n: sessions.

So no session has more than `ceil(S / n)` slices of a queue and none less than `floor(S / n)`, and few change hands when
a session comes or goes. Queues do not depend on each other: one that comes or goes moves no slice of another.

Rendezvous hashing: Thaler and Ravishankar, 1998.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from stanchion.manager.leadership.slices import value_name


@lru_cache(maxsize=10_000)
def assignment(queue: str, count: int, sessions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the session of each of the `count` slices of a queue, by number; `sessions` are sorted and not empty."""
    least, more = divmod(count, len(sessions))
    number_of = dict.fromkeys(sessions, 0)
    found: list[str | None] = [None] * count
    for _, session, number in sorted(_scores(queue, count, sessions)):
        most = least + (more > 0)
        if found[number] is not None or number_of[session] >= most:
            continue
        if number_of[session] == least:
            more -= 1
        found[number] = session
        number_of[session] += 1
    return tuple(filter(None, found))


def _scores(queue: str, count: int, sessions: tuple[str, ...]) -> list[tuple[int, str, int]]:
    """Return session and slice of each pair behind its negative score."""
    names = [value_name(queue, number) for number in range(count)]
    return [(-score(session, name), session, number) for session in sessions for number, name in enumerate(names)]


def score(session: str, name: str) -> int:
    """Return the score of a session for a slice, by the name of its value."""
    return int.from_bytes(sha256(f"{session}\n{name}".encode()).digest()[:8])
