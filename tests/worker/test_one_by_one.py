"""Outcomes that are stored by smaller calls, in a fixed order."""

from collections.abc import Sequence
from threading import Event

from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.one_by_one import MISSES_MAX, Left, OneByOne
from stanchion.stores.records.jobs import Lease
from stanchion.stores.records.outcomes import Commit

AWAY = StoreUnavailable("locked")


class Settling:
    """A store that fails for some outcomes; all are of jobs of one queue, whose outcomes it takes otherwise."""

    def __init__(self, locked: str = "", wrong: str = "") -> None:
        self.locked, self.wrong, self.stored, self.refused = locked, wrong, "", ""

    def store(self, group: str, error: Exception) -> Left[str]:
        def refused(item: str, _error: Exception) -> bool:
            self.refused += item
            return True

        each = OneByOne(self._settle, lambda item: Commit(Lease("q", item, "token")), lambda _: True, refused, Event())
        return each.store(list(group), error)

    def _settle(self, group: Sequence[str]) -> None:
        if any(item in self.wrong for item in group):
            raise InvalidInput("too large")
        if any(item in self.locked for item in group):
            raise AWAY
        self.stored += "".join(group)


def test_outcomes_that_were_not_tried_come_before_those_that_failed() -> None:
    settling = Settling(locked="abc")
    assert MISSES_MAX == 3
    assert settling.store("abcde", AWAY) == (["d", "e", "a", "b", "c"], True)
    assert settling.stored == ""
    assert settling.store("deabc", AWAY) == (["a", "b", "c"], True)
    assert settling.stored == "de"


def test_a_wrong_outcome_is_found_by_halves_and_refused() -> None:
    settling = Settling(wrong="c")
    assert settling.store("abcdefgh", InvalidInput("too large")) == ([], True)
    assert (settling.stored, settling.refused) == ("abdefgh", "c")
