"""Outcomes as messages, with the two that only a receiver reports, and what else the streams of receivers carry."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import Lease
from stanchion.stores.records.outcomes import (
    Abandon,
    Bury,
    Commit,
    Continue,
    Extend,
    Move,
    Outcome,
    Pass,
    Passage,
    Progress,
    Rollback,
    Tally,
    Ties,
)
from stanchion.stores.wire.codec import SECONDS, Codec, Part
from stanchion.stores.wire.jobs import LEASE, NEW_JOB, NODE
from stanchion.stores.wire.messages import build, pb
from stanchion.stores.wire.store import LANE_RANGE, WORKER


class Refused(NamedTuple):
    """The receiver did not begin the job, as it came too late or from a former owner: give it back, uncounted."""

    lease: Lease


class Elsewhere(NamedTuple):
    """The receiver has stored the outcome itself: only free its room."""

    lease: Lease


Reported = Outcome | Refused | Elsewhere
"""Reports of a receiver on a reserved job."""

_TIES: Final = {ties.value: ties for ties in Ties}

_DELAY: Final = {"delay": SECONDS}

PASSAGE: Final = Codec(Passage, pb.Passage)
TALLY: Final = Codec(Tally, pb.Tally)

_ByName = dict[str, Codec[Any, Any]]

_LEAVINGS: Final[_ByName] = {
    "commit": Codec(
        Commit,
        pb.Commit,
        leading=1,
        unsent=1,  # rows, which a client writes to the database itself
        parts={"jobs": NEW_JOB.many(), "ties": Part(lambda ties: ties.value, _TIES.get), "tallies": TALLY.many()},
    ),
    "rollback": Codec(Rollback, pb.Rollback, leading=1, parts=_DELAY),
    "move": Codec(Move, pb.Move, leading=1, parts=_DELAY),
    "bury": Codec(Bury, pb.Bury, leading=1),
    "abandon": Codec(Abandon, pb.Abandon, leading=1),
    "go_on": Codec(
        Continue,
        pb.Continue,
        leading=1,
        parts={"job": NEW_JOB.one, "nodes": NODE.many(), "jobs": NEW_JOB.many()},
    ),
}
"""The outcomes by which a job leaves a queue that it has passed, too."""


def _carry_leaving(outcome: object) -> dict[str, object]:
    name = _NAMES[type(outcome)]
    return {name: _LEAVINGS[name].fields(outcome)}


def _take_leaving(message: pb.Leaving) -> Outcome:
    """Return how a job leaves the last queue that it has passed, under an empty lease."""
    name = message.WhichOneof("kind")
    if name is None:
        raise InvalidInput("a job leaves a queue by no outcome that this release knows; upgrade stanchion")
    outcome: Outcome = _LEAVINGS[name].taken(getattr(message, name), _NO_LEASE)
    return outcome


_NO_LEASE: Final = Lease("", "", "")

_KINDS: Final[_ByName] = {
    **_LEAVINGS,
    "extend": Codec(Extend, pb.Extend, leading=1, parts={"seconds": SECONDS}, names={"seconds": "lease_us"}),
    "progress": Codec(Progress, pb.Progress, leading=1),
    "pass_through": Codec(
        Pass,
        pb.Pass,
        leading=1,
        parts={"passages": PASSAGE.many(), "then": Part(_carry_leaving, _take_leaving)},
    ),
    "refused": Codec(Refused, pb.Refused, leading=1),
    "elsewhere": Codec(Elsewhere, pb.Elsewhere, leading=1),
}
_NAMES: Final = {codec.record: name for name, codec in _KINDS.items()}
_ONLY_REPORTED: Final = ("refused", "elsewhere")


def outcome_fields(outcome: Reported) -> dict[str, object]:
    """Return the fields of the message for an outcome, as `build` takes them."""
    name = _NAMES[type(outcome)]
    queue, job, token = outcome.lease
    return {"id": job, "token": token, "queue": queue, name: _KINDS[name].fields(outcome)}


def to_message(outcome: Reported) -> pb.Outcome:
    """Return the message for an outcome. InvalidInput if it can't carry a value."""
    return build(pb.Outcome, outcome_fields(outcome))


def reported(message: pb.Outcome) -> Reported:
    """Return the outcome in a message from a receiver's stream. InvalidInput if it has no kind."""
    name = message.WhichOneof("kind")
    if name is None:
        raise InvalidInput(f"the outcome of job {message.id} has no kind that this release knows; upgrade stanchion")
    lease = Lease(message.queue, message.id, message.token)
    outcome: Reported = _KINDS[name].taken(getattr(message, name), lease)
    return outcome._replace(then=outcome.then._replace(lease=lease)) if isinstance(outcome, Pass) else outcome


def _settled(message: pb.Outcome) -> Outcome:
    outcome = reported(message)
    if isinstance(outcome, (Refused, Elsewhere)):
        raise InvalidInput(f"the outcome {message.WhichOneof('kind')} belongs into the stream of a receiver")
    return outcome


OUTCOMES: Final = Part(
    lambda outcomes: list(map(outcome_fields, outcomes)), lambda messages: list(map(_settled, messages))
)
"""Several outcomes to settle."""

REPORTED: Final = Part(OUTCOMES.carry, lambda messages: list(map(reported, messages)))
"""Several outcomes that a receiver reports."""


HELD: Final = LEASE.many(list)
"""Reserved jobs."""

LANES: Final = LANE_RANGE.many(list)
"""The lanes of queues that are served in part."""

WORKER_ROW: Final[Part] = WORKER.one
"""How a receiver is listed among the workers."""

LARGEST: Final = 1024 * 1024
"""Bytes of jobs or outcomes in one message, unless a single one takes more."""
