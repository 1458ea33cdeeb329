"""Each form of the page and operation of the API is in the audit log before it is done, or known to be no act."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.errors import StoreUnavailable
from stanchion.ops.audit import AuditLog
from stanchion.ops.web.api.asgi import OPERATIONS
from stanchion.ops.web.asgi import _endpoints
from stanchion.ops.web.bulk_work.bulk import BulkWork
from stanchion.ops.web.endpoints import Endpoints
from stanchion.ops.web.site import Site
from tests.acts import content, fill
from tests.web.api.conftest import Client
from tests.web.conftest import Browser, site_of

FORMS: dict[str, tuple[str, dict[str, str], str]] = {
    "/on-it": ("/on-it", {"key": "queue:stale"}, "on it"),
    "/pause/{name:path}": ("/pause/mail", {"note": "why"}, "pause"),
    "/resume/{name:path}": ("/resume/slow", {}, "resume"),
    "/set/{name:path}": ("/set/mail", {"setting": "max_rate", "value": "5"}, "set max_rate"),
    "/push/{name:path}": ("/push/mail", {"payload": "1"}, "push"),
    "/jobs/{name}/{act}": ("/jobs/{dead}/retry", {}, "retry"),
    "/bulk": ("/bulk", {"act": "cancel", "where": "queue=mail&state=ready", "total": "3"}, "cancel"),
    "/bulk/{name}/stop": ("/bulk/aaaaaaaaaaaaaaaa/stop", {}, "stop cancel"),
    "/{act}-pipeline/{name:path}": ("/pause-pipeline/etl", {"note": "why"}, "pause"),
    "/streams/release/{name:path}": ("/streams/release/lake", {}, "release stream"),
    "/schedules/{act}/{name:path}": ("/schedules/run/nightly", {}, "run schedule"),
    "/semaphores/{name:path}": ("/semaphores/psp", {"capacity": "3"}, "resize semaphore"),
}
"""The path, the fields and the act of each form that changes the store."""

SHOWS = {"/jobs/{name}/reveal"}
"""What changes nothing, and is audited."""

OWN = {"/login", "/logout", "/theme", "/keys"}
"""What changes only the session of who asks."""

OPERATED: dict[str, tuple[str, Any, str]] = {
    "retryJob": ("jobs/{dead}/retry", None, "retry"),
    "cancelJob": ("jobs/{ready}/cancel", None, "cancel"),
    "replayJob": ("jobs/{dead}/replay", None, "replay"),
    "configureQueue": ("queues/mail", {"max_rate": 5}, "set max_rate"),
    "pauseQueue": ("queues/mail/pause", {"note": "why"}, "pause"),
    "resumeQueue": ("queues/slow/resume", None, "resume"),
    "beginBulkWork": ("bulk", {"act": "cancel", "where": {"queue": "mail", "state": ["ready"]}}, "cancel"),
    "stopBulkWork": ("bulk/aaaaaaaaaaaaaaaa", None, "stop cancel"),
    "lookAfterAlert": ("alerts/on-it", {"key": "queue:stale"}, "on it"),
    "resizeSemaphore": ("semaphores/psp", {"capacity": 3}, "resize semaphore"),
    "pauseSchedule": ("schedules/nightly/pause", None, "pause schedule"),
    "resumeSchedule": ("schedules/weekly/resume", None, "resume schedule"),
    "runSchedule": ("schedules/nightly/run", None, "run schedule"),
    "pausePipeline": ("pipelines/etl/pause", None, "pause"),
    "resumePipeline": ("pipelines/etl/resume", None, "resume"),
    "releaseStream": ("streams/lake/release", None, "release stream"),
}
"""The path, the body and the act of each operation for operators."""

SHOWN = {"revealJob"}

OF_PROGRAMS = {"pushJobs", "reserveJobs", "commitJob", "rollbackJob", "releaseJob", "moveJob", "buryJob", "abandonJob",
               "extendJob", "progressJob"}  # fmt: skip
"""The work of programs with their own jobs."""


@pytest.fixture
def acted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Site, dict[str, str]]]:
    """A site over a filled store, whose bulk work waits, and ids of jobs."""
    monkeypatch.setattr("stanchion.ops.web.bulk_work.runner.Runner.nudge", lambda _: None)
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db?synchronous=off")
    dead = fill(app)
    site = site_of(app)
    now = app.store.now()
    site.bulk.write(BulkWork("a" * 16, "cancel", "queue=mail", (), "eva", now, 3, 0.0, owner="other", beat=now), 0)
    yield site, {"dead": dead, "ready": app.find(queue="mail", state="ready", limit=1)[0].id}
    site.close()
    app.close()


def acts(site: Site) -> list[str]:
    """Return what is in the log, newest first."""
    return [entry.act for entry in site.audit.newest(50)[0]]


def test_each_form_is_an_act_or_is_known_to_be_none(site: Site) -> None:
    forms = [path for path, endpoints in _endpoints(Endpoints(site)).items() if "POST" in endpoints]
    assert sorted(forms) == sorted([*FORMS, *SHOWS, *OWN])


def test_each_operation_is_an_act_or_is_known_to_be_none() -> None:
    changes = [one.id for one in OPERATIONS if not one.reads]
    assert sorted(changes) == sorted([*OPERATED, *SHOWN, *OF_PROGRAMS])


def is_written_before_it_is_done(
    site: Site, folder: Path, monkeypatch: pytest.MonkeyPatch, send: Callable[[], int], act: str, *, done: set[int]
) -> None:
    def refused(*_: object) -> None:
        raise StoreUnavailable("the store is gone")

    site.sampler.latest()  # so that only the act changes the store
    with monkeypatch.context() as patch:
        patch.setattr(AuditLog, "add", refused)
        before = content(folder)
        assert send() == 503
        assert content(folder) == before
    assert send() in done
    assert act in acts(site)


@pytest.mark.parametrize("form", FORMS)
def test_forms(acted: tuple[Site, dict[str, str]], form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, ids = acted
    path, fields, act = FORMS[form]
    browser = Browser(site)
    is_written_before_it_is_done(
        site, tmp_path, monkeypatch, lambda: browser.submit(path.format(**ids), **fields).status_code, act, done={303}
    )


@pytest.mark.parametrize("operation", OPERATED)
def test_operations(
    acted: tuple[Site, dict[str, str]], operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, ids = acted
    path, body, act = OPERATED[operation]
    client, method = Client(site), next(one.method for one in OPERATIONS if one.id == operation)
    options = {} if body is None else {"json": body}

    def send() -> int:
        return client.request(method, path.format(**ids), **options).status_code

    is_written_before_it_is_done(site, tmp_path, monkeypatch, send, act, done={200, 202})


def test_what_is_hidden_is_shown_by_an_act(acted: tuple[Site, dict[str, str]]) -> None:
    site, ids = acted
    assert Browser(site).submit(f"/jobs/{ids['dead']}/reveal").status_code == 200
    assert Client(site).request("POST", f"jobs/{ids['dead']}/reveal").status_code == 200
    assert acts(site) == ["show hidden", "show hidden"]
