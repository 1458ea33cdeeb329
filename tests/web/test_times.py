"""Times at the ends of the calendar: refused as input, and shown where another writer has stored them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stanchion import Stanchion
from stanchion.core.times import moment
from stanchion.errors import InvalidInput
from tests.web.conftest import Browser

BEYOND = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")


@pytest.mark.parametrize("time", BEYOND)
def test_a_time_beyond_the_calendar_is_refused(browser: Browser, app: Stanchion, time: str) -> None:
    for path in ("/api/v1/jobs", "/api/v1/errors", "/api/v1/audit", "/jobs", "/audit"):
        for name in ("since", "until"):
            assert browser.get(path, params={name: time}).status_code == (422 if "api" in path else 400), (path, name)
    pushed = browser.post("/api/v1/queues/mail/jobs", json={"jobs": [{"payload": 1, "run_at": time}]})
    assert (pushed.status_code, pushed.json()["code"]) == (422, "invalid")
    with pytest.raises(InvalidInput, match="years 1 to 9999"):
        app.queue("mail").push(1, run_at=datetime.fromisoformat(time))
    with pytest.raises(InvalidInput, match="years 1 to 9999"):
        app.find(since=datetime.fromisoformat(time))


def test_a_stored_time_beyond_the_calendar_is_shown_as_its_end(browser: Browser, app: Stanchion) -> None:
    job = app.queue("far").push(1, delay=3600)
    (row,) = app.store.fetch([job.id]).values()
    for place, run_at in enumerate((-(10**18), 10**18)):
        app.store.adopt([row._replace(id=f"{job.id[:-1]}{place}", run_at=run_at)])
    for path in ("/jobs", "/jobs?queue=far", "/queues/far", f"/jobs/{job.id[:-1]}0", f"/jobs/{job.id[:-1]}1", "/"):
        assert browser.get(path).status_code == 200, path
    assert browser.get("/api/v1/jobs?queue=far").status_code == 200
    assert [moment(stored).year for stored in (-(10**18), 0, 10**18)] == [1, 1970, 9999]
    assert moment(0) == datetime(1970, 1, 1, tzinfo=UTC)
