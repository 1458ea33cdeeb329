"""A pipeline: stations joined by queues, from which items move on in one atomic step each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from stanchion.core.checks import checked_name
from stanchion.core.graph.draw import GraphForm, drawn
from stanchion.core.retry import Retry
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job
from stanchion.jobs.options import PushOptions
from stanchion.pipelines.graph import graph_of
from stanchion.pipelines.options import MAX_ROUNDS, PayloadMode, Terms
from stanchion.pipelines.station import Station
from stanchion.pipelines.status import PipelineStatus, status_of
from stanchion.pipelines.topology import DEAD, Frame, check_links, reachable
from stanchion.queues.queue import Queue

if TYPE_CHECKING:
    from stanchion.app import Stanchion

F = TypeVar("F", bound=Callable[..., Any])


class Pipeline:
    """Stations of one app, and the links between them. Made by `app.pipeline(name)`."""

    def __init__(self, app: Stanchion, name: str) -> None:
        self.app, self.name = app, checked_name(name, "the name of a pipeline")
        self.stations: dict[str, Station] = {}
        self._entries: set[str] = set()
        self._checked = False

    # -- stations

    def station(
        self,
        name: str,
        /,
        *,
        to: str | Collection[str] | None = None,
        entry: bool = False,
        payload: PayloadMode = "replace",
        retry: Retry | None = None,
        max_attempts: int | None = None,
        limits: Collection[str] = (),
        timeout: float | timedelta | None = None,
        max_rounds: int = MAX_ROUNDS,
        **settings: Any,
    ) -> Callable[[F], F]:
        """Have a function work on the items of a station, in the queue `pipeline.name`.

        `to`: the stations that an item may go on to; without it the station is an end. `entry`: items are pushed here,
        as they are to the first station. `payload`: whether what the function returns takes the place of the item, or
        is merged into it. `retry`, `max_attempts`, `limits`, `timeout`: as for a task. `max_rounds`: how often an item
        may come here by a loop. `settings`: those of the queue; its dead letters go to `pipeline.dead`.
        """

        terms = Terms.of(to, entry, payload, retry, max_attempts, limits, timeout, max_rounds, settings)

        def register(function: F) -> F:
            self._add(Station(self, name, function, terms), settings)
            return function

        return register

    def spark_station(
        self,
        name: str,
        /,
        *,
        schema: str,
        to: str | Collection[str] | None = None,
        entry: bool = False,
        max_per_batch: int = 10_000,
        worker: Callable[..., Any] | None = None,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        max_rounds: int = MAX_ROUNDS,
        **settings: Any,
    ) -> Callable[[F], F]:
        """Have a function work on whole batches of items, as a DataFrame of this schema and `job_id`, by Spark.

        It returns a DataFrame, or one for each target: rows with a `job_id` move that item on, others are new items.
        `worker`: a function of one item that does the same on workers, which can't run this station without it.
        """

        terms = Terms.of(to, entry, "replace", retry, max_attempts, (), None, max_rounds, settings)

        def register(function: F) -> F:
            self._add(Station(self, name, worker, terms, Frame(function, schema, max_per_batch)), settings)
            return function

        return register

    def _add(self, station: Station, settings: dict[str, Any]) -> None:
        other = self.stations.get(station.station)
        if other is not None and not _same_code(other, station):
            raise InvalidInput(
                f"two functions are for station {station.station!r} of pipeline {self.name!r}; rename one of them"
            )
        self.app.queue(station.queue, **{"dead_letter": self.dead_letters.name, **settings})
        self.stations[station.station] = self.app.stations[station.queue] = station
        self._checked = False
        self.__dict__.pop("followers", None)

    @cached_property
    def followers(self) -> dict[str, set[str]]:
        """For each station those that an item can come to from it."""
        return reachable(self.stations)

    @property
    def entries(self) -> list[str]:
        """The stations where items come in: the first, those declared so, and those that items were pushed to."""
        more = [name for name, one in self.stations.items() if one.entry or name in self._entries]
        return list(dict.fromkeys([*list(self.stations)[:1], *more]))

    def check(self) -> None:
        """Raise InvalidInput, which says what to mend, for links that lead nowhere, and stations that nothing leads to.

        It is called before the first item.
        """
        if not self._checked:
            check_links(self.name, self.stations, self.entries)
            self._checked = True

    def check_worked(self, queues: Collection[str]) -> None:
        """Check what a worker for these queues needs to be right, if it has anything to do with this pipeline."""
        mine = [station for station in self.stations.values() if station.queue in queues]
        if mine:
            self.check()
        for station in mine:
            if not station.on_workers:
                raise only_on_spark(station)

    def prepare(self) -> None:
        """Check the links, and store the settings that the code gave for the queues."""
        self.check()
        self.app.declare(self.queues[0])

    # -- items in

    def push(self, item: Any, station: str | None = None, *, tx: Any = None, **options: Unpack[PushOptions]) -> Job:
        """Store an item at a station, the first one unless it is named; with the options of `Queue.push`."""
        return self._into(station).push(item, tx=tx, **options)

    def push_many(self, items: Iterable[Any], station: str | None = None, *, tx: Any = None) -> list[Job] | int:
        """Store many items, or `Push(item, **options)`, at a station; see `Queue.push_many`."""
        return self._into(station).push_many(items, tx=tx)  # type: ignore[call-overload,no-any-return]

    def _into(self, station: str | None) -> Queue:
        if station is None:
            self.check()
            station = next(iter(self.stations))
        queue = self.queue(station)
        if station not in self._entries:
            self._entries.add(station)
            self._checked = False
        self.check()
        return queue

    # -- looking and operating

    def queue(self, station: str) -> Queue:
        """Return the queue of a station; InvalidInput for one that is not declared."""
        return self.app.queue(self._station(station).queue)

    @property
    def dead_letters(self) -> Queue:
        """The queue of the items that no attempt could help; `retry` brings one back to its station."""
        return Queue(self.app, f"{self.name}.{DEAD}")

    def status(self, before: PipelineStatus | None = None) -> PipelineStatus:
        """Return what the stations hold and have done; with the rates since the status `before`."""
        return status_of(self, before)

    def graph(self, form: GraphForm = "text") -> str:
        """Return the stations and their links, drawn as `text`, `svg`, `mermaid` or `dot` (for Graphviz)."""
        self.check()
        return drawn(graph_of(self.name, self.stations, self.entries), form)

    def svg(self) -> str:
        """Return the stations and their links, drawn as a picture."""
        return self.graph("svg")

    def pause(self, *stations: str) -> None:
        """Stop working on the items of these stations, or of all, in every process; items still come in."""
        for station in self.chosen(stations):
            self.app.queue(station.queue).pause()

    def resume(self, *stations: str) -> None:
        """Go on at these stations, or at all."""
        for station in self.chosen(stations):
            self.app.queue(station.queue).resume()

    def chosen(self, names: Collection[str]) -> list[Station]:
        """Return the stations of these names, or all; InvalidInput for one that is not declared."""
        return [self._station(name) for name in names] if names else list(self.stations.values())

    def _station(self, name: str) -> Station:
        station = self.stations.get(name)
        if station is None:
            known = ", ".join(self.stations) or "none"
            raise InvalidInput(f"pipeline {self.name!r} has no station {name!r} (there are: {known})")
        return station

    # -- running

    @property
    def queues(self) -> list[str]:
        """The names of the stations' queues."""
        return [station.queue for station in self.stations.values()]

    def run(self, threads: int = 8, *, until_empty: bool = False, available_now: bool = False, **options: Any) -> None:
        """Work in this process until SIGTERM, SIGINT, or until there is nothing left to do; see `stanchion.Worker`.

        `until_empty`: until no station has an item, not even one that waits for its retry. `available_now`: until no
        item is due. Both wait for a paused station that has some.
        """
        self.check()
        self.app.run(self.queues, threads, until_empty=available_now, until_finished=until_empty, **options)

    def drain(self) -> int:
        """Run all that is due, here and now, in this thread; return how many attempts that were."""
        self.check()
        self.check_worked(self.queues)
        return self.app.drain(self.queues)

    def __repr__(self) -> str:
        return f"<Pipeline {self.name!r} of {self.app!r}: {', '.join(self.stations)}>"


def only_on_spark(station: Station) -> InvalidInput:
    """Return the error about a station that workers can't run."""
    return InvalidInput(
        f"station {station.station!r} works on DataFrames: run the pipeline with `stanchion pipeline run --engine "
        f"spark`, or give the station a twin for workers: spark_station({station.station!r}, worker=function, ...)"
    )


def _same_code(one: Station, other: Station) -> bool:
    """Tell whether two declarations come from the same lines, as when a module is loaded twice."""
    first, second = (station.frame.function if station.frame else station.function for station in (one, other))
    return getattr(first, "__code__", first) == getattr(second, "__code__", second)
