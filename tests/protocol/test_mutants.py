"""The explorer finds mistakes: each of these stores has one, of the kind that one makes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest import mock

import pytest

from stanchion.stores.cas import admission, outbox, slots
from stanchion.stores.cas import flows as following
from stanchion.stores.cas.entries import Entry, Hold, hold_of
from stanchion.stores.cas.jobs import Change, Jobs, Result, Results, Seen
from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules import flows
from stanchion.stores.rules.lifecycle import claims as claim_rules
from tests.protocol import fake
from tests.protocol.explorer import Explorer, Violation
from tests.protocol.fake import Fake, Rows
from tests.protocol.scenarios import FAN_OUTS, FLOWS, ORDER, SEMAPHORES


class NoLookAfterParking(Fake):
    """Parks a job, and does not look at its slot once more."""

    class Admission(admission.Admission):
        def park(self, *args: Any) -> None:
            with mock.patch.object(self.slots, "wake"):
                super().park(*args)


class FreesWhateverTheToken(Fake):
    """Frees the slot of a job, also where it has taken it again."""

    class Rows(fake.Rows):
        def _free_slot(self, hold: Hold) -> None:
            for one in [one for one in self.world.slots if one[:2] == hold[:2]]:
                del self.world.slots[one]


class FreesTheKeyOfTheNextLife(FreesWhateverTheToken):
    """Frees the order key of a job that has ended, also where it was re-driven and has taken it again."""


class TellsBeforeTaking(Fake):
    """Tells a waiter of a slot, then takes it."""

    class Slots(slots.Slots):
        rows: Rows

        def wake(self, *wanted: Slot) -> None:
            rows = self.rows
            for slot in wanted:
                while (first := self.next_at([slot])[0]) and rows.step("look", partial(rows.free_at, slot)):
                    rows.compare_and_set([Change(first, claim_rules.granted(first.row, first.at))])
                    rows.take_each([hold_of(first.row, slot)])


class DeletesFirst(Fake):
    """Deletes outbox entries, then applies them."""

    class Outbox(outbox.Outbox):
        def follow_up(self, entries: Sequence[Entry]) -> None:
            self.jobs.delete_entries(entries)
            super().follow_up(entries)


class StoresNoneOfTheRest(DeletesFirst):
    """Deletes that a job goes on as others, then stores them."""


class LooksThenTakes(Fake):
    """Looks for a free slot in one step, and takes it in the next."""

    class Rows(fake.Rows):
        def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
            taken = []
            for hold in wanted:
                taken.append(self.step("look for a slot", partial(self.free_at, hold.slot)))
                if taken[-1]:
                    self.step("take it", partial(self._put_slot, hold))
            return taken

        def _put_slot(self, hold: Hold) -> None:
            self.world.slots[hold] = None


class KeepsTheSlotOfWhoHasLeft(Fake):
    """Does not free a slot whose job waits no longer."""

    class Slots(slots.Slots):
        def give_each(self, given: Sequence[tuple[Seen, Hold]]) -> None:
            with mock.patch.object(self.rows, "free_each"):
                super().give_each(given)


class FreesWithoutWaking(Fake):
    """Frees slots, and looks for no waiters."""

    class Slots(slots.Slots):
        def free(self, holds: Sequence[Hold]) -> None:
            self.rows.free_each(holds)


class ParksOnce(Fake):
    """Leaves alone a job that was changed while it was to be parked."""

    class Admission(admission.Admission):
        def undo(self, *args: Any) -> list[JobRow]:
            jobs = self._loop.jobs
            with mock.patch.object(jobs, "compare_and_set", lambda changes: _once(jobs, changes)):
                return super().undo(*args)


def _once(jobs: Jobs, changes: Sequence[Change]) -> Results:
    results = Rows.compare_and_set(jobs, changes).each  # type: ignore[arg-type]
    return Results([Result.KEY_TAKEN if result is Result.CHANGED else result for result in results])


class LetsAnybodyIn(Fake):
    """Does not ask who is the head of the line."""

    class Rows(fake.Rows):
        def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
            return [None] * len(keys)


class MarksBeforeFollowing(Fake):
    """Marks a node as followed before what follows is done."""

    class Flows(following.Flows):
        def follow(self, node: FlowNode, entries: list[Entry]) -> list[tuple[str, Sequence[MemberEnd]]]:
            self.rows.followed(node)
            return super().follow(node, entries)


class CountsTwice(Fake):
    """Counts the end of a member whenever it is told of it."""

    class Rows(fake.Rows):
        def _end_member(self, end: MemberEnd) -> FlowNode | None:
            self.world.ends[end.node, end.index] = end
            return self._settle_node(flows.advanced(self.world.nodes[end.node], None, end, self.now()))


class ChecksNoSlots(Fake):
    """Recovers, and does not check who holds slots."""

    class Slots(slots.Slots):
        def check(self, holds: Sequence[Hold]) -> None:
            pass


class ChecksNoLines(Fake):
    """Recovers, and does not look for waiters beside free slots."""

    class Rows(fake.Rows):
        def slots_waited_at(self) -> Sequence[Slot]:
            return ()


class FreesWhatIsOverdue(Fake):
    """Recovers, and frees the slots of old entries, also those that are held by rights again."""

    class Slots(slots.Slots):
        def _free_forfeited(self, holds: Sequence[Hold], _freed: object) -> dict[str, Seen]:
            self.free(holds)
            return {}


class TrustsTheHeadThatItRead(Fake):
    """Takes an order key, and does not ask once more who is the head of the line."""

    class Slots(slots.Slots):
        def _confirmed(self, _holds: Sequence[Hold], taken: Sequence[bool]) -> list[bool]:
            return list(taken)


class FreesBeforeThePartsAreStored(Fake):
    """Recovers, and frees the order key of a job whose parts are not stored yet."""

    class Slots(slots.Slots):
        def _settled(self, holds: Sequence[Hold]) -> list[Hold]:
            return list(holds)


class GrantsTheKeyBehindTheHead(Fake):
    """Recovers, and records an order key in a waiter that had taken it too early."""

    class Slots(slots.Slots):
        def check(self, holds: Sequence[Hold]) -> None:
            with mock.patch.object(self, "_confirmed", lambda _holds, taken: taken):
                super().check(holds)


MUTANTS: dict[type[Fake], tuple[str, str]] = {
    NoLookAfterParking: ("a claimer and a release", "a slot of a is free"),
    FreesWhateverTheToken: ("a rollback, another claim and an outbox recovery", "without a"),
    TellsBeforeTaking: ("two wakers", "says that it holds a"),
    DeletesFirst: ("two members end, and a crash", "N never ends"),
    StoresNoneOfTheRest: ("a fan-out and a cancel", "goes on as there are set()"),
    LooksThenTakes: ("two claimers", "2 jobs run at a"),
    KeepsTheSlotOfWhoHasLeft: ("a grant and a cancel", "without a right"),
    FreesWithoutWaking: ("a claimer and a release", "a slot of a is free"),
    ParksOnce: ("a claimer and a cancel", "stuck"),
    LetsAnybodyIn: ("the first comes late", "before it is head of line"),
    MarksBeforeFollowing: ("two members end, and a crash", "waits for N"),
    CountsTwice: ("members end beside outbox recovery", ""),
    ChecksNoSlots: ("a grant and a cancel", "without a right"),
    ChecksNoLines: ("a claimer and a release", "a slot of a is free"),
    FreesTheKeyOfTheNextLife: ("driven again after outbox recovery", "1 runs without k"),
    TrustsTheHeadThatItRead: ("the first is divided", "3 runs before it is head of line"),
    FreesBeforeThePartsAreStored: (
        "the first is divided, beside outbox recovery",
        "3 runs before it is head of line",
    ),
    GrantsTheKeyBehindTheHead: ("the first is divided", "3 runs before it is head of line"),
    FreesWhatIsOverdue: ("driven again, head of line", ""),
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mistake_is_found(mutant: type[Fake]) -> None:
    name, wrong = MUTANTS[mutant]
    with pytest.raises(Violation) as violation:
        Explorer({**SEMAPHORES, **ORDER, **FLOWS, **FAN_OUTS}[name], mutant).run()
    print(violation.value)
    assert any(wrong in one for one in violation.value.wrong)
