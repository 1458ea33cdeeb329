"""Jobs that a reader removes from a batch before any is read: the query gets only jobs that it can process.

    jobs that do not meet an expectation   end as it says
    misfits                                are dead letters
    late jobs, and those without a time    see lateness.py

The first of these decides. A batch that is looked at again, as its driver died, has only the jobs that are left.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.pipelines.expectation import Expectation, Expectations, Unmet
from stanchion.spark.datasource.reading.lateness import Admitted, Lateness
from stanchion.spark.datasource.reading.typed import PAYLOAD, Misfits, TypedPayloads
from stanchion.spark.unmet import UnmetItems
from stanchion.stores.records.outcomes import Bury, Outcome
from stanchion.streams.state import StreamState
from stanchion.telemetry.failures import Batch


def _expectations(text: str) -> Expectations:
    try:
        given = [(str(condition), on_fail) for condition, on_fail in json.loads(text)]
    except (TypeError, ValueError):
        raise InvalidInput(f"the option expect must be JSON such as [['n > 0', 'bury']], not {text[:60]!r}") from None
    return Expectations([Expectation.of(condition, on_fail) for condition, on_fail in given], tells=True)


def admission_of(options: Mapping[str, Any]) -> Admission | None:
    """Return the watermark options of a stream; None: it has none. Raises InvalidInput."""
    lateness, expect = Lateness.of(options), options["expect"]
    if lateness is None:
        if expect is not None:
            raise InvalidInput("the option expect needs the option eventTime")
        return None
    expected = None if expect is None else _expectations(expect)
    return Admission(options["queue"], lateness, expected, options["maxMisfits"])


class TakenOut(NamedTuple):
    """The errors of misfits, by job; the outcomes of other jobs; and the latest time of the jobs that are left.

    The misfits are to be settled first: were others gone before a death, the misfits would be a greater share of what
    is left, and the brake could hold.
    """

    misfits: Mapping[str, str]
    others: list[Outcome]
    latest: int | None


@dataclass(frozen=True)
class Admission:
    """Which jobs of a queue a query with a watermark gets. `most_misfits`: in percent of a batch."""

    queue: str
    lateness: Lateness
    expected: Expectations | None
    most_misfits: float

    def taken_out(
        self, app: Stanchion, typed: TypedPayloads, state: StreamState, found: Iterable[pa.RecordBatch]
    ) -> TakenOut:
        """Return what becomes of the jobs of a batch that the query does not get.

        Raises JobsMisfit if too many do not fit.
        """
        watermark, admitted = self.lateness.watermark(state.seen), Admitted()
        unmet: dict[str, Unmet] = {}
        for batch in found:
            refused = self._unmet(app, batch)
            unmet.update(refused)
            times, misfits = typed.looked_at(app, batch, self.lateness.field)
            admitted.add(batch.column("id").to_pylist(), times, misfits, watermark, refused.keys())
        misfits = Misfits(self.queue, typed.schema.version, admitted.size, admitted.misfits)
        if misfits.are_too_many(self.most_misfits):
            raise misfits.stopped()
        outcomes = [
            *self._ended(app, state, unmet),
            *(self.lateness.outcome(state.lease(job), at, watermark) for job, at in admitted.late.items()),
        ]
        late = list(admitted.late)
        tenants = {row.id: row.tenant for row in app.store.fetch(late).values()} if late else {}
        placed = list(context_of(app).lanes.place(app.store, outcomes, lambda: tenants))
        return TakenOut(misfits.errors, placed, admitted.latest)

    def _unmet(self, app: Stanchion, batch: pa.RecordBatch) -> dict[str, Unmet]:
        if self.expected is None:
            return {}
        rows = zip(batch.column("id").to_pylist(), batch.column(PAYLOAD).to_pylist(), strict=True)
        checked = ((job, self.expected.unmet(context_of(app).codec.decode(text))) for job, text in rows)
        return {job: unmet for job, unmet in checked if unmet is not None}

    def _ended(self, app: Stanchion, state: StreamState, unmet: dict[str, Unmet]) -> list[Outcome]:
        """Return the outcomes of jobs that do not meet an expectation, and tally them, once for the batch."""
        tally, outcomes = UnmetItems(self.queue), list[Outcome]()
        if not unmet:
            return outcomes
        for row in app.store.fetch(list(unmet)).values():
            if row.token != state.token:  # it was taken back meanwhile
                continue
            one = unmet[row.id]
            outcomes.append(one.ending(app.store, row))
            tally.add(one.expectation.condition.text, row.id, dead=isinstance(outcomes[-1], Bury))
        tally.merge(app.store, Batch(state.id, state.token))
        return outcomes
