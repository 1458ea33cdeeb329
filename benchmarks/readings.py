"""What a run yields, and how readings of different contenders compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True)
class Reading:
    """One measurement of one contender in one round.

    `value` is in the unit of its table. `extra` holds what was seen beside it, by column title. Where
    `value` is the median of `samples`, those are kept, to take percentiles of all rounds together.
    """

    table: str
    contender: str
    round: int
    value: float
    extra: dict[str, float] = field(default_factory=dict)
    samples: list[float] = field(default_factory=list)


class Readings:
    """All readings of a run, by table."""

    def __init__(self) -> None:
        self.all: list[Reading] = []

    def add(self, readings: Iterable[Reading]) -> None:
        """Keep these as well."""
        self.all.extend(readings)

    def tables(self) -> list[str]:
        """Return the tables that have readings, in the order of their first."""
        return list(dict.fromkeys(reading.table for reading in self.all))

    def contenders(self, table: str) -> list[str]:
        """Return the contenders of a table, in the order of their first reading."""
        return list(dict.fromkeys(each.contender for each in self.all if each.table == table))

    def of(self, table: str, contender: str) -> list[Reading]:
        """Return a contender's readings, by round."""
        return [each for each in self.all if (each.table, each.contender) == (table, contender)]

    def typical(self, table: str, contender: str) -> float | None:
        """Return the median of a contender's readings."""
        values = [each.value for each in self.of(table, contender)]
        return median(values) if values else None

    def samples(self, table: str, contender: str) -> list[float]:
        """Return a contender's samples of all rounds."""
        return [sample for each in self.of(table, contender) for sample in each.samples]

    def ratio(self, table: str, contender: str, others: Sequence[str]) -> float | None:
        """Return the median, over the rounds, of a contender's value to the best of the others.

        Both values of a ratio come from the same round, so that what slows all of them down for a
        while does not count.
        """
        rounds: dict[int, list[float]] = {}
        for other in others:
            for each in self.of(table, other):
                rounds.setdefault(each.round, []).append(each.value)
        ratios = [each.value / max(rounds[each.round]) for each in self.of(table, contender) if each.round in rounds]
        return median(ratios) if ratios else None
