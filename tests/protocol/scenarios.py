"""Situations worth exploring: each a world, and what a few actors are about to do in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from stanchion.core.values.framing import chunk_with
from stanchion.stores.cas.jobs import JobLoop
from stanchion.stores.cas.settle import Outcomes
from stanchion.stores.records.flows import FlowNode, NodeState
from stanchion.stores.records.jobs import JobState, Lease, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Continue, Outcome, Pass, Passage, Tally
from stanchion.stores.rules.capacity.limits import Limits, Rate, limits_text
from stanchion.stores.rules.capacity.slots import node_slot, semaphore_slot, waits_at
from stanchion.stores.rules.flows import FlowPosition
from tests.protocol.actors import (
    QUEUE,
    cancel,
    claim,
    claimed,
    commit,
    fail,
    holding,
    move,
    push,
    recover,
    recover_outbox,
    replace,
    resize,
    retry,
    rollback,
    settle,
)
from tests.protocol.explorer import Scenario
from tests.protocol.fake import Fake
from tests.protocol.world import START, World

Prepare = Callable[[Fake], object]


def job(name: str, *semaphores: str, rate: Rate | None = None, **fields: Any) -> NewJob:
    """Return a job that needs these semaphores."""
    return NewJob(name, QUEUE, "{}", limits=limits_text(Limits(semaphores, rate)), **fields)


def keyed(name: str, *semaphores: str, **fields: Any) -> NewJob:
    """Return a job of the one order key."""
    return job(name, *semaphores, order_key="k", **fields)


def stored(*jobs: NewJob, then: Prepare = lambda _store: None, **capacity: int) -> Prepare:
    """Return what makes a world with these jobs and semaphores."""

    def prepare(store: Fake) -> None:
        for name, slots in capacity.items():
            store.set_semaphore(name, slots)
        store.push(jobs)
        then(store)

    return prepare


def reserved(
    *jobs: NewJob, worker: str = "A", limit: int = 1, then: Prepare = lambda _store: None, **capacity: int
) -> Prepare:
    """Return what makes a world in which a worker has claimed the first of these jobs."""

    def take(store: Fake) -> None:
        claimed(store, worker, limit)
        then(store)

    return stored(*jobs, then=take, **capacity)


def rated(starts: int) -> Prepare:
    """Let so many jobs start of the rate r."""
    return lambda store: store.world.starts.update(r=starts)


def parked(store: Fake) -> None:
    """Have all due jobs that find no slot wait."""
    claimed(store, "other", 10)


def second_then_parked(store: Fake) -> None:
    """Have worker B claim a job too, and the others wait."""
    claimed(store, "B")
    parked(store)


def unfinished(store: Fake, outcome: Outcome) -> None:
    """End a job, and leave undone what that entails."""
    Outcomes(JobLoop(store.rows, lambda _entries: None)).settle([outcome])


def dead_with_an_entry(store: Fake) -> None:
    """Have the job 1 dead, its order key not yet freed, and others wait."""
    parked(store)
    unfinished(store, Bury(Lease(QUEUE, "1", "A"), "no"))


def the_first_cancelled(store: Fake) -> None:
    """Have the job 1 cancelled, and the job 2 in the hands of worker A."""
    store.cancel(["1"])
    claimed(store, "A")


def tail_call(lease: Lease) -> Continue:
    """Return the outcome of a job that goes on as what comes after the only member of a node."""
    node = FlowNode("T", "P")
    rest = member("inner", "T", 0)
    return Continue(lease, member("1", "N", 0, **waits_at(node_slot("T"))), (node,), (rest,))


def rest_in_line(lease: Lease) -> Commit:
    """Return the outcome of the job 1 that is divided: its rest comes before the job 3 of the same order key."""
    return Commit(lease, jobs=(keyed("2", enqueued_at=START),))


WORK = (claim(), commit)
RECOVERY = (recover_outbox,)
SEMAPHORES = {
    "two claimers": Scenario(stored(job("1", "a"), job("2", "a")), {"A": WORK, "B": WORK}, crashes=2),
    "two claimers of two each": Scenario(
        stored(job("1", "a"), job("2", "a")), {"A": (claim(2), commit), "B": (claim(2), commit)}, crashes=2
    ),
    "a claimer and a release": Scenario(
        reserved(job("1", "a"), job("2", "a")), {"A": (holding("1"), commit), "B": WORK}, crashes=2
    ),
    "two claimers and a release": Scenario(
        reserved(job("1", "a"), job("2", "a"), job("3", "a")),
        {"A": (holding("1"), commit), "B": (claim(),), "C": (claim(),)},
    ),
    "a grant and a cancel": Scenario(
        reserved(job("1", "a"), job("2", "a"), job("3", "a"), then=parked),
        {"A": (holding("1"), commit), "B": (cancel("2"),)},
        crashes=2,
    ),
    "a grant, a cancel and a claimer": Scenario(
        reserved(job("1", "a"), job("2", "a"), job("3", "a"), then=parked),
        {"A": (holding("1"), commit), "B": (cancel("2"),), "C": WORK},
    ),
    "a claimer and a cancel": Scenario(
        reserved(job("1", "a"), job("2", "a"), worker="Z"),
        {"A": WORK, "B": (cancel("2"),)},
        crashes=2,
    ),
    "two wakers": Scenario(
        reserved(job("1", "a"), job("2", "a"), job("3", "a"), job("4", "a"), limit=2, then=parked, a=2),
        {"A": (holding("1"), commit), "B": (resize("a", 3),)},
        most={semaphore_slot("a"): 3},
        crashes=2,
    ),
    "two releases": Scenario(
        reserved(job("1", "a"), job("2", "a"), job("3", "a"), job("4", "a"), then=second_then_parked, a=2),
        {"A": (holding("1"), commit), "B": (holding("2"), commit)},
        most={semaphore_slot("a"): 2},
        crashes=2,
    ),
    "opposite orders": Scenario(stored(job("1", "a", "b"), job("2", "b", "a")), {"A": WORK, "B": WORK}, crashes=1),
    "three semaphores": Scenario(
        reserved(job("1", "b"), job("2", "a", "b", "c"), then=parked),
        {"A": (holding("1"), commit), "B": WORK},
        crashes=2,
    ),
    "three semaphores and one at the last": Scenario(
        reserved(job("1", "b"), job("2", "a", "b", "c"), then=parked),
        {"A": (holding("1"), commit), "B": WORK, "C": (push(job("3", "c")), *WORK)},
    ),
    "a lost lease": Scenario(
        reserved(job("1", "a"), job("2", "a")),
        {"A": (holding("1"), commit), "B": (recover("A"),), "C": WORK},
        crashes=1,
    ),
    "a claim that is lost": Scenario(
        stored(job("1", "a"), job("2", "a")),
        {"A": WORK, "B": (recover("A"), claim(), commit)},
        crashes=2,
        at_rest=False,
    ),
    "a rollback, another claim and an outbox recovery": Scenario(
        reserved(job("1", "a")),
        {"A": (holding("1"), rollback(), *WORK), "B": RECOVERY},
        crashes=2,
    ),
    "a rollback beside waiters": Scenario(
        reserved(job("1", "a"), job("2", "a"), then=parked), {"A": (holding("1"), rollback(), *WORK), "B": RECOVERY}
    ),
    "a resize and parking": Scenario(
        reserved(job("1", "a"), job("2", "a"), worker="Z"),
        {"A": WORK, "B": (resize("a", 2),)},
        most={semaphore_slot("a"): 2},
        crashes=2,
    ),
    "up and down": Scenario(
        reserved(job("1", "a"), job("2", "a"), then=parked),
        {"A": (holding("1"), commit), "B": (resize("a", 2), resize("a", 1)), "C": WORK},
        most={semaphore_slot("a"): 2},
    ),
    "a grant and a replacement": Scenario(
        reserved(job("1", "a"), job("2", "a", key="x"), job("3", "a"), then=parked),
        {"A": (holding("1"), commit), "B": (replace("2", job("9", delay=60.0)),), "C": WORK},
    ),
    "a move": Scenario(
        reserved(job("1", "a"), job("2", "a"), then=parked),
        {"A": (holding("1"), move("r"), claim(queue="r"), commit), "B": WORK},
    ),
    "two outbox recoveries": Scenario(
        reserved(job("1", "a"), job("2", "a"), then=parked),
        {"A": (holding("1"), commit), "B": RECOVERY, "C": RECOVERY},
        crashes=2,
    ),
    "outbox recovery beside work": Scenario(
        stored(job("1", "a"), job("2", "a")), {"A": WORK, "B": (claim(),), "C": RECOVERY}, crashes=1
    ),
    "more than asked for, and a cancel": Scenario(
        reserved(job("1", "a"), job("2", "a"), job("3", "b"), job("4", "b"), worker="Z", b=2),
        {"A": WORK, "B": (cancel("4"),)},
        most={semaphore_slot("b"): 2},
    ),
    "more than asked for, by two": Scenario(
        reserved(job("1", "a"), job("2", "a"), job("3", "b"), job("4", "b"), worker="Z"), {"A": WORK, "B": (claim(),)}
    ),
    "a rate": Scenario(
        reserved(job("1", "a"), job("2", "a", rate=Rate("r", 1.0)), job("3", "a", rate=Rate("r", 1.0)), then=rated(1)),
        {"A": (holding("1"), commit), "B": (claim(),), "C": (claim(),)},
    ),
}
ORDER = {
    "head of line": Scenario(stored(keyed("1"), keyed("2")), {"A": WORK, "B": WORK}, crashes=2),
    "the turn after the first": Scenario(
        reserved(keyed("1", "a"), keyed("2", "a")), {"A": (holding("1"), commit), "B": WORK}, crashes=2
    ),
    "head of line after the first": Scenario(
        reserved(keyed("1"), keyed("2"), keyed("3")), {"A": (holding("1"), commit), "B": (claim(),), "C": (claim(),)}
    ),
    "the first comes late": Scenario(
        stored(keyed("1", delay=60.0), keyed("2")), {"A": WORK, "B": (cancel("1"),)}, crashes=2
    ),
    "the first is given back": Scenario(
        reserved(keyed("1"), keyed("2")), {"A": (holding("1"), rollback(60.0)), "B": WORK, "C": RECOVERY}
    ),
    "the first is moved": Scenario(
        reserved(keyed("1"), keyed("2"), then=parked), {"A": (holding("1"), move("r")), "B": WORK, "C": RECOVERY}
    ),
    "the first is lost": Scenario(
        reserved(keyed("1"), keyed("2")),
        {"A": (holding("1"), commit), "B": (recover("A"),), "C": WORK},
    ),
    "head of line and slots": Scenario(
        reserved(keyed("1", "a"), keyed("2", "a"), job("3", "a")),
        {"A": (holding("1"), commit), "B": (claim(),), "C": (claim(),)},
    ),
    "the first is divided": Scenario(
        reserved(keyed("1"), keyed("3")), {"A": (holding("1"), settle(rest_in_line)), "B": (claim(),)}, crashes=2
    ),
    "the first is divided, beside outbox recovery": Scenario(
        reserved(keyed("1"), keyed("3"), then=parked),
        {"A": (holding("1"), settle(rest_in_line)), "B": (claim(2),), "C": RECOVERY},
    ),
    "the first is divided, beside a claimer and outbox recovery": Scenario(
        reserved(keyed("1"), keyed("3")),
        {"A": (holding("1"), settle(rest_in_line)), "B": (claim(),), "C": RECOVERY},
    ),
    "driven again": Scenario(
        reserved(keyed("1"), keyed("2"), then=parked),
        {"A": (holding("1"), fail), "B": (retry("1"),), "C": WORK},
        ends_once=False,
        in_order=False,
    ),
    "driven again, head of line": Scenario(
        reserved(keyed("1"), keyed("2"), then=dead_with_an_entry),
        {"B": (retry("1"), claim(2), commit), "C": RECOVERY},
        ends_once=False,
        in_order=False,
    ),
    "driven again after outbox recovery": Scenario(
        reserved(keyed("1"), keyed("2")),
        {"A": (holding("1"), fail), "B": (recover_outbox, retry("1"), claim(2))},
        ends_once=False,
        in_order=False,
    ),
    "both driven again while their end is seen to": Scenario(
        stored(keyed("1"), keyed("2"), then=the_first_cancelled),
        {"A": (holding("2"), fail), "B": (retry("2"), claim()), "C": (retry("1"), claim())},
        crashes=0,
        ends_once=False,
        in_order=False,
    ),
}

PARENT = FlowNode("P", "P", size=2)
CHILD = FlowNode("N", "P", parent="P:0", size=2, on_failure=json.dumps(NewJob("handler", QUEUE, "{}")._asdict()))


def member(name: str, node: str, place: int, *semaphores: str, **fields: Any) -> NewJob:
    """Return a job that stands in a place of a node."""
    return job(name, *semaphores, **FlowPosition("P", node, place)._asdict(), **fields)


def flow(*jobs: NewJob, then: Prepare = lambda _store: None) -> Prepare:
    """Return what makes a world with a flow: the node N, with the jobs 1 and 2, in the node P, with a job after N.

    Worker A has claimed the job 1, worker B the job 2.
    """

    def prepare(store: Fake) -> None:
        after = member("after", "P", 1, **waits_at(node_slot("N")))
        store.open_nodes([PARENT, CHILD], [after, *(jobs or (member("1", "N", 0), member("2", "N", 1)))])
        claimed(store, "A")
        claimed(store, "B")
        then(store)

    return prepare


def ended(child: NodeState, parent: NodeState, after: JobState, *, handled: bool) -> Callable[[World], Iterator[str]]:
    """Return what tells how the flow should have ended."""

    def judge(world: World) -> Iterator[str]:
        if (states := [world.nodes[name].state for name in "NP"]) != [child, parent]:
            yield f"N and P are {states}"
        if world.rows["after"][1].state != after:
            yield f"what comes after is {world.rows['after'][1].state}"
        if ("handler" in world.rows) != handled:
            yield "the handler came" if not handled else "no handler came"
        for node in world.nodes.values():
            if node.ended != sum(end.node == node.id for end in world.ends.values()) or node.ended != node.size:
                yield f"{node.ended} ends were counted in {node.id}"

    return judge


def consistent(world: World) -> Iterator[str]:
    """Tell what is wrong with the flow, by how the members of N have ended."""
    failed = any(end.state != JobState.DONE for end in world.ends.values() if end.node == "N")
    return (FAILED if failed else DONE)(world)


DONE = ended(NodeState.DONE, NodeState.DONE, JobState.DONE, handled=False)
FAILED = ended(NodeState.FAILED, NodeState.FAILED, JobState.CANCELLED, handled=True)
ENDS = {"A": (holding("1"), commit), "B": (holding("2"), commit)}
FAILS = {"A": (holding("1"), commit), "B": (holding("2"), fail)}
FLOWS = {
    "two members end": Scenario(flow(), ENDS, crashes=0, finally_=DONE),
    "two members end, and a crash": Scenario(flow(), ENDS, crashes=2, finally_=consistent),
    "one of two fails": Scenario(flow(), FAILS, crashes=0, finally_=FAILED),
    "one of two fails, and a crash": Scenario(flow(), FAILS, crashes=2, finally_=consistent),
    "both fail": Scenario(flow(), {"A": (holding("1"), fail), "B": (holding("2"), fail)}, finally_=consistent),
    "a member is lost": Scenario(flow(), {"A": (holding("1"), fail), "B": (recover("A"),)}, finally_=consistent),
    "members end beside outbox recovery": Scenario(flow(), {**ENDS, "C": RECOVERY}, finally_=consistent),
    "a failure beside outbox recovery": Scenario(flow(), {**FAILS, "C": RECOVERY}, finally_=consistent),
    "two outbox recoveries after a failure": Scenario(
        flow(then=lambda store: unfinished(store, Bury(Lease(QUEUE, "1", "A"), "no"))),
        {"C": RECOVERY, "D": RECOVERY},
        finally_=FAILED,
    ),
    "who waits is cancelled": Scenario(flow(), {**ENDS, "C": (cancel("after"),)}),
    "members hold a slot": Scenario(
        flow(member("1", "N", 0, "a"), member("2", "N", 1, "a")),
        {"A": (holding("1"), commit), "C": WORK},
        finally_=consistent,
    ),
    "a member goes on as a flow": Scenario(
        flow(),
        {"A": (holding("1"), settle(tail_call)), "C": (*WORK, *WORK), "D": RECOVERY},
        finally_=consistent,
    ),
}


FANNED_OUT = '"fanned out"'


def into_two(lease: Lease) -> Commit:
    """Return the outcome of a job that goes on as two others, and shows that it did."""
    return Commit(lease, payload=FANNED_OUT, jobs=(job("left"), job("right", "a")))


def both_or_none(world: World) -> Iterator[str]:
    """Tell what is wrong with the jobs that another has gone on as, if it has."""
    there = {"left", "right"} & world.rows.keys()
    if there != ({"left", "right"} if world.rows["1"][1].payload == FANNED_OUT else set()):
        yield f"of the jobs that {world.rows['1'][1]} goes on as there are {there}"


WHOLE = chunk_with(10, b"\xff whole")
THERE = "third"
"""The queue where a chunk ends that passes queues."""


def divided(lease: Lease, queue: str = QUEUE) -> Commit:
    """Return the commit of a chunk of ten items: seven go on, two come back, one is dead in `queue`."""
    failed = NewJob("", queue, "", attempts=1, errors='[{"error":"E"}]', origin=lease.id)
    parts = (
        NewJob("good", "next", chunk_with(7, b"\xff good"), origin=lease.id),
        failed._replace(id="again", payload=chunk_with(2, b"\xff again")),
        failed._replace(id="dead", payload='"dead"', dead_from=queue),
    )
    tallies = (Tally(queue, "moved", 7), Tally(queue, "rolled_back", 2), Tally(queue, "buried", 1))
    return Commit(lease, jobs=parts, tallies=(*tallies, Tally(queue, "pushed", -3)))


def passed(lease: Lease) -> Pass:
    """Return the outcome of a chunk that passes a queue, and is divided in the one after it."""
    return Pass(lease, (Passage("second"), Passage(THERE)), divided(lease, THERE))


def each_item_once(queue: str) -> Callable[[World], Iterator[str]]:
    """Return what tells whether a chunk, divided in a queue or else committed whole, has each item in one job."""

    def judge(world: World) -> Iterator[str]:
        whole = world.rows["1"][1]
        parts = {name: row for name, (_, row) in world.rows.items() if row.origin == "1"}
        items = {name: row.items for name, row in parts.items()}
        if items != ({} if whole.items else {"good": 7, "again": 2, "dead": None}):
            yield f"of a chunk with {whole.items} items left there are {items}"
        if parts and (whole.queue, parts["dead"].state, parts["again"].failures) != (queue, JobState.DEAD, 1):
            yield f"the parts of {whole} are {parts}"
        counts = {event: world.counts.get((queue, event), 0) for event in ("moved", "rolled_back", "buried", "pushed")}
        pushed = 10 if queue == QUEUE else 0
        if parts and counts != {"moved": 7, "rolled_back": 2, "buried": 1, "pushed": pushed}:
            yield f"the counts of {queue} are {counts}"
        if parts and queue != QUEUE and {world.counts["second", event] for event in ("reserved", "moved")} != {10}:
            yield f"the counts of the queue that it passed are {world.counts}"
        if not parts and counts["moved"]:
            yield f"nothing was divided, and the counts of {queue} are {counts}"

    return judge


FAN_OUTS = {
    "a fan-out beside outbox recovery": Scenario(
        reserved(job("1", "a")),
        {"A": (holding("1"), settle(into_two)), "B": (claim(2), commit), "C": RECOVERY},
        finally_=both_or_none,
    ),
    "a fan-out beside two outbox recoveries": Scenario(
        reserved(job("1")),
        {"A": (holding("1"), settle(into_two)), "C": RECOVERY, "D": RECOVERY},
        finally_=both_or_none,
    ),
    "a fan-out and a cancel": Scenario(
        reserved(job("1")),
        {"A": (holding("1"), settle(into_two)), "B": (cancel("1"),)},
        crashes=2,
        finally_=both_or_none,
    ),
    "a fan-out after a lost lease": Scenario(
        reserved(job("1", max_attempts=1)),
        {"A": (holding("1"), settle(into_two)), "B": (recover("A"),), "C": RECOVERY},
        finally_=both_or_none,
    ),
    "a division beside outbox recovery": Scenario(
        reserved(NewJob("1", QUEUE, WHOLE, limits=limits_text(Limits(("a",))))),
        {"A": (holding("1"), settle(divided)), "B": (claim(queue="next"), commit), "C": RECOVERY},
        finally_=each_item_once(QUEUE),
    ),
    "a division and a cancel": Scenario(
        reserved(NewJob("1", QUEUE, WHOLE)),
        {"A": (holding("1"), settle(divided)), "B": (cancel("1"),)},
        crashes=2,
        finally_=each_item_once(QUEUE),
    ),
    "a division after a lost lease": Scenario(
        reserved(NewJob("1", QUEUE, WHOLE, max_attempts=1)),
        {"A": (holding("1"), settle(divided)), "B": (recover("A"),), "C": RECOVERY},
        finally_=each_item_once(QUEUE),
    ),
    "a passage to a division": Scenario(
        reserved(NewJob("1", QUEUE, WHOLE)),
        {"A": (holding("1"), settle(passed)), "B": (recover("A"),), "C": RECOVERY},
        finally_=each_item_once(THERE),
    ),
    "a passage to a division, and a cancel": Scenario(
        reserved(NewJob("1", QUEUE, WHOLE)),
        {"A": (holding("1"), settle(passed)), "B": (cancel("1"),)},
        crashes=2,
        finally_=each_item_once(THERE),
    ),
}
