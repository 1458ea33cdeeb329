"""The explorer finds mistakes: each of these stores has one, of the kind that one makes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest import mock

import pytest

from stanchion.stores.cas.jobs import Change, Duty, Seen, Swap, Swapped
from stanchion.stores.cas.outbox import Hold, hold_of
from stanchion.stores.records.flows import End, Node
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules import flows
from tests.protocol.explorer import Explorer, Violation
from tests.protocol.fake import Fake
from tests.protocol.scenarios import FAN_OUTS, FLOWS, GATES, ORDER


class NoLookAfterParking(Fake):
    """Parks a job, and does not look at its gate once more."""

    def _keep_back(self, *args: Any) -> None:
        with mock.patch.object(self, "wake"):
            super()._keep_back(*args)


class FreesWhateverThePermit(Fake):
    """Frees the slot of a job, also where it has taken it anew."""

    def _free_slot(self, hold: Hold) -> None:
        for one in [one for one in self.world.slots if one[:2] == hold[:2]]:
            del self.world.slots[one]


class FreesTheKeyOfTheNextLife(FreesWhateverThePermit):
    """Frees the order key of a job that has ended, also where it was driven again and has taken it anew."""


class TellsBeforeTaking(Fake):
    """Tells a waiter of a slot, then takes it."""

    def wake(self, *gates: str) -> None:
        for gate in gates:
            while (first := self._next_at([gate])[0]) and self.step("look for a slot", partial(self._free_at, gate)):
                self.swap([Change(first, claim_rules.granted(first.row))])
                self.take_each([hold_of(first.row, gate)])


class StrikesOffFirst(Fake):
    """Strikes duties off, then does them."""

    def follow_up(self, duties: Sequence[Duty]) -> None:
        self.strike_off(duties)
        super().follow_up(duties)


class StoresNoneOfTheRest(StrikesOffFirst):
    """Strikes off that a job goes on as others, then stores them."""


class LooksThenTakes(Fake):
    """Looks for a free slot in one step, and takes it in the next."""

    def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
        taken = []
        for hold in wanted:
            taken.append(self.step("look for a slot", partial(self._free_at, hold.gate)))
            if taken[-1]:
                self.step("take it", partial(self._put_slot, hold))
        return taken

    def _put_slot(self, hold: Hold) -> None:
        self.world.slots[hold] = None


class KeepsTheSlotOfWhoHasLeft(Fake):
    """Does not free a slot whose job has left the line meanwhile."""

    def _give_each(self, given: Sequence[tuple[Seen, Hold]]) -> None:
        with mock.patch.object(self, "free_each"):
            super()._give_each(given)


class FreesWithoutWaking(Fake):
    """Frees slots, and looks for no waiters."""

    def _free(self, holds: Sequence[Hold]) -> None:
        self.free_each(holds)


class ParksOnce(Fake):
    """Leaves alone a job that somebody has changed while it was to be parked."""

    def _undo(self, *args: Any) -> list[JobRow]:
        with mock.patch.object(self, "swap", lambda changes: self._once(changes)):
            return super()._undo(*args)

    def _once(self, changes: Sequence[Change]) -> Swapped:
        swaps = Fake.swap(self, changes).swaps
        return Swapped([Swap.KEY_TAKEN if swap is Swap.CHANGED else swap for swap in swaps])


class LetsAnybodyIn(Fake):
    """Does not ask whose turn it is."""

    def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
        return [None] * len(keys)


class MarksBeforeFollowing(Fake):
    """Marks a node as followed before what follows is done."""

    def _follow(self, node: Node, duties: list[Duty]) -> list[tuple[str, Sequence[End]]]:
        self.followed(node)
        return super()._follow(node, duties)


class CountsTwice(Fake):
    """Counts the end of a member whenever it is told of it."""

    def _end_member(self, end: End) -> Node | None:
        self.world.ends[end.node, end.place] = end
        return self._settle_node(flows.advanced(self.world.nodes[end.node], None, end, self.now()))


class SweepsNoSlots(Fake):
    """Sweeps, and does not check who holds slots."""

    def _check(self, holds: Sequence[Hold]) -> None:
        pass


class SweepsNoLines(Fake):
    """Sweeps, and does not look for waiters beside free slots."""

    def gates_waited_at(self) -> Sequence[str]:
        return ()


class FreesWhatIsOverdue(Fake):
    """Sweeps, and frees the slots of old duties, also those that are held by rights again."""

    def _free_forfeited(self, holds: Sequence[Hold]) -> dict[str, Seen]:
        self._free(holds)
        return {}


MUTANTS: dict[type[Fake], tuple[str, str]] = {
    NoLookAfterParking: ("a claimer and a release", "a slot of s:a is free"),
    FreesWhateverThePermit: ("a rollback, a claim anew and a sweep", "without s:a"),
    TellsBeforeTaking: ("two wakers", "says that it holds s:a"),
    StrikesOffFirst: ("two members end, and a crash", "N never ends"),
    StoresNoneOfTheRest: ("a fan-out and a cancel", "goes on as there are set()"),
    LooksThenTakes: ("two claimers", "2 jobs run at s:a"),
    KeepsTheSlotOfWhoHasLeft: ("a grant and a cancel", "without a right"),
    FreesWithoutWaking: ("a claimer and a release", "a slot of s:a is free"),
    ParksOnce: ("a claimer and a cancel", "stuck"),
    LetsAnybodyIn: ("the first comes late", "before its turn"),
    MarksBeforeFollowing: ("two members end, and a crash", "waits for N"),
    CountsTwice: ("members end beside a sweep", ""),
    SweepsNoSlots: ("a grant and a cancel", "without a right"),
    SweepsNoLines: ("a claimer and a release", "a slot of s:a is free"),
    FreesTheKeyOfTheNextLife: ("driven again after a sweep", "1 runs without o1:q:k"),
    FreesWhatIsOverdue: ("driven again by turns", ""),
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mistake_is_found(mutant: type[Fake]) -> None:
    name, wrong = MUTANTS[mutant]
    with pytest.raises(Violation) as violation:
        Explorer({**GATES, **ORDER, **FLOWS, **FAN_OUTS}[name], mutant).run()
    print(violation.value)
    assert any(wrong in one for one in violation.value.wrong)
