"""Settings that would mean something else than they say, and names that collide with our own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stanchion import Stanchion, chain
from stanchion.cron.expression import Timetable
from stanchion.errors import InvalidInput
from stanchion.stores.registry import absolute_url, open_store


@pytest.mark.parametrize(
    "expression",
    [
        "*/90 * * * *",
        "0 */25 * * *",
        "0 0 */32 * *",
        "0 0 1 */13 *",
        "0 0 * * */8",
        "0 9-17/10 * * *",
        "0,*/61 * * * *",
    ],
)
def test_a_step_beyond_its_field_is_refused(expression):
    with pytest.raises(InvalidInput, match="only the first one matches"):
        Timetable(expression, "UTC")


@pytest.mark.parametrize(
    "expression", ["*/60 * * * *", "0 */24 * * *", "*/15 9-17/2 * * MON-FRI", "0 0 */31 * *", "5/20 * * * *", "@hourly"]
)
def test_a_step_within_its_field_is_taken(expression):
    assert next(iter(Timetable(expression, "UTC").after(0)))


def test_an_argument_may_have_the_name_self():
    app = Stanchion("memory://")

    @app.task(name="t")
    def task(**given: int) -> int:
        return given["self"]

    assert task(self=1) == 1
    handles = [task.enqueue(self=2), task.using(queue="default").enqueue(self=3)]
    flow = chain(task.s(self=4)).enqueue()
    app.drain()
    assert [handle.result(timeout=60) for handle in handles] == [2, 3]
    assert flow.result(timeout=60) == 4


def test_an_app_opens_the_file_of_the_folder_in_which_it_was_made(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    app = Stanchion("sqlite:///jobs.db")
    monkeypatch.chdir(tmp_path / "there")
    app.setup()
    app.enqueue("t")
    assert Path(tmp_path, "jobs.db").exists()
    assert not list((tmp_path / "there").iterdir())
    assert app.url == "sqlite:///jobs.db"


def test_a_path_is_relative_to_the_given_folder():
    assert absolute_url("sqlite:///a.db?x=1", "/srv") == "sqlite:////srv/a.db?x=1"
    assert absolute_url("sqlite:////var/a.db", "/srv") == "sqlite:////var/a.db"
    assert absolute_url("redis://a/0", "/srv") == "redis://a/0"


@pytest.mark.parametrize(
    "url",
    [
        "redis://h/0?decode_responses=1",
        "redis+cluster://h?decode_responses=true",
        "redis+sentinel://h/mymaster?encoding=latin-1",
        "mysql://u:p@h/d?use_unicode=0",
        "mysql://u:p@h/d?cursorclass=DictCursor",
        "mariadb://u:p@h/d?charset=utf8mb4&use_unicode=false",
    ],
)
def test_options_that_change_what_the_driver_returns_are_refused(url):
    with pytest.raises(InvalidInput, match="changes the driver's replies"):
        open_store(url)


def test_options_that_keep_what_the_driver_returns_are_taken():
    open_store("mysql://u:p@h/d?charset=utf8mb4&use_unicode=1")
    open_store("redis://h/0?socket_timeout=3")


@pytest.mark.parametrize("command", [["top", "--once"], ["queues"], ["jobs"], ["show"]])
def test_a_terminal_without_unicode_ends_no_command(tmp_path, command):
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Stanchion(url)
    app.setup()
    handle = app.enqueue("grüße→", tenant="жук")
    command = [*command, handle.id] if command == ["show"] else command
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    code = "from stanchion.ops.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, *command, "--url", url], capture_output=True, env=environment, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
