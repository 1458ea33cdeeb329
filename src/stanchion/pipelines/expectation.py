"""Expectations: conditions on a station's items, and the consequences for items that fail them.

    bury   the item is a dead letter, with the condition and the values involved as its error
    drop   the item is cancelled, with the same as its reason
    stop   the queue of the station is paused, with the same as its note; the item returns to it

An expectation is checked before the function sees the item, on workers and on Spark alike. Only a condition that is
true is met: one that is unknown, as it depends on a null, is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, get_args

from stanchion.context.queues import pauses
from stanchion.context.queues.settings import settings_of
from stanchion.core.names.partition_names import logical_name
from stanchion.errors import InvalidInput
from stanchion.jobs.outcome import Bury, Cancel, Outcome, Snooze, for_unmet
from stanchion.pipelines.condition import Condition
from stanchion.stores.protocol import Store
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow

OnFail = Literal["bury", "drop", "stop"]

FAILED: Final = "ExpectationFailed"
"""Prefix of the errors of such items."""

_LONGEST: Final = 800


class Expectation(NamedTuple):
    """A condition, and the consequence for an item that fails it."""

    condition: Condition
    on_fail: OnFail

    @classmethod
    def of(cls, condition: str, on_fail: OnFail) -> Expectation:
        """Return a checked one. Raises InvalidInput, and MissingExtra without sqlglot."""
        if on_fail not in get_args(OnFail):
            raise InvalidInput(f"on_fail must be one of {', '.join(get_args(OnFail))}, not {on_fail!r}")
        return cls(Condition(condition), on_fail)


class Unmet(NamedTuple):
    """Description of an item that does not meet an expectation."""

    expectation: Expectation
    reason: str

    def raised(self, store: Store, row: JobRow) -> Outcome:
        """Return the outcome that a worker raises instead of calling the function; pause a station that is to stop."""
        match self.expectation.on_fail:
            case "bury":
                outcome: Outcome = Bury(self.reason)
            case "drop":
                outcome = Cancel(self.reason)
            case "stop":
                self._pause(store, row)
                outcome = Snooze(0)
        return for_unmet(outcome, self.expectation.condition.text)

    def ending(self, store: Store, row: JobRow) -> outcomes.Ending:
        """Return the same as an outcome for the store."""
        match self.expectation.on_fail:
            case "bury":
                return outcomes.Bury(row.lease, self.reason)
            case "drop":
                return outcomes.Abandon(row.lease, self.reason)
            case "stop":
                self._pause(store, row)
                return outcomes.Rollback(row.lease, 0.0, refund=True)

    def _pause(self, store: Store, row: JobRow) -> None:
        queue = logical_name(row.queue)
        if not settings_of(store, queue).paused:  # the first note stays
            note = f"item {row.id} failed {' with '.join(self.reason.partition(': ')[2].splitlines())}"
            pauses.pause(store, queue, note[: pauses.NOTE_MAX], f"the expectation of {queue}")


class Expectations:
    """The expectations of a station, in the order of reading. The first that is not met decides.

    `tells`: whether errors and notes may show the values of an item; they are stored unencrypted.
    """

    def __init__(self, expected: Sequence[Expectation], *, tells: bool) -> None:
        self.expected, self._tells = tuple(expected), tells

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """The conditions, and the consequences for items that fail one."""
        return tuple((one.condition.text, one.on_fail) for one in self.expected)

    def unmet(self, item: object) -> Unmet | None:
        """Return the first expectation that an item does not meet."""
        for one in self.expected:
            if one.condition.of(item) is not True:
                text, seen = one.condition.text, one.condition.seen(item) if self._tells else ""
                return Unmet(one, f"{FAILED}: {text}" + (f"\n{seen}"[:_LONGEST] if seen else ""))
        return None

    def check(self, store: Store, row: JobRow, item: object) -> None:
        """Raise what becomes of an item that does not meet them."""
        unmet = self.unmet(item)
        if unmet is not None:
            raise unmet.raised(store, row)


class DeclaredExpectations:
    """What `@pipeline.expect` has declared of functions, until their stations are."""

    def __init__(self) -> None:
        self._declared: list[tuple[Callable[..., object], Expectation]] = []

    def add(self, function: Callable[..., object], expected: Expectation) -> None:
        """Add one; decorators are applied from below, so it precedes the known ones."""
        self._declared.insert(0, (function, expected))

    def of(self, *functions: Callable[..., object] | None, tells: bool) -> Expectations | None:
        """Return the expectations of a station's function, None without any. `tells`: see Expectations."""
        found = [one for function in functions for declared, one in self._declared if declared is function]
        return Expectations(found, tells=tells) if found else None
