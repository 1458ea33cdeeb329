"""Claims: what is asked of a queue, and what was handed out."""

from __future__ import annotations

from typing import Final, NamedTuple

from stanchion.stores.records.jobs import JobRow

POP: Final = "-"
"""Ends the token of a claim whose jobs are committed before anybody gets them; see `Claim.counted`."""


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

    @property
    def counted(self) -> bool:
        """False where the token is that of a pop: the delivery is not counted as reserved, and is no attempt if lost.

        The commit counts the job as popped. The token says so, as it is stored with the job: a lease that runs out
        gives the attempt back.
        """
        return not self.token.endswith(POP)


class Claimed(NamedTuple):
    """The jobs claimed, in order; `retry_in`: seconds until a limit of the queue may allow more.

    It is 0 where the call has met so many jobs that must wait for something that it broke off: ask again at once.
    `reserved`: how many jobs are reserved under the token, where the claim has asked for no rows.
    """

    rows: list[JobRow]
    retry_in: float | None = None
    reserved: int = 0
