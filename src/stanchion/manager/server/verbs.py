"""The verbs of the port as a manager carries them out: within bounds of time, rows and bytes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from stanchion.errors import InvalidInput
from stanchion.manager.server.guard import Refused
from stanchion.stores.protocol import Store
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, Lease
from stanchion.stores.records.outcomes import Extend, Outcome, Rollback
from stanchion.stores.records.query import Page, Query
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS
from stanchion.stores.wire.calls import CALLS
from stanchion.stores.wire.jobs import JOB, LEASE
from stanchion.stores.wire.messages import METHODS, Message, Method, pb
from stanchion.stores.wire.statuses import Status
from stanchion.stores.wire.transport import REPLY_BYTES, REPLY_TOO_LARGE

Args = Mapping[str, Any]

ROWS_MAX: Final = 10_000
"""Rows of one reply; a claim that wants no rows may reserve more."""

MAINTAIN_SECONDS_MAX: Final = 10.0
"""Upkeep of one call: it takes a thread."""

_SPARE: Final = 64 * 1024
"""Bytes of a reply in addition to its rows."""


class Settled(NamedTuple):
    """The states of settled outcomes, and the ones among them that this call stored, rather than an earlier one."""

    states: list[JobState | None]
    newly: list[Outcome]


class Served(NamedTuple):
    """A unary method: the verb that it calls, and the functions between its messages and arguments and results."""

    verb: str
    method: Method
    arguments: Callable[[Any], dict[str, object]]
    reply: Callable[[Any], Message]


def carry_out(store: Store, verb: str, args: Args) -> object:
    """Call a verb of the store with arguments from a client; return its result."""
    special = _SPECIAL.get(verb)
    return special(store, args) if special is not None else _call(store, verb, args)


def too_large(size: int) -> Refused:
    """Return the refusal of a reply over the largest message."""
    return Refused(
        Status.RESOURCE_EXHAUSTED,
        f"the answer takes {size:,} bytes, and one takes at most {REPLY_BYTES:,}; ask for fewer jobs at a time",
        beside=((REPLY_TOO_LARGE, str(size)),),
    )


def _call(store: Store, verb: str, args: Args) -> Any:
    """Call a verb by the places of its arguments in the port: a store may name them otherwise."""
    bound = _SIGNATURES[verb].bind(store, **args)
    bound.apply_defaults()
    return getattr(store, verb)(*bound.args[1:], **bound.kwargs)


_SIGNATURES: Final = {verb: inspect.signature(getattr(Store, verb)) for verb in CALLS}


def _claim(store: Store, args: Args) -> Claimed:
    claim: Claim = args["claim"]
    if claim.rows:
        claim = claim._replace(limit=min(claim.limit, ROWS_MAX))
    claimed = store.claim(claim._replace(full=()))
    kept = _fitting(claimed.rows)
    if kept == len(claimed.rows):
        return claimed
    # They can't be sent, and no one else could claim them: give them back as if they had not been claimed.
    store.settle([Rollback(row.lease, 0.0, refund=True) for row in claimed.rows[kept:]])
    return claimed._replace(rows=claimed.rows[:kept], retry_in=0.0)


def _recover(store: Store, args: Args) -> list[JobRow]:
    if (as_of := args.get("as_of")) is not None:  # by a time to come, live workers would count as dead
        args = {**args, "as_of": min(as_of, store.now())}
    rows: list[JobRow] = _call(store, "recover", args)
    return rows[: _fitting(rows)]  # they are returned to their queues in any case


def _settle(store: Store, args: Args) -> Settled:
    """Settle outcomes; find for a repeat which of them an earlier call has not stored."""
    outcomes: Sequence[Outcome] = args["outcomes"]
    repeat = bool(args.get("repeat"))
    # A repeat answers alike for both, so it looks first which jobs are still reserved.
    held = _held(store, outcomes) if repeat else None
    states = store.settle(outcomes, repeat=repeat)
    stored = [one for one, state in zip(outcomes, states, strict=True) if state is not None]
    return Settled(states, [one for one in stored if held is None or one.lease in held])


def _held(store: Store, outcomes: Sequence[Outcome]) -> set[Lease]:
    rows = store.fetch(list({one.lease.id for one in outcomes}))
    return {row.lease for row in rows.values() if row.state == JobState.RUNNING}


def _setup(store: Store, args: Args) -> list[str]:
    steps = store.setup(dry_run=True)
    if steps and not args.get("dry_run"):
        raise InvalidInput(
            f"a manager makes no schema, and {len(steps)} steps are to be taken: run `stanchion setup` with the URL of "
            f"the database"
        )
    return steps


def _maintain(store: Store, args: Args) -> list[str]:
    return store.maintain(min(args.get("seconds", MAINTAIN_SECONDS), MAINTAIN_SECONDS_MAX))


def _select(store: Store, args: Args) -> Page:
    query: Query = args["query"]
    return store.select(replace(query, limit=min(query.limit, ROWS_MAX)))


def _check(store: Store, _args: Args) -> Capabilities:
    """Return the capabilities that this manager's store has for a client."""
    store.check()
    return replace(store.capabilities, joins_transactions=False, arrow=False, processes=True)


_SPECIAL: Final[Mapping[str, Callable[[Store, Args], object]]] = {
    "claim": _claim,
    "recover": _recover,
    "settle": _settle,
    "setup": _setup,
    "maintain": _maintain,
    "select": _select,
    "check": _check,
}


def _settled(found: Settled) -> Message:
    reply = CALLS["settle"].reply(found.states)
    assert isinstance(reply, pb.FinishReply)  # noqa: S101 - the reply of this call
    reply.newly = len(found.newly)
    return reply


def _checked(found: Capabilities) -> Message:
    reply = CALLS["check"].reply(found)
    assert isinstance(reply, pb.CheckReply)  # noqa: S101 - the reply of this call
    reply.release = version("stanchion")
    return reply


def _extensions(message: Any) -> dict[str, object]:
    """Return the outcomes that renew leases."""
    seconds = message.lease_us / SECOND
    return {"outcomes": [Extend(LEASE.taken(held), seconds) for held in message.held]}


_REPLIES: Final[Mapping[str, Callable[[Any], Message]]] = {"settle": _settled, "check": _checked}

SERVED: Final[Mapping[str, Served]] = {
    **{
        call.method.name: Served(verb, call.method, call.arguments, _REPLIES.get(verb, call.reply))
        for verb, call in CALLS.items()
    },
    "Queues.Extend": Served("settle", METHODS["Queues.Extend"], _extensions, _settled),
}
"""The unary methods, by name."""


def _fitting(rows: Sequence[JobRow]) -> int:
    """Return how many of the first rows fit into a message, at least one."""
    most = REPLY_BYTES - _SPARE
    contents = sum(len(value) for row in rows for value in row if isinstance(value, (str, bytes)))
    if _LONGEST_LETTER * contents < most // 2:
        return len(rows)
    for number, row in enumerate(rows):
        most -= JOB.to_message(row).ByteSize() + _LENGTHS
        if most < 0:
            return max(1, number)
    return len(rows)


_LONGEST_LETTER: Final = 4
"""Bytes of a letter at most."""

_LENGTHS: Final = 8
"""Bytes with the number and the length of a row in its message."""
