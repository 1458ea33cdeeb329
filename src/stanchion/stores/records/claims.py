"""Claims: what is asked of a queue, and what was handed out."""

from __future__ import annotations

from typing import NamedTuple

from stanchion.stores.records.jobs import JobRow


class Claim(NamedTuple):
    """A wish for up to `limit` due jobs of one queue, under a fresh `token`.

    Held by the live `worker` of that id, or, where `worker` is None, for `lease` seconds (the queue's
    own lease where that is None too). A `repeat`, after a call that was never answered, gives the jobs
    that the token holds already, if any. `lanes`: the first and the last lane to take them from; None for all.
    `rows` False: only the number of jobs under the token is wanted, not the jobs, and one that has lost its lease
    twice or more is handed out with the others. `full`: slots of which none is free. A store may leave out the jobs
    that wait for one of them first; it is for the stores alone to set.
    """

    queue: str
    limit: int
    token: str
    worker: str | None = None
    lease: float | None = None
    repeat: bool = False
    lanes: tuple[int, int] | None = None
    full: tuple[str, ...] = ()
    rows: bool = True


class Claimed(NamedTuple):
    """The jobs claimed, in order; `retry_in`: seconds until a limit of the queue may allow more.

    It is 0 where the call has met so many jobs that must wait for something that it broke off: ask again at once.
    `reserved`: how many jobs are reserved under the token, where the claim has asked for no rows.
    """

    rows: list[JobRow]
    retry_in: float | None = None
    reserved: int = 0
