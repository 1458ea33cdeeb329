"""The record of a pipeline as this process declares it, which it stores once in each store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from stanchion.errors import NotPermitted
from stanchion.pipelines.record import Engine, PipelineRecord, StationRecord, record
from stanchion.pipelines.station import Station
from stanchion.stores.protocol import Store


class DeclaredRecord:
    """The record of a pipeline. `stations`: those declared so far, by name."""

    def __init__(self, name: str, stations: Mapping[str, Station]) -> None:
        self._name, self._stations = name, stations
        self._stored_in: Store | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the store, for other processes."""
        return {**self.__dict__, "_stored_in": None}

    def changed(self) -> None:
        """Store the record again when it is asked for: a station was declared."""
        self._stored_in = None

    @property
    def value(self) -> PipelineRecord:
        """The stations and links as they are stored."""
        return PipelineRecord(self._name, tuple(_record_of(one) for one in self._stations.values()))

    def store(self, store: Store) -> None:
        """Store the stations and links, once for each store, for those who have not this code.

        A caller of a manager that may not change them works without: they are for people who look on.
        """
        if self._stored_in is not store:
            if self._stations:
                with suppress(NotPermitted):
                    record(store, self.value)
            self._stored_in = store


def _record_of(one: Station) -> StationRecord:
    engine: Engine = "workers" if one.frame is None else "both" if one.on_workers else "spark"
    expectations = () if one.expectations is None else one.expectations.texts
    return StationRecord(one.station, one.to, one.entry, engine, expectations)
