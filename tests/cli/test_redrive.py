import pytest

from stanchion import JobState, Stanchion
from stanchion.core.ids import new_id
from tests.cli.conftest import Run


def bury(app: Stanchion, count: int, queue: str = "orders") -> list[str]:
    app.queue(queue).push_many(list(range(count)))
    ids = []
    while jobs := app.queue(queue).reserve(500):
        for job in jobs:
            job.bury("no money")
            ids.append(job.id)
    return ids


def test_retry_by_id(run: Run, app: Stanchion) -> None:
    ids = bury(app, 2)
    answer = run("retry", *ids)
    assert (answer.code, answer.out) == (0, "retried: 2 jobs\n")
    assert app.queue("orders").size().ready == 2


@pytest.mark.slow
def test_retry_by_filter_takes_the_dead_ones(run: Run, app: Stanchion) -> None:
    bury(app, 1_200)
    bury(app, 1, "other")
    later = app.queue("orders").push(1, delay=60)
    assert run("retry", "--queue", "orders", "--limit", "700").out == "retried: 700 jobs\n"
    assert run("retry", "--queue", "orders").out == "retried: 500 jobs\n"
    assert app.queue("orders").size().ready == 1_200
    assert app.queue("other").size().ready == 0
    assert app.get(later.id).state is JobState.SCHEDULED  # type: ignore[union-attr]
    assert run("retry", "--queue", "orders", "--state", "scheduled").out == "retried: 1 job\n"
    answer = run("retry", "--queue", "orders")
    assert (answer.code, answer.out, answer.err) == (1, "", "no jobs match\n")


def test_retry_of_a_group_of_errors(run: Run, app: Stanchion) -> None:
    app.queue("orders").push_many(range(7))
    for job in app.queue("orders").reserve(7):
        job.bury(f"no stock for {job.payload}" if job.payload % 2 else "no address")
    group = app.find(state="dead", text="no stock")[0].error_group
    wanted = ("--queue", "orders", "--error", str(group))
    assert run("retry", *wanted, "--dry-run").out == "would retry: 3 jobs\n"
    assert len(run("jobs", *wanted, "--json").json) == 3
    assert run("retry", *wanted, "--limit", "2").out == "retried: 2 jobs\n"
    assert run("retry", *wanted).out == "retried: 1 job\n"
    assert app.queue("orders").size().ready == 3
    assert run("cancel", "--queue", "orders", "--error", "00000000").err == "no jobs match\n"
    assert "8 hexadecimal digits" in run("retry", "--error", "no stock").err
    assert "you know the number" in run("retry", new_id(), "--dry-run").err


def test_retry_of_dead_letters_brings_them_home(run: Run, app: Stanchion) -> None:
    app.queue("orders").configure(dead_letter="lost")
    bury(app, 3)
    assert app.queue("lost").size().ready == 3
    assert run("retry", "--queue", "lost").out == "retried: 3 jobs\n"
    assert app.queue("orders").size().ready == 3


def test_a_part_that_fails_is_told(run: Run, app: Stanchion) -> None:
    (dead,) = bury(app, 1)
    running = app.queue("orders").push(1).id
    app.queue("orders").reserve()
    missing = new_id()
    answer = run("retry", dead, running, missing, "--json")
    assert answer.code == 1
    assert [(verdict["id"], verdict["ok"], verdict["state"]) for verdict in answer.json] == [
        (dead, True, "ready"),
        (running, False, "running"),
        (missing, False, None),
    ]
    assert f"job {missing} is neither live nor in history" in answer.err
    assert run("retry", missing).out == "retried: 0 jobs, 1 not\n"


def test_cancel(run: Run, app: Stanchion) -> None:
    queue = app.queue("mail")
    running = queue.push(0).id
    held = queue.reserve()[0]
    waiting = queue.push(1).id
    done = bury(app, 1)[0]
    answer = run("cancel", waiting, running, done, "--json")
    assert answer.code == 1
    assert [(verdict["ok"], verdict["state"]) for verdict in answer.json] == [
        (True, "cancelled"),
        (True, "running"),
        (False, "dead"),
    ]
    assert held.cancelled
    queue.push_many([2, 3])
    assert run("cancel", "--queue", "mail", "--state", "ready").out == "cancelled: 2 jobs\n"


def test_cancel_tells_which_jobs_have_ended_already(run: Run, app: Stanchion) -> None:
    queue = app.queue("mail")
    done, cancelled, ready = (job.id for job in queue.push_many([1, 2, 3]))
    assert queue.pop() is not None
    queue.cancel(cancelled)
    (dead,) = bury(app, 1)
    wanted = {done: "done", cancelled: "cancelled", dead: "dead"}
    answer = run("cancel", *wanted, ready)
    assert (answer.code, answer.out) == (1, "cancelled: 1 job, 3 not\n")
    assert answer.err.splitlines() == [f"job {one} is {state} already" for one, state in wanted.items()]
    again = run("cancel", ready, "--json")
    assert again.json == [
        {"id": ready, "ok": False, "state": "cancelled", "reason": "is cancelled already", "copy": None}
    ]
    assert run("cancel", "--queue", "mail", "--state", "cancelled").out == "cancelled: 0 jobs, 2 not\n"


def test_replay(run: Run, app: Stanchion) -> None:
    dead = bury(app, 1)[0]
    live = app.queue("orders").push(1).id
    answer = run("replay", dead, live, "--json")
    assert answer.code == 1
    copy, refused = answer.json
    assert app.get(copy["copy"]).origin == dead  # type: ignore[union-attr]
    assert (refused["ok"], refused["reason"]) == (False, "is not in history")
    assert run("replay", "--queue", "orders").out == "replayed: 1 job\n"


def test_which_jobs_must_be_said(run: Run, app: Stanchion) -> None:
    (dead,) = bury(app, 1)
    for name in ("retry", "cancel", "replay"):
        answer = run(name)
        assert answer.code == 2
        assert "which jobs?" in answer.error
        assert "not both" in run(name, dead, "--queue", "orders").error
        assert "not a job id" in run(name, "42").error
