"""Each command that a page, a report or an alert prints finds the jobs that it speaks of."""

import html
import re
import shlex

import pytest

from stanchion import Stanchion
from stanchion.alerts.alerts import monitor
from stanchion.context import context_of
from stanchion.core.text.error_kinds import group_of
from stanchion.reporting import report
from tests.cli.conftest import Run
from tests.web.conftest import Browser, site_of

ERROR = "GatewayTimeout: no answer"


@pytest.fixture(params=["payments.dead", None], ids=["dead-letter queue", "in its queue"])
def dead(app: Stanchion, request: pytest.FixtureRequest) -> str:
    """A queue in which four calls of a task have died after two attempts each, among jobs of another queue."""
    app.setup()
    charge = app.task(name="charge", queue="payments", max_attempts=2)(lambda: 1)
    app.queue("payments").configure(dead_letter=request.param)
    app.queue("orders").configure(dead_letter=request.param)
    ship = app.task(name="ship", queue="orders", max_attempts=1)(lambda: 1)
    for _ in range(4):
        charge.enqueue()
    for _ in range(2):
        for job in app.queue("payments").reserve(4):
            job.rollback(delay=0, error=ERROR)
    ship.enqueue()
    app.queue("orders").reserve()[0].bury("OutOfStock: none left")
    return "payments"


def commands_in(text: str) -> list[list[str]]:
    """Return the commands in lines of a text or in elements of a page, each without `stanchion`."""
    found = re.findall(r"(?:>|: )stanchion ((?:retry|jobs|errors|show)\b[^\n<]*)", text)
    return [shlex.split(html.unescape(one)) for one in dict.fromkeys(found)]


def finds(run: Run, command: list[str]) -> int:
    """Run a command, a `retry` without its effect; return how many jobs or groups it finds."""
    if command[0] == "retry" and len(command) == 2:  # by an id
        assert run("jobs", "--state", "dead", "--json").out.count(f'"{command[1]}"') >= 1
        return 1
    dry = ["--dry-run"] if command[0] == "retry" and "--dry-run" not in command else []
    answer = run(*command, *dry, "--json")
    assert answer.code == 0, (command, answer.err)
    return len(answer.json) if isinstance(answer.json, list) else 1


def test_of_alerts(run: Run, app: Stanchion, dead: str) -> None:
    (alert,) = (one for one in monitor(context_of(app)).alerts if (one.rule, one.subject) == ("dead-letters", dead))
    found = {one.command: finds(run, shlex.split(one.command)[1:]) for one in alert.actions if one.command}
    assert set(found.values()) == {4}, found


def test_of_errors(run: Run, dead: str) -> None:
    groups = {one["task"]: one for one in run("errors", "--queue", dead, "--json").json}
    assert [(one["dead"], one["queues"]) for one in groups.values()] == [(4, [dead])]
    assert finds(run, shlex.split(groups["charge"]["command"])[1:]) == 4
    for one in run("errors", "--json").json:
        assert finds(run, shlex.split(one["command"])[1:]) == one["dead"]
    (told,) = commands_in(run("errors", "--queue", dead).err)
    assert finds(run, told) == 4


def test_of_the_report(run: Run, app: Stanchion, dead: str) -> None:
    made = report(app)
    rows = made.figures["errors"]["rows"]
    assert {(one["queue"], one["dead"]) for one in rows} == {(dead, 4), ("orders", 1)}
    printed = [one for one in commands_in(made.html()) if one[0] == "retry"]
    assert sorted(finds(run, one) for one in printed) == [1, 4]


def test_of_pages(run: Run, app: Stanchion, dead: str) -> None:
    group = group_of(ERROR, "charge")
    job = app.queue(dead).find(state="dead")[0]
    with Browser(site_of(app)) as browser:
        pages = [
            "/",
            f"/queues/{dead}",
            "/errors",
            f"/errors/{group}",
            f"/jobs?state=dead&queue={dead}",
            f"/jobs/{job.id}",
        ]
        asks = [f"/jobs/{job.id}/retry", f"/bulk?act=retry&state=dead&queue={dead}"]
        printed = [one for page in pages + asks for one in commands_in(browser.get(page).text)]
    assert ["retry", "--queue", dead, "--task", "charge", "--error", group] in printed
    counts = {tuple(one): finds(run, one) for one in printed}
    assert {count for one, count in counts.items() if dead in one} == {4}, counts


def test_that_retry_does_what_it_counted(run: Run, app: Stanchion, dead: str) -> None:
    assert run("retry", "--queue", dead).out == "retried: 4 jobs\n"
    assert (app.queue(dead).size().ready, len(app.find(state="dead"))) == (4, 1)
