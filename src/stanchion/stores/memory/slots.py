"""What follows a step in the memory store: slots that are granted, parts of flows that are done or have failed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from stanchion.stores.memory.jobs import Rows, refuse_to_join
from stanchion.stores.records.flows import End, Node, NodeState
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob, Pushed
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules import flows
from stanchion.stores.rules.rate_limit import Bucket
from stanchion.stores.rules.slots import (
    Slots,
    Verdict,
    admit,
    freed,
    held_gates,
    is_node_gate,
    node_gate,
    order_gate,
    semaphore_gate,
    semaphore_of,
    wanted_gates,
    wanted_rates,
)

_KEPT = 7 * 86_400 * SECOND


class Coordinating(Rows, ABC):
    """Semaphores, order keys, keyed rates and flows."""

    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__(frozen=frozen)
        self._capacity: dict[str, int] = {}
        self._declared_capacity: dict[str, int] = {}
        self._used: Counter[str] = Counter()
        self._buckets: dict[str, Bucket] = {}
        self._at_gate: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._of_key: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._nodes: dict[str, Node] = {}
        self._ends: dict[str, dict[int, End]] = defaultdict(dict)
        self._ending: deque[End] = deque()

    # -- semaphores

    def set_semaphore(
        self,
        name: str,
        capacity: int | None,
        *,
        declared: bool = False,
        tx: object = None,
    ) -> bool:
        """Make a semaphore, or change its capacity."""
        with self._lock:
            last = self._declared_capacity.get(name)
            wanted = last if capacity is None else capacity
            if wanted is None or (declared and wanted == last):
                return False
            self._capacity[name] = wanted
            if declared:
                self._declared_capacity[name] = wanted
            self._grant(semaphore_gate(name))
            return True

    def semaphores(self) -> list[SemaphoreRow]:
        """Return all semaphores, by name."""
        with self._lock:
            return [
                SemaphoreRow(
                    name, capacity, self._used[semaphore_gate(name)], len(self._queue_at(semaphore_gate(name)))
                )
                for name, capacity in sorted(self._capacity.items())
            ]

    def permits(self, name: str) -> tuple[list[str], list[str]]:
        """Return the ids of the jobs that hold a slot of a semaphore, and of those that wait for one, in line."""
        with self._lock:
            gate = semaphore_gate(name)
            rows = (row for line in self._lines.values() for row in line.live.values())
            return sorted(row.id for row in rows if gate in held_gates(row)), self._queue_at(gate)

    def sweep(self) -> None:
        """Count the slots that are held anew, and grant free ones, whatever has left them so."""
        with self._lock:
            live = (row for line in self._lines.values() for row in line.live.values())
            self._used = Counter(gate for row in live for gate in held_gates(row))
            for gate in [gate for gate in self._at_gate if not is_node_gate(gate)]:
                self._grant(gate)

    # -- claims

    def _admit(self, row: JobRow, now: int) -> Verdict:
        slots = Slots(
            free={gate: self._free(gate) for gate in wanted_gates([row])},
            turns={gate: first for gate in wanted_gates([row]) if (first := self._first_of_key(gate)) is not None},
            buckets={
                name: replace(self._buckets.get(name, Bucket(1.0, 0.0, 0)), rate=rate.per_second)
                for name, rate in wanted_rates([row]).items()
            },
        )
        (verdict,) = admit([row], slots, now)
        self._used.update(slots.taken)
        self._buckets |= slots.buckets
        return verdict

    def _free(self, gate: str) -> int:
        return self._capacity.get(semaphore_of(gate) or "", 1) - self._used[gate]

    # -- what follows a step

    def _put(self, row: JobRow) -> None:
        super()._put(row)
        if row.waits_for is not None:
            heappush(self._at_gate[row.waits_for], (row.waits_since or 0, row.id))
        if row.order_key is not None:
            heappush(self._of_key[order_gate(row.queue, row.order_key)], (row.enqueued_at, row.id))

    def _change(self, before: JobRow, after: JobRow, counted: str | None = None) -> None:
        super()._change(before, after, counted)
        self._follow(before, after, counted)

    def _follow(self, before: JobRow, after: JobRow | None, counted: str | None = None) -> None:
        self._free_gates(before, after)
        if (end := flows.end_of(before, after, counted)) is not None:
            self._end(end)

    def _free_gates(self, before: JobRow, after: JobRow | None) -> None:
        held = held_gates(before)
        for gate in freed(before, after):
            if gate in held:
                self._give_back(gate)
            self._grant(gate)

    def _give_back(self, gate: str) -> None:
        self._used[gate] -= 1
        if not self._used[gate]:
            del self._used[gate]  # there may be a gate for each of very many order keys

    def _grant(self, gate: str) -> None:
        """Give free slots to the first in line."""
        while self._free(gate) > 0 and (row := self._next_at(gate)) is not None:
            self._used[gate] += 1
            self._put(claim_rules.granted(row))

    def _next_at(self, gate: str) -> JobRow | None:
        if semaphore_of(gate) is None:
            first = self._first_of_key(gate)
            row = self._find(first) if first is not None else None
            return row if row is not None and row.waits_for == gate else None
        return next(self._waiting_at(gate), None)

    def _waiting_at(self, gate: str) -> Iterator[JobRow]:
        """Yield the jobs that wait at a gate, in line; the caller changes each before the next."""
        line = self._at_gate[gate]
        while line:
            since, job_id = line[0]
            row = self._find(job_id)
            if row is None or (row.waits_for, row.waits_since) != (gate, since):
                heappop(line)
            else:
                yield row
        del self._at_gate[gate]

    def _queue_at(self, gate: str) -> list[str]:
        found = {job_id for _, job_id in self._at_gate.get(gate, ())}
        rows = (row for row in map(self._find, found) if row is not None and row.waits_for == gate)
        return [row.id for row in sorted(rows, key=lambda row: (row.waits_since or 0, row.id))]

    def _first_of_key(self, gate: str) -> str | None:
        """Return the first live job of an order key; None for another kind of gate, or where there is none."""
        line = self._of_key.get(gate)
        while line:
            enqueued_at, job_id = line[0]
            row = self._find(job_id)
            live = row is not None and row.finished_at is None and row.enqueued_at == enqueued_at
            if live and row is not None and order_gate(row.queue, row.order_key or "") == gate:
                return job_id
            heappop(line)
        self._of_key.pop(gate, None)
        return None

    # -- flows

    def open_flow(self, nodes: Sequence[Node], jobs: Sequence[NewJob], tx: object = None) -> None:
        """Store the nodes of a flow and its jobs, in one step."""
        if tx is not None:
            refuse_to_join()
        with self._lock:
            self._open(nodes, jobs)

    def _open(self, nodes: Sequence[Node], jobs: Sequence[NewJob]) -> None:
        self._refuse_duplicates(jobs)
        now = self.now()
        for node in nodes:
            self._nodes.setdefault(node.id, node._replace(created_at=now))
        for job in jobs:
            self._push(job, now)
        for node in nodes:
            self._settle_node(flows.completed(self._nodes[node.id], now))
        self._end_all()

    def extend_flow(self, node: str, jobs: Sequence[NewJob], tx: object = None) -> bool:
        """Add members to an open node; False when it is closed."""
        if tx is not None:
            refuse_to_join()
        with self._lock:
            found = self._nodes.get(node)
            new = [job for job in jobs if job.id not in self._line_of]
            if found is None or found.closed:
                return found is not None and bool(jobs) and not new
            self._refuse_duplicates(new)
            self._nodes[node] = found._replace(size=found.size + len(new))
            now = self.now()
            for job in flows.placed(new, found.size):
                self._push(job, now)
            return True

    def close_node(self, node: str) -> bool:
        """Close an open node: it is done when its members are. False when there is none of that id."""
        with self._lock:
            found = self._nodes.get(node)
            if found is not None and not found.closed:
                self._settle_node(flows.completed(found._replace(closed=True), self.now()))
                self._end_all()
            return found is not None

    def stop_flow(self, root: str) -> bool:
        """End the nodes of a flow that are not final as cancelled; False when there is no such flow."""
        with self._lock:
            nodes = [node for node in self._nodes.values() if node.root == root]
            for node in nodes:
                if node.state == NodeState.RUNNING:
                    self._nodes[node.id] = node._replace(state=NodeState.CANCELLED.value, finished_at=self.now())
            return bool(nodes)

    def nodes(self, root: str) -> list[Node]:
        """Return the nodes of a flow, in the order of their ids."""
        with self._lock:
            return sorted(node for node in self._nodes.values() if node.root == root)

    def ends(self, node: str, after: int = -1, limit: int = 1000) -> list[End]:
        """Return how members of a node have ended, by their places, from behind the place `after` on."""
        with self._lock:
            found = self._ends.get(node, {})
            return [found[place] for place in sorted(found) if place > after][:limit]

    def _end(self, end: End) -> None:
        """Take note of the end of a member; what follows from it is done by the outermost call."""
        self._ending.append(end)
        if len(self._ending) == 1:
            self._end_all()

    def _end_all(self) -> None:
        while self._ending:
            self._end_one(self._ending[0])
            self._ending.popleft()

    def _end_one(self, end: End) -> None:
        node = self._nodes.get(end.node)
        known = self._ends[end.node].get(end.place)
        if node is None or not flows.counts_anew(known, end):
            return
        self._ends[end.node][end.place] = end
        self._settle_node(flows.advanced(node, known, end, self.now()))

    def _settle_node(self, node: Node) -> None:
        """Store a node as it is now, with what follows when that is an end."""
        before = self._nodes[node.id]
        self._nodes[node.id] = node
        if before.state != NodeState.RUNNING or node.state == NodeState.RUNNING:
            return
        now, gate = self.now(), node_gate(node.id)
        if node.state == NodeState.DONE:
            for row in self._waiting_at(gate):
                self._put(claim_rules.let_in(row, now))
        else:
            if (handler := flows.handler_of(node)) is not None:
                self._push(handler, now)
            for row in self._waiting_at(gate):
                self._cancel(row, now)
        if (end := flows.end_of_node(node)) is not None:
            self._ending.append(end)

    def _forget_flows(self) -> None:
        """Forget flows that ended a week ago."""
        oldest = self.now() - _KEPT
        for node in [node for node in self._nodes.values() if node.id == node.root]:
            if node.finished_at is not None and node.finished_at <= oldest:
                for part in [one for one in self._nodes.values() if one.root == node.id]:
                    del self._nodes[part.id]
                    self._ends.pop(part.id, None)

    @abstractmethod
    def _refuse_duplicates(self, jobs: Sequence[NewJob]) -> None:
        """Raise DuplicateKey for a job that asks for it."""

    @abstractmethod
    def _push(self, job: NewJob, now: int) -> Pushed:
        """Store a job."""

    @abstractmethod
    def _cancel(self, row: JobRow, now: int) -> JobState:
        """Cancel a job, or ask it to stop."""
