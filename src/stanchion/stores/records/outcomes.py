"""Outcomes: what becomes of a reserved job."""

from __future__ import annotations

from typing import NamedTuple

from stanchion.stores.records.claims import POP
from stanchion.stores.records.flows import FlowNode
from stanchion.stores.records.jobs import UNLANED, NewJob


class Commit(NamedTuple):
    """Finish a running job as done; with `jobs` it goes on as these, stored in the same step, and counts as moved.

    One that was asked to stop is cancelled instead if it has `jobs`; none of them is stored then. A job whose key is
    taken is dealt with as `push` does, but none raises DuplicateKey: "raise" is taken as "return".
    """

    id: str
    token: str
    result: str | None = None
    payload: str | None = None
    jobs: tuple[NewJob, ...] = ()

    @property
    def popped(self) -> bool:
        """True under the token of a pop; see `Claim.counted`. It counts as popped."""
        return self.token.endswith(POP)


class Rollback(NamedTuple):
    """Give a running job back, due in `delay` seconds.

    With an `error` the failure is counted and kept. `refund` takes back the attempt that the delivery
    counted; with an `error` the job is put off, which is no failure, and the error tells why. Attempts used up, the
    job is dead; cancelled meanwhile, it is cancelled.
    """

    id: str
    token: str
    delay: float
    error: str | None = None
    traceback: str | None = None
    refund: bool = False


class Move(NamedTuple):
    """Commit a running job here and enqueue it in `queue` under the same id, attempts from 0.

    `headers` None: as they are.
    """

    id: str
    token: str
    queue: str
    payload: str | None = None
    delay: float = 0.0
    lane: int = UNLANED
    headers: str | None = None


class Bury(NamedTuple):
    """End a running job as dead."""

    id: str
    token: str
    error: str
    traceback: str | None = None


class Abandon(NamedTuple):
    """End a running job as cancelled."""

    id: str
    token: str
    reason: str = ""


class Continue(NamedTuple):
    """Let a running job go on as another call, under its id: the call that its task has returned.

    One that was asked to stop is cancelled instead.

    `job` says what it is from now on. `nodes` and `jobs` are the rest of the flow that leads to that call.
    """

    id: str
    token: str
    job: NewJob
    nodes: tuple[FlowNode, ...] = ()
    jobs: tuple[NewJob, ...] = ()


class Extend(NamedTuple):
    """Renew the lease of a running job: it ends in `seconds`."""

    id: str
    token: str
    seconds: float


class Progress(NamedTuple):
    """Record how far a running job is, from 0 to 1."""

    id: str
    token: str
    value: float


Renewal = Extend | Progress
"""The reservation goes on."""

Ending = Commit | Rollback | Move | Bury | Abandon | Continue
"""The reservation is over."""

Outcome = Ending | Renewal
