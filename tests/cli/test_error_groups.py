"""stanchion errors: groups of failures, as the page of errors has them."""

from __future__ import annotations

import pytest

from stanchion import Stanchion
from stanchion.core.text.error_kinds import kind_of
from stanchion.telemetry.failures import FailureTally
from tests.cli.conftest import Run

KIND = kind_of("ValueError: no stock for 7")


@pytest.fixture
def failed(app: Stanchion) -> Stanchion:
    """An app where three jobs died of one error, and one of another in another queue."""

    def fail(order: int) -> None:
        raise ValueError(f"no stock for {order}")

    for name, queue in (("ship", "work"), ("pack", "boxes")):
        app.task(name=name, queue=queue, max_attempts=1)(fail)
    for name, number in (("ship", 1), ("ship", 2), ("ship", 3), ("pack", 4)):
        app.enqueue(name, number)
    app.drain(["work", "boxes"])
    return app


def test_groups_of_all_queues_and_of_one(run: Run, failed: Stanchion) -> None:
    first, second = run("errors", "--json").json
    assert (first["error"], first["task"], first["queues"], first["dead"]) == (
        KIND,
        "ship",
        ["work"],
        3,
    )
    assert (second["task"], second["dead"], second["dead_exact"], second["tallied"]) == ("pack", 1, True, False)
    assert first["key"] == failed.find(queue="work", limit=1)[0].error_group
    assert first["command"] == f"stanchion retry --queue work --task ship --error {first['key']}"
    assert [one["task"] for one in run("errors", "--queue", "boxes", "--json").json] == ["pack"]
    assert [one["task"] for one in run("errors", "--task", "ship", "--json").json] == ["ship"]
    assert [one["task"] for one in run("errors", "-n", "1", "--json").json] == ["ship"]


@pytest.mark.usefixtures("failed")
def test_the_command_runs_the_jobs_of_a_group_again(run: Run) -> None:
    command = run("errors", "--json").json[0]["command"].split()
    assert run(*command[1:], "--dry-run").out == "would retry: 3 jobs\n"
    answer = run("errors")
    assert answer.code == 0
    assert KIND in answer.out
    assert " ".join(command) in answer.err


def test_attempts_are_those_that_workers_tallied(run: Run, failed: Stanchion) -> None:
    tally = FailureTally()
    (job,) = failed.find(queue="boxes")
    for number in range(7):
        tally.add(
            "boxes", "pack", str(job.error_group), job.errors[0]["error"], job.id, new=not number, dead=not number
        )
    tally.merge(failed.store)
    (one,) = run("errors", "--queue", "boxes", "--json").json
    assert (one["failed"], sum(one["minutes"]), one["dead"], one["tallied"]) == (7, 7, 1, True)


def test_nothing_failed(run: Run, app: Stanchion) -> None:
    app.queue("work").push(1)
    answer = run("errors")
    assert (answer.code, answer.out) == (1, "")
    assert "no job is dead" in answer.err
