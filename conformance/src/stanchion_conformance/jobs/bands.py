"""Priorities by the names of their bands."""

from __future__ import annotations

import pytest

from stanchion import Push, Queue, Stanchion
from stanchion.core.service_levels import BANDS
from stanchion.errors import InvalidInput
from stanchion.pipelines import Send
from stanchion_conformance.harness import QUEUE

PRIORITIES = {"interactive": 80, "user_visible": 40, "eventual": 0, "reporting": -60}


class TestBands:
    def test_a_name_is_a_priority_within_its_band(self, q: Queue) -> None:
        pushed = {band: q.push(band, priority=band).priority for band in PRIORITIES}  # type: ignore[arg-type]
        assert pushed == PRIORITIES
        for band, above in zip(BANDS, (101, *(band.least for band in BANDS)), strict=False):
            assert band.least <= pushed[band.name] < above

    def test_orders_the_jobs(self, q: Queue) -> None:
        q.push_many([Push(band, priority=band) for band in ("reporting", "interactive", "eventual", "user_visible")])
        q.push("none")
        assert [job.payload for job in q.reserve(9)] == ["interactive", "user_visible", "eventual", "none", "reporting"]

    def test_of_tasks_and_items(self, app: Stanchion) -> None:
        task = app.task(name="work", queue=QUEUE, priority="user_visible")(len)
        etl = app.pipeline("etl")
        etl.station("in", to="out")(lambda item: Send("out", item, priority="interactive"))
        etl.station("out")(lambda item: item)
        usual, urgent = task.enqueue("a"), task.using(priority="interactive").enqueue("a")
        by_name = app.enqueue("elsewhere", queue=QUEUE, priority="reporting")
        assert [job.job().priority for job in (usual, urgent, by_name)] == [40, 80, -60]
        etl.push({}, "in")
        assert app.drain(["etl.in"]) == 1
        assert etl.queue("out").reserve()[0].priority == 80

    @pytest.mark.parametrize("word", ["Interactive", "urgent", "", "5"])
    def test_other_words_are_refused(self, q: Queue, word: str) -> None:
        with pytest.raises(InvalidInput, match="-100 to 100, or interactive or user_visible or eventual or reporting"):
            q.push({}, priority=word)  # type: ignore[arg-type]
        assert q.size().total == 0
