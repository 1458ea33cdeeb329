"""What became of the items of a chunk, as the values that a station's function has returned say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice
from typing import Final

from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput
from stanchion.jobs.failures import failure_of
from stanchion.jobs.outcome import UNCHANGED, Outcome
from stanchion.pipelines.chunks.ends import Ends, Failed, Values, Way
from stanchion.pipelines.chunks.in_order import refuse_several, tried_by
from stanchion.pipelines.chunks.station import ItemStation
from stanchion.pipelines.send import Send, delay_of, priority_of, refuse_options
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Abandon, Bury, Rollback
from stanchion.tasks.execution import Execution, outcome_of_error

_SAYING: Final = (Outcome, Send, list, type(None))
"""Types of values that may say where an item goes; others are the item itself, or its result."""


class Recording:
    """Records the ends of items in `ends`."""

    def __init__(self, station: ItemStation, row: JobRow, ends: Ends) -> None:
        self._station, self._row, self.ends = station, row, ends

    def record(self, items: Chunk, values: Sequence[object]) -> None:
        """Record what the items have become that were begun and have not failed: most often, all of them alike."""
        station, ends = self._station, self.ends
        failed = {one.place for one in ends.failed}
        places = (
            islice((place for place in count() if place not in failed), len(values)) if failed else range(len(values))
        )
        done = Values(places, values)
        kinds = set(map(type, values))
        if not values:
            return
        if kinds == {Send} and not station.merges:
            self._record_sends(items, done)
        elif station.merges or len(station.targets) > 1 or any(issubclass(kind, _SAYING) for kind in kinds):
            self._record_each(items, done)
        elif station.targets:
            ends.values[Way(station.targets[0])] = done
        else:
            ends.results = done

    def fail(self, index: int, items: Chunk, error: BaseException, at: int | None = None) -> bool:
        """Record the outcome of an item as it would be if the item were a job of its own.

        Return True if no later item may begin, as the items are in order.
        `index`: its place in the chunk; `at`: its place among `items`, if these are only some.
        """
        context = self._station.context
        text = items.text(index if at is None else at)
        alone = tried_by(self._row, index)._replace(payload=context.codec.encode_json(text), items=None)
        ended = outcome_of_error(Execution(context, alone), error)
        assert isinstance(ended, Rollback | Bury | Abandon)  # noqa: S101 - no item settles itself
        self.ends.failed.append(Failed(index, ended))
        return self._row.order_key is not None and isinstance(ended, Rollback)

    def way(self, send: Send) -> Way:
        """Return where a Send leads. Raises InvalidInput for a target or an option that the station does not allow."""
        if send.to in self._station.tables:
            refuse_options(send)
        return Way(self._station.checked_target(send.to), delay_of(send), priority_of(send))

    def _record_sends(self, items: Chunk, done: Values) -> None:
        """Record items that go to one place each; each way is checked once."""
        sends = [send for send in done.values if isinstance(send, Send)]
        said = [(send.to, send.delay, send.priority) for send in sends]
        try:
            ways = {one: self.way(send) for one, send in dict(zip(said, sends, strict=True)).items()}
        except InvalidInput:  # of an item that goes nowhere
            self._record_each(items, done)
            return
        parts = {one: self.ends.values[way] for one, way in ways.items()}
        for index, one, send in zip(done.indices, said, sends, strict=True):
            parts[one].add(index, send.item)

    def _record_each(self, items: Chunk, done: Values) -> None:
        given = items.values
        for index, value in zip(done.indices, done.values, strict=True):
            self._record_one(index, items, given[index], value)

    def _record_one(self, index: int, items: Chunk, item: object, value: object) -> None:
        """Record what an item became. An outcome that was returned is as if it had been raised."""
        if isinstance(value, Outcome):
            self.fail(index, items, value)
            return
        try:
            self._record_value(index, item, value)
        except InvalidInput as error:  # a retry would return the same
            self.ends.failed.append(Failed(index, Bury(self._row.lease, *failure_of(error, None))))

    def _record_value(self, index: int, item: object, value: object) -> None:
        station, ends = self._station, self.ends
        if len(station.targets) == 1 and value is not None and not isinstance(value, Send | list):
            ends.values[Way(station.targets[0])].add(index, station.merged(item, value))
            return
        sends = station.sends_of(value)
        if sends is None:
            ends.results.add(index, value)
        elif not sends:
            ends.dropped += 1
        elif len(sends) == 1:
            (send,) = sends
            ends.values[self.way(send)].add(index, station.merged(item, send.item))
        else:
            self._record_several(index, item, sends)

    def _record_several(self, index: int, item: object, sends: list[Send]) -> None:
        station, ends = self._station, self.ends
        refuse_several(self._row)
        made = [(self.way(send), station.merged(item, send.item)) for send in sends]
        made = [(way, item if new is UNCHANGED else new) for way, new in made]
        for way, new in made:
            if way.to in station.tables:  # an item whose row does not fit goes nowhere
                station.tables[way.to].row_of(station.context.codec, new, self._row.id, index)
            elif way.to in station.folders:
                station.folders[way.to].refuse_misfit(station.context.codec, new)
        ends.forked += 1
        for way, new in made:
            if way.to in station.tables:
                ends.values[way].add(index, new)
            else:
                ends.several[way].append(new)
