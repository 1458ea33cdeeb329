"""The stations of the demonstration, declared once for both engines."""

from __future__ import annotations

from flights.alerts import RETRY, Alert, tell, urgency
from flights.enrichment import enrich_all
from flights.flight import SCHEMA, clean, enrich, is_late, landed
from flights.source import Row
from stanchion.app import Stanchion
from stanchion.pipelines import Pipeline, Send

ENRICHES = "clean"
"""The station that Spark can do the work of: it is named like its queue, after what comes to it."""

PER_BATCH = 10_000
"""Flights that Spark takes at once at most."""


def stations(app: Stanchion, name: str) -> Pipeline:
    """Return a pipeline with the stations; nothing in it belongs to this process alone, so Spark may send it about."""
    flights = app.pipeline(name)
    flights.station("raw", to=[ENRICHES, "alerts"], max_attempts=1)(sort_out)
    enriching = flights.spark_station(
        ENRICHES, to="enriched", schema=SCHEMA, worker=enrich, max_per_batch=PER_BATCH, max_attempts=1
    )
    enriching(enrich_all)
    flights.station("enriched", max_attempts=1)(landed)
    flights.station("alerts", retry=RETRY)(tell)
    return flights


def sort_out(row: Row) -> list[Send]:
    """Clean a flight; raise an alert, in the same step, if it came late."""
    flight = clean(row)
    sends = [Send(ENRICHES, flight)]
    minutes = flight["arr_delay"]
    if is_late(minutes):
        alert: Alert = {"flight": flight["id"], "minutes": minutes}
        sends.append(Send("alerts", alert, priority=urgency(minutes)))
    return sends
