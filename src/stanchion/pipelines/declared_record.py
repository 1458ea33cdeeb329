"""The record of a pipeline as this process declares it, and its storage."""

from __future__ import annotations

from collections.abc import Mapping

from stanchion.context.declarations.declared_texts import DeclaredTexts
from stanchion.pipelines.record import KIND, Engine, PipelineRecord, StationRecord
from stanchion.pipelines.station import Station
from stanchion.stores.protocol import Store


class DeclaredRecord:
    """The record of a pipeline. `stations`: those declared so far, by name."""

    def __init__(self, name: str, stations: Mapping[str, Station]) -> None:
        self._name, self._stations = name, stations
        self._texts = DeclaredTexts(KIND)

    def changed(self) -> None:
        """Store the record again when it is asked for: a station was declared."""
        self._texts.declare(self._name)

    @property
    def value(self) -> PipelineRecord:
        """The stations and links as they are stored."""
        return PipelineRecord(self._name, tuple(_record_of(one) for one in self._stations.values()))

    def store(self, store: Store) -> None:
        """Store the stations and links, where they are new or were lost, for processes without this code.

        A caller of a manager that may not change them works without: they are for people who look on.
        """
        if self._stations:
            self._texts.keep(store, lambda: {self._name: self.value.text})


def _record_of(one: Station) -> StationRecord:
    engine: Engine = "workers" if one.frame is None else "both" if one.on_workers else "spark"
    expectations = () if one.expectations is None else one.expectations.texts
    return StationRecord(one.station, one.to, one.entry, engine, expectations)
