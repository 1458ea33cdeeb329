"""Gates and flows in a store without transactions over several jobs.

Every step is one atomic operation on one job, one gate or one node. What a step entails elsewhere, its duty, is noted
with the job in that same operation, done, and struck off. After a death in between, `sweep` does it again: each part
of a duty may be done twice, and late, without harm.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from stanchion.stores.cas.mixins.claim import HandingOut
from stanchion.stores.cas.mixins.jobs import Change, Duty, Seen, Swap
from stanchion.stores.cas.mixins.outbox import Hold, duty_text, entailed_in, holds_of
from stanchion.stores.records.flows import FlowNode, MemberEnd, NodeState
from stanchion.stores.records.jobs import SECOND, JobRow, NewJob
from stanchion.stores.records.outcomes import Commit, Continue
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules import flows
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.slots import is_node_gate, node_gate

T = TypeVar("T")

STALE = 3 * SECOND
"""A duty that was noted so long ago is no longer in the hands of a process that is about to see to it."""

_AT_ONCE = 500


class Following(HandingOut):
    """What follows a step at gates and in flows."""

    # -- what a store provides: each item of a call is one atomic operation, and may be repeated

    @abstractmethod
    def duties(self, before: int) -> Iterable[Duty]:
        """Return the duties that were noted before this moment, on the store's clock."""

    @abstractmethod
    def strike_off(self, duties: Sequence[Duty]) -> None:
        """Forget duties that are done."""

    @abstractmethod
    def end_members(self, node: str, ends: Sequence[MemberEnd]) -> FlowNode | None:
        """Record how members of a node have ended, each once: `flows.advanced`.

        Returns the node to the one caller whose call has ended it, None to all others.
        """

    @abstractmethod
    def followed(self, node: FlowNode) -> None:
        """Note that all that follows from the end of a node was done."""

    @abstractmethod
    def unfollowed(self) -> Iterable[FlowNode]:
        """Return the nodes that ended some seconds ago, `STALE`, and are not marked as followed."""

    @abstractmethod
    def open_nodes(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store nodes that are not there yet, and their jobs, those that wait first; complete those without members."""

    @abstractmethod
    def push_once(self, batches: Iterable[tuple[str, Sequence[NewJob]]]) -> None:
        """Store jobs as `push` does, each batch under a mark of its own.

        Within the hour, another call with this mark stores none of them again, also of those that are gone by then:
        a history that is kept for a shorter time forgets that they ever were. No key that is taken is an error.
        """

    # -- what a step entails

    def duty_of(
        self, before: JobRow, after: JobRow | None, counted: str | None, opens: Continue | Commit | None, now: int
    ) -> Duty | None:
        """Return what a step entails: slots to free, a member that has ended, a flow to open, jobs to store."""
        kept = holds_of(after)
        free = [hold for hold in holds_of(before) if hold not in kept]
        end = flows.end_of(before, after, counted)
        ends = [] if end is None else [end]
        rest = opens.nodes if isinstance(opens, Continue) else opens.jobs if opens else ()
        if not (free or ends or rest):
            return None
        return Duty(secrets.token_hex(8), now, before.queue, before.id, duty_text(free, ends, opens))

    def follow_up(self, duties: Sequence[Duty]) -> None:
        """Do duties and strike them off."""
        self._do(duties, self._free)

    def _do(self, duties: Sequence[Duty], free: Callable[[Sequence[Hold]], object]) -> None:
        freed: list[Hold] = []
        ended: dict[str, list[MemberEnd]] = {}
        fanned_out: list[tuple[str, Sequence[NewJob]]] = []
        for duty in duties:
            entailed = entailed_in(duty)
            freed += entailed.free
            for end in entailed.ends:
                ended.setdefault(end.node, []).append(end)
            if entailed.nodes:
                self.open_nodes(entailed.nodes, entailed.jobs)
            elif entailed.jobs:
                fanned_out.append((duty.mark, entailed.jobs))
        if fanned_out:
            self.push_once(fanned_out)
        free(freed)
        self.end_all(ended)
        if duties:
            self.strike_off(duties)

    # -- nodes

    def end_all(self, ended: Mapping[str, Sequence[MemberEnd]], nodes: Sequence[FlowNode] = ()) -> None:
        """Record how members have ended, and see to what follows: one after the other, as flows may be deep.

        `nodes` are such that have ended before.
        """
        left, open_ends, followed = list(nodes), list(ended.items()), list[FlowNode]()
        duties: list[Duty] = []
        while left or open_ends:
            if left:
                followed.append(left.pop())
                open_ends += self._follow(followed[-1], duties)
            else:
                node = self.end_members(*open_ends.pop())
                left += [] if node is None else [node]
        # Only now: whoever dies before leaves what has not been seen to for the next sweep.
        for node in followed:
            self.followed(node)
        self._free([hold for duty in duties for hold in entailed_in(duty).free])
        if duties:
            self.strike_off(duties)

    def _follow(self, node: FlowNode, duties: list[Duty]) -> list[tuple[str, Sequence[MemberEnd]]]:
        """Let in, or cancel, who waits for a node that has ended; return the ends to be recorded, its own too."""
        if node.state == NodeState.FAILED and (handler := flows.handler_of(node)) is not None:
            self.push([handler])
        ends: list[tuple[str, Sequence[MemberEnd]]] = []
        while waiting := self.waiting_at(node_gate(node.id), _AT_ONCE):
            now = self.now()
            if node.state == NodeState.DONE:
                self.swap([Change(seen, claim_rules.let_in(seen.row, now)) for seen in waiting])
                continue
            cancelled = self._cancel_waiting(waiting, now)
            duties += cancelled
            ends += [(end.node, [end]) for duty in cancelled for end in entailed_in(duty).ends]
        if (end := flows.end_of_node(node)) is not None:
            ends.append((end.node, [end]))
        return ends

    def _cancel_waiting(self, waiting: Sequence[Seen], now: int) -> list[Duty]:
        """Cancel jobs that wait for their flow; return what that entails."""
        changes = []
        for seen in waiting:
            step = outcome_rules.cancel(seen.row, now)
            if step is not None:
                duty = self.duty_of(seen.row, step.row, step.counted, None, now)
                changes.append(Change(seen, step.row, step.counted, duty))
        swaps = self.swap(changes).swaps
        return [one.duty for one, swap in zip(changes, swaps, strict=True) if one.duty and swap is Swap.DONE]

    # -- after a death

    def sweep(self) -> None:
        """Do again what a process that died may have left half done."""
        for duties in _portions(self.duties(self.now() - STALE)):
            self._do(duties, self._free_forfeited)
        self.end_all({}, list(self.unfollowed()))
        for holds in _portions(self.holds()):
            self._check(holds)
        for gates in _portions(gate for gate in self.gates_waited_at() if not is_node_gate(gate)):
            self.wake(*gates)


def _portions(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, _AT_ONCE)):
        yield part
