"""The verdict: samples of figures, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.reporting.verdict import BAD, FAIR, Fact, verdict_of
from tests.spark.report import samples


def changed(**changes: Any) -> dict[str, Any]:
    """Return the figures of a single job with other totals."""
    figures = samples.one()
    figures["whole"] |= {"jobs": 40, "done": 40} | changes
    return figures


def facts(figures: dict[str, Any]) -> dict[str, Fact]:
    return {fact.name: fact for fact in verdict_of(figures).facts}


def late(share: float) -> dict[str, Any]:
    figures = changed()
    (band,) = figures["bands"]
    band["levels"][0]["share"] = share
    return figures


def died(dead: int, of: int) -> dict[str, Any]:
    figures = changed(dead=of, done=40 - of)
    figures["tasks"]["rows"][0] |= {"queue": "billing", "task": "invoices", "dead": dead}
    return figures


@pytest.mark.parametrize(
    ("figures", "sentence"),
    [
        (samples.one(), "The only job was done at the first attempt."),
        (changed(), "All 40 jobs were done at the first attempt."),
        (changed(done=39, cancelled=1), "No job died, and none failed."),
        (changed(failures=1), "No job died; 1 attempt failed on the way."),
        (changed(failures=1200), "No job died; 1,200 attempts failed on the way."),
        (late(0.94), "No job died, but 6.0% of the eventual jobs started later than 1 h 30 min."),
        (late(0.95), "All 40 jobs were done at the first attempt."),
        (died(3, 3), "3 of 40 jobs died, in billing: invoices."),
        (died(2, 3), "3 of 40 jobs died, 2 of them in billing: invoices."),
        (died(0, 3), "3 of 40 jobs died."),
    ],
)
def test_the_sentence(figures: dict[str, Any], sentence: str) -> None:
    assert verdict_of(figures).sentence == sentence


def test_what_is_on_top() -> None:
    found = facts(samples.year())
    assert found["Slowest task"].text == "reports: nightly, p95 0.5 s"
    assert found["Top error"].level == BAD
    assert found["Top error"].link == "errors"


def test_who_waits() -> None:
    assert "Oldest waiting job" not in facts(changed())
    assert facts({**changed(), "now": {"queue": "mail", "oldest": 59.0}})["Oldest waiting job"].level == ""
    fact = facts({**changed(), "now": {"queue": "mail", "oldest": 61.0}})["Oldest waiting job"]
    assert (fact.level, fact.text) == (FAIR, "1 min 1 s in mail, when this page was made")


def test_against_the_period_before() -> None:
    before = {"jobs": 20, "dead": 0, "failures": 3, "first": 1.0, "last": 2.0, "pickup_p95": 0.1}
    fact = facts({**changed(dead=1), "before": before})["Against the period before"]
    assert (fact.level, fact.text) == (FAIR, "+100% jobs; none died then, and 3 attempts failed")
    assert facts({**changed(), "before": before | {"dead": 4}})["Against the period before"].level == ""
    assert facts({**changed(), "before": before | {"jobs": 0}})["Against the period before"].text == (
        "no job finished then"
    )
