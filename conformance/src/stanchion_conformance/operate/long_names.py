"""Queues with the longest names have all that others have, though names are made of theirs."""

from __future__ import annotations

import pytest

from stanchion import Stanchion
from stanchion.alerts.owners import owners_of_alerts, set_owner
from stanchion.alerts.reading.parts import read_streams
from stanchion.core.checks import MAX_NAME
from stanchion.core.names.fitted_names import fitted
from stanchion.streams.source import StreamSource
from stanchion.telemetry.rollups import ALL, past, take
from stanchion_conformance.harness import StoreClock

LENGTHS = (MAX_NAME - 40, MAX_NAME - 6, MAX_NAME)


def named(length: int, first: str = "é") -> str:
    return first * (length - 1) + "x"


class TestLongNames:
    @pytest.mark.parametrize("length", LENGTHS)
    def test_the_past_of_their_figures_is_kept(self, app: Stanchion, clock: StoreClock, length: int) -> None:
        queues = [named(length), named(length, "ü"), "mail"]
        for place, queue in enumerate(queues, 1):
            app.queue(queue).push_many([{}] * place)
        assert take(app.store)
        clock.advance(61)
        assert take(app.store)
        found = past(app.store, [*queues, ALL], 1, app.store.now())
        assert [{point.ready for point in found[queue]} for queue in queues] == [{1}, {2}, {3}]
        assert {point.ready for point in found[ALL]} == {6}

    @pytest.mark.parametrize("length", LENGTHS)
    def test_someone_can_look_after_their_alerts(self, app: Stanchion, length: int) -> None:
        for first in ("é", "ü"):
            app.queue(named(length, first)).push({})
        alerts = app.monitor({"no_worker": 1e-6}).alerts
        assert {one.subject for one in alerts} == {named(length), named(length, "ü")}
        set_owner(app.store, alerts[0].key, "ana", app.store.now())
        assert [owners_of_alerts(app.store, app.store.now()).get(one.key) is not None for one in alerts] == [
            True,
            False,
        ]

    def test_a_stream_reads_them(self, app: Stanchion) -> None:
        queue = app.queue(named(MAX_NAME))
        queue.push({})
        source = StreamSource(app.store, queue.name, queue.name)
        assert source.latest(source.initial(), 10).seq == 1
        source.beat()
        (stream,) = read_streams(app.store, app.store.workers(), app.store.now())
        assert (stream.name, stream.live, stream.pending) == (queue.name, True, True)


class TestFittedNames:
    """Concerns only the model."""

    def test_short_ones_stay(self) -> None:
        assert fitted("mail", "@12") == "mail@12"
        assert fitted("m" * 197, "@12") == "m" * 197 + "@12"

    def test_long_ones_fit_and_differ(self) -> None:
        names = [first * 199 + last for first in "ab" for last in "cd"]
        found = {fitted(name, end) for name in names for end in ("@12", "@13")}
        assert len(found) == 8
        assert {len(one) for one in found} == {136}
        assert all(one.endswith(("@12", "@13")) for one in found)
