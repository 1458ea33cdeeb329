"""The shop on each database of Django: migrations, its own tests, workers as processes, and servers."""

from __future__ import annotations

import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from stanchion import Stanchion
from stanchion.jobs.job import Job
from tests.conftest import NewDatabase
from tests.django.projects import PATIENCE, SHOP, Project
from tests.django.suite import environment
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgres import PostgresServer
from tests.servers.process import free_port

pytest.importorskip("django")

CHARGE = "orders.tasks.charge"
MANAGE = str(SHOP / "manage.py")


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    """The shop on two empty databases."""
    if request.param == "sqlite":
        yield on_sqlite(tmp_path)
    elif request.param == "postgresql":
        create: NewDatabase = request.getfixturevalue("new_pg_database")
        yield Project(tmp_path, create(), create())
    else:
        pytest.importorskip("MySQLdb", reason="mysqlclient is not installed")
        server: MariaDBServer = request.getfixturevalue("mariadb_server")
        url = request.getfixturevalue("mariadb_url")
        name = make_url(url).database
        more = [f"{name}_reports", f"{name}_t", f"{name}_reports_t"]
        urls = [server.create_database(one) for one in more]  # the last two for their grants: Django makes them anew
        yield Project(tmp_path, url, urls[0])
        for one in more:
            server.drop_database(one)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the databases of a shop that has run its migrations, on SQLite."""
    folder = tmp_path_factory.mktemp("shop")
    on_sqlite(folder).manage("migrate")
    return folder


@pytest.fixture
def shop(migrated: Path, tmp_path: Path) -> Project:
    """A shop on SQLite that has run its migrations."""
    shutil.copy(migrated / "shop.db", tmp_path)
    return on_sqlite(tmp_path)


def on_sqlite(folder: Path, python: Path = Path(sys.executable)) -> Project:
    """Return the shop with its databases in a folder."""
    return Project(folder, f"sqlite:///{folder}/shop.db", f"sqlite:///{folder}/reports.db", python)


def until(found: Callable[[], bool], project: Project) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < deadline, project.log
        time.sleep(0.05)


def job_of(app: Stanchion, job_id: str) -> Job:
    """Return a job that exists."""
    found = app.get(job_id)
    assert found is not None
    return found


def test_migrations_workers_and_results(project: Project) -> None:
    project.manage("migrate")
    project.manage("migrate", "--database", "reports")
    tea, gone, broken = project.place("tea", "sold out", "broken")
    assert [one["status"] for one in (tea, gone, broken)] == [201, 409, 201]
    printed = project.manage("stanchion_worker", "--until-empty", "--processes", "2", "--threads", "2")
    assert f"done {CHARGE}" in printed
    with closing(Stanchion(project.url)) as app:
        assert {job.id for job in app.find(task=CHARGE)} == {tea["result"], broken["result"]}
        done, failed = job_of(app, tea["result"]), job_of(app, broken["result"])
        assert (done.state, done.result) == ("done", "receipt for tea")
        assert (failed.state, failed.failures) == ("scheduled", 1)
        assert failed.errors[0]["type"] == "orders.tasks.BankRefusesError"


def test_the_tests_of_the_shop_pass(project: Project) -> None:
    passes(project)


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_tests_of_the_shop_pass_with_django_6(version: str, tmp_path: Path) -> None:
    passes(on_sqlite(tmp_path, environment.environment(version)))


def passes(project: Project) -> None:
    """Run the tests of the shop."""
    printed = project.manage("test", "--noinput", "orders")
    ran = re.search(r"^Ran (\d+) tests in .*\n\nOK$", printed, re.MULTILINE)
    assert ran is not None, printed
    assert int(ran[1]) > 20


def test_sigterm_lets_a_worker_finish(shop: Project) -> None:
    with shop.running(MANAGE, "stanchion_worker", "--queues", "default") as worker:
        until(lambda: "runs default" in shop.log, shop)
        [placed] = shop.place("tea")
        with closing(Stanchion(shop.url)) as app:
            until(lambda: job_of(app, placed["result"]).state == "done", shop)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0, shop.log


@pytest.mark.nightly
def test_with_debug_a_worker_restarts_with_the_code(shop: Project) -> None:
    shop.environment["SHOP_DEBUG"] = "1"
    with shop.running(MANAGE, "stanchion_worker") as worker:
        until(lambda: "runs default" in shop.log, shop)
        (shop.folder / "changed.py").write_text("")
        until(lambda: shop.log.count("runs default") == 2, shop)
        assert "changed.py has changed: the worker restarts" in shop.log
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0, shop.log
    with shop.running(MANAGE, "stanchion_worker", "--noreload", "--until-empty") as worker:
        assert worker.wait(PATIENCE) == 0, shop.log


def test_a_worker_recovers_from_a_restart_of_the_database(own_postgres_server: PostgresServer, tmp_path: Path) -> None:
    urls = [own_postgres_server.create_database(name) for name in ("shop", "reports")]
    project = Project(tmp_path, urls[0], urls[1])
    project.manage("migrate")
    with project.running(MANAGE, "stanchion_worker", "--threads", "1") as worker, closing(Stanchion(urls[0])) as app:
        [before] = project.place("tea")
        until(lambda: job_of(app, before["result"]).state == "done", project)
        own_postgres_server.restart("immediate")
        after = project.place("cups", "pot")
        until(lambda: all(job_of(app, one["result"]).state == "done" for one in after), project)
        assert [job_of(app, one["result"]).attempts for one in after] == [1, 1]  # none met the old connection
        assert worker.poll() is None


@pytest.mark.nightly
def test_the_page_as_a_server_of_its_own(shop: Project) -> None:
    with shop.running(MANAGE, "stanchion_web", "--listen", "127.0.0.1:0") as process:
        until(lambda: "the page is at http" in shop.log, shop)
        found = re.search(r"127\.0\.0\.1:(\d+)", shop.log)
        assert found is not None
        with closing(HTTPConnection("127.0.0.1", int(found[1]), timeout=PATIENCE)) as browser:
            browser.request("GET", "/queues")
            answer = browser.getresponse()
            assert (answer.status, b"mail" in answer.read()) == (200, True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, shop.log


@pytest.mark.nightly
@pytest.mark.parametrize(
    "program",
    [
        ["-m", "gunicorn", "shop.wsgi:application", "--bind", "127.0.0.1:PORT", "--threads", "2"],
        ["-m", "uvicorn", "shop.asgi:application", "--port", "PORT"],
    ],
    ids=["gunicorn", "uvicorn"],
)
def test_the_page_behind_a_server(program: list[str], shop: Project) -> None:
    shop.manage("createsuperuser", "--noinput", "--username", "ana", "--email", "ana@example.com")
    cookie = shop.manage("login", "ana").strip()
    port = free_port()
    with shop.running(*(part.replace("PORT", str(port)) for part in program)) as process:
        until(lambda: "Listening at" in shop.log or "Uvicorn running" in shop.log, shop)
        browser = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        with closing(browser):
            for path, headers, status in (
                ("/queues/", {}, 302),
                ("/queues/", {"Cookie": cookie}, 200),
                ("/queues/static/stanchion.css", {"Cookie": cookie}, 200),
                ("/queues/jobs", {"Cookie": cookie}, 200),
            ):
                browser.request("GET", path, headers=headers)
                answer = browser.getresponse()
                text = answer.read()
                assert answer.status == status, text
        streams = "uvicorn" in program
        opened = [HTTPConnection("127.0.0.1", port, timeout=PATIENCE) for _ in range(4)]
        for tab in opened:
            tab.request("GET", "/queues/events?topics=verdict", headers={"Cookie": cookie})
            answer = tab.getresponse()
            assert answer.status == (200 if streams else 503)
            assert (answer.readline() == b"retry: 3000\n") is streams
        with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as browser:  # no thread is left waiting
            browser.request("GET", "/queues/jobs", headers={"Cookie": cookie})
            assert browser.getresponse().status == 200
        for tab in opened:
            tab.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) in (0, -signal.SIGTERM), shop.log
