"""A store that is nothing but the primitives of `stores.cas`, each of them one atomic step on a `World`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from stanchion.stores.cas.admission import Admission
from stanchion.stores.cas.claim import Claims, Parked
from stanchion.stores.cas.entries import Entry, Hold
from stanchion.stores.cas.flows import Flows
from stanchion.stores.cas.jobs import Change, JobLoop, Result, Results, Seen
from stanchion.stores.cas.operate import Operator
from stanchion.stores.cas.outbox import Outbox
from stanchion.stores.cas.settle import Outcomes
from stanchion.stores.cas.slots import Slots
from stanchion.stores.cas.workers import LostJobs
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import FlowNode, MemberEnd, NodeState
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState, NewJob, Pushed
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import SEMAPHORE, Slot
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules import flows
from stanchion.stores.rules.capacity.limits import Rate
from stanchion.stores.rules.capacity.slots import Asking, semaphore_slot
from stanchion.stores.rules.lifecycle import claims as claim_rules
from stanchion.stores.rules.lifecycle import jobs as job_rules
from tests.protocol.world import World

Given = TypeVar("Given")


class Step(Protocol):
    """Called with each primitive: takes it, or remembers what it gave; see `explorer`."""

    def __call__(self, what: str, take: Callable[[], Given], /) -> Given:
        """Return the result, which is hashable."""


class Rows:
    """The primitives on a world. An item of a batch is a step of its own: no batch is atomic."""

    def __init__(self, world: World, step: Step | None = None) -> None:
        self.world = world
        self.step: Step = step or _at_once

    # -- without a step: what never changes while others look

    def now(self) -> int:
        """Return the clock, which stands still."""
        return self.world.now

    def settings_of(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the default ones."""
        return {queue: QueueSettings(queue) for queue in queues}

    # -- jobs

    def read(self, ids: Sequence[str], queues: Sequence[str] | None = None) -> tuple[int, dict[str, Seen]]:
        """Read one job after the other."""
        found = {job: self.step(f"read {job}", partial(self._seen, job)) for job in ids}
        there = dict(zip(ids, queues, strict=True)) if queues is not None else {}
        return self.now(), {job: one for job, one in found.items() if one and there.get(job) in (None, one.row.queue)}

    def compare_and_set(self, changes: Sequence[Change]) -> Results:
        """Make one change after the other, each with its entry."""
        return Results([self.step(_told(one), partial(self._set, one)) for one in changes])

    def push(self, jobs: Sequence[NewJob]) -> list[Pushed]:
        """Store jobs that are not known yet."""
        return [self.step(f"push {job.id}", partial(self._push, job)) for job in jobs]

    def push_once(self, batches: Iterable[tuple[str, Sequence[NewJob]]]) -> None:
        """Store jobs, whose ids tell that they are known."""
        for _, jobs in batches:
            self.push(jobs)

    def batch_size(self, queue: str, token: str) -> int:
        raise NotImplementedError  # no actor reserves batches

    def reserve_due(self, claim: Claim) -> Claimed:
        """Reserve due jobs one by one."""
        rows: list[JobRow] = []
        while len(rows) < claim.limit and (row := self.step("reserve", lambda: self._reserve(claim))) is not None:
            rows.append(row)
        return Claimed(rows)

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:  # noqa: ARG002
        """Leave it to the claim to read each."""
        return Parked(0, more=False)

    def park_few(self, claim: Claim, began: int) -> Parked:
        """Leave it to the claim to read each."""
        return self.park_run(claim, began, alone=False)

    def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
        """Look for the first of one order key after the other."""
        return [self.step(f"first live of {key}", partial(self._first_live, queue, key)) for queue, key in keys]

    def first_waiting_each(self, slots: Sequence[Slot]) -> list[Seen | None]:
        """Read the first waiters of several slots, one after the other."""
        return [self.step(f"first waiting at {slot}", partial(self._first_waiting, slot)) for slot in slots]

    def waiting_at(self, slot: Slot, limit: int) -> list[Seen]:
        """Read the waiters of a slot."""
        return list(self.step(f"waiting at {slot}", lambda: tuple(self._waiting_at(slot)[:limit])))

    def slots_waited_at(self) -> Iterable[Slot]:
        """Read the slots that have waiters."""
        return self.step(
            "slots waited at",
            lambda: tuple(sorted({row.waits_for for row in self.world.live() if row.waits_for is not None})),
        )

    # -- workers

    def known_workers(self) -> dict[str, WorkerRow]:
        """Return all holders of running jobs; those presumed dead were last seen long ago."""
        return self.step("workers", lambda: _Frozen(self._workers()))

    def suspects(self, workers: Mapping[str, WorkerRow], now: int, limit: int) -> Iterable[str]:  # noqa: ARG002
        """Return all running jobs."""
        return self.step(
            "suspects", lambda: tuple(row.id for row in self.world.live() if row.state == JobState.RUNNING)
        )

    def presume_dead(self, worker: str) -> None:
        """Let a worker miss its heartbeats."""
        self.step(f"presume dead {worker}", lambda: self.world.dead.setdefault(worker))

    # -- slots

    def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
        """Take one slot after the other."""
        return [self.step(f"take {_short(one)}", partial(self._take_slot, one)) for one in wanted]

    def free_each(self, held: Sequence[Hold]) -> None:
        """Free one slot after the other."""
        for one in held:
            self.step(f"free {_short(one)}", partial(self._free_slot, one))

    def holds(self) -> Iterable[Hold]:
        """Read all slots."""
        return self.step("holds", lambda: tuple(sorted(self.world.slots)))

    def resize(self, name: str, capacity: int) -> None:
        """Change the capacity of a semaphore."""

        def resized() -> None:
            self.world.capacity[semaphore_slot(name)] = capacity

        self.step(f"resize {name} {capacity}", resized)

    def spend(self, asking: Sequence[Asking]) -> list[int | None]:
        """Take a start from one rate after the other; without one, the job may ask in a minute."""
        return [self.step(f"spend {rate.name}", partial(self._spend, rate)) for rate, _ in asking]

    # -- entries: all are given at any time, as their own process may be slower than STALE

    def seen_now(self, workers: Sequence[WorkerRow]) -> None:
        """Do nothing: the clock stands still."""

    def leased(self, now: int) -> Iterable[str]:  # noqa: ARG002
        """Return none: the clock stands still."""
        return ()

    def entries(self, before: int) -> Iterable[Entry]:  # noqa: ARG002
        """Read the outbox."""
        return self.step("outbox", lambda: tuple(self.world.outbox[key] for key in sorted(self.world.outbox)))

    def delete_entries(self, entries: Sequence[Entry]) -> None:
        """Delete one entry after the other."""
        for entry in entries:
            self.step(f"delete {entry.key}", partial(self._delete_entry, entry.key))

    # -- nodes

    def end_members(self, node: str, ends: Sequence[MemberEnd]) -> FlowNode | None:
        """Record one end after the other."""
        completed = [self.step(f"end {one.index} of {node}", partial(self._end_member, one)) for one in ends]
        return next((one for one in completed if one is not None), None)

    def followed(self, node: FlowNode) -> None:
        """Mark a node."""
        self.step(f"followed {node.id}", lambda: self.world.followed.setdefault(node.id))

    def unfollowed(self) -> Iterable[FlowNode]:
        """Read the nodes that have ended without a mark."""

        def read() -> tuple[FlowNode, ...]:
            ended = (node for node in self.world.nodes.values() if node.state != NodeState.RUNNING)
            return tuple(sorted(node for node in ended if node.id not in self.world.followed))

        return self.step("unfollowed", read)

    def open(self, node: FlowNode) -> None:
        """Store a node."""
        self.step(f"open {node.id}", partial(self._open, node))

    def complete(self, node: str) -> FlowNode | None:
        """End a node without members."""
        return self.step(f"complete {node}", partial(self._complete, node))

    # -- what the steps do

    def _seen(self, job: str) -> Seen | None:
        stored = self.world.rows.get(job)
        return None if stored is None else Seen(stored[1], stored[0], self.now())

    def _put(self, row: JobRow) -> None:
        version, before = self.world.rows.get(row.id, (0, None))
        self.world.rows[row.id] = (version + 1, row)
        if row.finished_at is not None and (before is None or before.finished_at is None):
            self.world.ended[row.id] = self.world.ended.get(row.id, 0) + 1

    def _set(self, change: Change) -> Result:
        seen = self._seen(change.row.id)
        if seen is None or seen.version != change.seen.version:
            return Result.CHANGED
        self._put(change.row)
        for queue, event, items in change.tallies():
            self._count(queue, event, items)
        if change.entry is not None:
            self.world.outbox[change.entry.key] = change.entry
        return Result.DONE

    def _count(self, queue: str, event: str, items: int) -> None:
        self.world.counts[queue, event] = self.world.counts.get((queue, event), 0) + items

    def _push(self, job: NewJob) -> Pushed:
        if job.id not in self.world.rows:
            self._put(job_rules.created(job, self.now()))
            self._count(job.queue, "pushed", job_rules.items_of(job))
        row = self.world.rows[job.id][1]
        return Pushed(row.id, row.run_at, row.enqueued_at)

    def _reserve(self, claim: Claim) -> JobRow | None:
        queued = (row for row in self.world.live() if row.state == QUEUED and row.queue == claim.queue)
        due = sorted((-row.rank, row.run_at, row.id) for row in queued if row.run_at <= self.now())
        if not due:
            return None
        row = claim_rules.claimed(self.world.rows[due[0][-1]][1], claim, 30.0, self.now())
        self._put(row)
        return row

    def _first_live(self, queue: str, order_key: str) -> Seen | None:
        mine = [row for row in self.world.live() if (row.queue, row.order_key) == (queue, order_key)]
        first = min(mine, key=lambda row: (row.enqueued_at, row.id), default=None)
        return None if first is None else self._seen(first.id)

    def _first_waiting(self, slot: Slot) -> Seen | None:
        return next(iter(self._waiting_at(slot)), None)

    def _waiting_at(self, slot: Slot) -> list[Seen]:
        waiters = sorted((row.waits_since or 0, row.id) for row in self.world.live() if row.waits_for == slot)
        return [Seen(self.world.rows[job][1], self.world.rows[job][0], self.now()) for _, job in waiters]

    def _workers(self) -> dict[str, WorkerRow]:
        names = {row.worker for row in self.world.live() if row.worker is not None}
        return {
            name: WorkerRow(name, "h", 1, (), 1, 10.0, last_seen_at=0 if name in self.world.dead else self.now())
            for name in sorted(names)
        }

    def _take_slot(self, hold: Hold) -> bool:
        if hold in self.world.slots:
            return True
        if not self.free_at(hold.slot):
            return False
        self.world.slots[hold] = None
        return True

    def _free_slot(self, hold: Hold) -> None:
        self.world.slots.pop(hold, None)

    def free_at(self, slot: Slot) -> bool:
        """Tell whether a slot is free."""
        capacity = self.world.capacity.get(slot, 1) if slot.kind == SEMAPHORE else 1
        return sum(hold.slot == slot for hold in self.world.slots) < capacity

    def _delete_entry(self, key: str) -> None:
        self.world.outbox.pop(key, None)

    def _spend(self, rate: Rate) -> int | None:
        left = self.world.starts.get(rate.name, 0)
        if not left:
            return self.now() + 60 * SECOND
        self.world.starts[rate.name] = left - 1
        return None

    def _end_member(self, end: MemberEnd) -> FlowNode | None:
        node, known = self.world.nodes.get(end.node), self.world.ends.get((end.node, end.index))
        if node is None or not flows.counts_anew(known, end):
            return None
        self.world.ends[end.node, end.index] = end
        return self._settle_node(flows.advanced(node, known, end, self.now()))

    def _settle_node(self, node: FlowNode) -> FlowNode | None:
        before = self.world.nodes[node.id]
        self.world.nodes[node.id] = node
        if before.state != NodeState.RUNNING or node.state == NodeState.RUNNING:
            return None
        self.world.ended[node.id] = self.world.ended.get(node.id, 0) + 1
        return node

    def _open(self, node: FlowNode) -> None:
        self.world.nodes.setdefault(node.id, node._replace(created_at=self.now()))

    def _complete(self, node: str) -> FlowNode | None:
        return self._settle_node(flows.completed(self.world.nodes[node], self.now()))


class Opening:
    """Stores nodes and their jobs."""

    def __init__(self, rows: Rows, flows: Flows) -> None:
        self._rows, self._flows = rows, flows

    def open_nodes(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store one after the other, those that wait before those that may run."""
        for node in nodes:
            self._rows.open(node)
        self._rows.push(sorted(jobs, key=lambda job: job.waits_kind is None))
        done = [self._rows.complete(node.id) for node in nodes if not node.size]
        self._flows.end_all({}, [node for node in done if node is not None])


class Fake:
    """A store: the parts of `stores.cas` on a world; those with a mistake take the place of some of them."""

    Rows: type[Rows] = Rows
    Slots: type[Slots] = Slots
    Flows: type[Flows] = Flows
    Outbox: type[Outbox] = Outbox
    Admission: type[Admission] = Admission

    def __init__(self, world: World, step: Step | None = None) -> None:
        self.rows = rows = self.Rows(world, step)
        self.slots = self.Slots(rows, rows)
        self.flows = self.Flows(rows, rows, self.slots, rows.push)
        opening = Opening(rows, self.flows)
        self.outbox = self.Outbox(rows, self.slots, self.flows, opening, rows)
        self.open_nodes, self.push = opening.open_nodes, rows.push
        loop = JobLoop(rows, self.outbox.follow_up)
        outcomes, operator, lost = Outcomes(loop), Operator(loop), LostJobs(loop, rows, lambda: None)
        self.settle, self.cancel, self.retry, self.recover = (
            outcomes.settle,
            operator.cancel,
            operator.retry,
            lost.recover,
        )
        self.claim = Claims(rows, self.Admission(loop, self.slots, operator.cancel, lambda _: {}), outcomes).claim

    @property
    def world(self) -> World:
        """What is stored."""
        return self.rows.world

    def set_semaphore(self, name: str, capacity: int) -> None:
        """Change the capacity, then look for waiters."""
        self.rows.resize(name, capacity)
        self.slots.wake(semaphore_slot(name))

    def recover_outbox(self) -> None:
        """Do what processes that have died have left."""
        self.outbox.recover()
        self.flows.recover()
        self.slots.recover()


class _Frozen(dict[str, Any]):
    """A dict that is not changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def _told(change: Change) -> str:
    return f"set {change.row.id} to {change.row.state}{f' at {slot}' if (slot := change.row.waits_for) else ''}"


def _short(hold: Hold) -> str:
    return f"{hold.slot} for {hold.job} under {hold.token}"


def _at_once(_what: str, take: Callable[[], Given]) -> Given:
    return take()
