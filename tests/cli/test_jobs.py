import json
from datetime import UTC, datetime

import pytest

from stanchion import Stanchion, group
from stanchion.core.ids import new_id
from stanchion.ops.cli.console.output import fitted
from stanchion.ops.cli.look.jobs import _columns, _row
from stanchion.ops.reads.lists import COLUMNS
from tests.cli.conftest import Run

KEYS = {
    *(
        "id",
        "queue",
        "partition",
        "state",
        "task",
        "items",
        "payload",
        "headers",
        "result",
        "unreadable",
        "priority",
        "tenant",
        "lane",
    ),
    *("key", "order_key", "limits", "run_at", "enqueued_at", "started_at", "finished_at", "pickup_delay", "run_time"),
    *(
        "attempts",
        "failures",
        "max_attempts",
        "dead_from",
        "dead_at",
        "dead_attempts",
        "timeout",
        "expires",
        "progress",
        "cancelled",
        "checkpoint",
        "entry_payload",
        "trail",
        "worker",
        "origin",
        "flow",
        "errors",
    ),
}


def failed_job(app: Stanchion, error: str = "ValueError: no money") -> str:
    app.queue("orders").push({"id": 1}, max_attempts=1)
    job = app.queue("orders").reserve()[0]
    job.rollback(error=error)
    return job.id


def test_shows_when_a_job_expires_and_that_it_has(run: Run, app: Stanchion) -> None:
    job = app.queue("codes").push(1, expires=3600, delay=60)
    assert any(line.startswith("expires ") and "UTC  (in " in line for line in run("show", job.id).out.splitlines())
    app.store.clock_offset += 3601
    app.maintain()
    out = run("show", job.id).out
    assert "cancelled  expired\n" in out
    assert not any(line.startswith("expires ") for line in out.splitlines())
    (queue,) = run("queues", "--json").json
    assert (queue["counts"]["lapsed"], queue["counts"]["cancelled"]) == (1, 0)


def test_lists_newest_first(run: Run, app: Stanchion) -> None:
    ids = [app.queue("mail").push(n).id for n in range(3)]
    answer = run("jobs", "--limit", "2")
    assert answer.code == 0
    assert [line.split()[0] for line in answer.out.splitlines()] == ["ID", ids[2], ids[1]]
    assert "--limit shows more" in answer.err


def test_filters(run: Run, app: Stanchion) -> None:
    dead = failed_job(app)
    app.queue("mail").push("for acme", tenant="acme")
    app.queue("mail").push("later", delay=60)
    app.enqueue("welcome", 1, queue="orders")

    def payloads(*args: str) -> list[object]:
        return [job["payload"] for job in run("jobs", "--json", *args).json]

    assert payloads("--tenant", "acme") == ["for acme"]
    assert payloads("--state", "scheduled") == ["later"]
    assert payloads("--state", "scheduled,dead") == ["later", {"id": 1}]
    assert payloads("-s", "scheduled", "-s", "DEAD") == ["later", {"id": 1}]
    assert payloads("--queue", "mail") == ["later", "for acme"]
    assert payloads("--task", "welcome") == [{"args": [1]}]
    assert payloads("--text", "acme") == ["for acme"]
    assert [job["id"] for job in run("jobs", "--json", "--text", "no money").json] == [dead]
    assert len(payloads("--since", "1h")) == 4
    assert payloads("--until", "1h") == []
    assert payloads("--since", "2099-01-01") == []


def test_json_shape(run: Run, app: Stanchion) -> None:
    failed_job(app)
    (job,) = run("jobs", "--json").json
    assert job.keys() == KEYS
    assert job["cancelled"] is False
    assert job["errors"][0].keys() == {"attempt", "at", "put_off", "since", "error", "type", "traceback"}
    for time in ("run_at", "enqueued_at", "started_at", "finished_at"):
        assert datetime.fromisoformat(job[time]).utcoffset() is not None
        assert job[time].endswith("Z")


def test_no_match_is_nothing_found(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    assert run("jobs", "--queue", "other").code == 1
    answer = run("jobs", "--queue", "other", "--json")
    assert (answer.code, answer.json) == (1, [])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--state", "odd"], "the states are"),
        (["--since", "yesterday"], "--since must be"),
        (["--since", "9999999999d"], "before year 1"),
        (["--limit", "0"], "limit must be"),
    ],
)
def test_bad_filters_are_refused(run: Run, app: Stanchion, args: list[str], message: str) -> None:
    app.queue("mail").push(1)
    answer = run("jobs", *args)
    assert answer.code == 2
    assert message in answer.error


def test_show_tells_the_whole_story(run: Run, app: Stanchion) -> None:
    answer = run("show", failed_job(app))
    assert answer.code == 0
    for words in (
        "dead",
        "orders",
        "picked up    after",
        "took",
        "1 of 1, 1 failed",
        '"id": 1',
        "ValueError: no money",
    ):
        assert words in answer.out


def test_show_of_a_job_whose_task_no_worker_knows(run: Run, app: Stanchion) -> None:
    job = app.enqueue("new.task", queue="mail")
    for _ in range(2):
        app.drain(["mail"])
        app.retry_job(job.id)
    answer = run("show", job.id)
    assert "put off 2 times since" in answer.out
    assert "no task 'new.task' is registered here" in answer.out
    assert "failed 2" not in answer.out
    (error,) = run("show", job.id, "--json").json["errors"]
    assert (error["put_off"], error["attempt"]) == (2, 0)
    assert datetime.fromisoformat(error["since"]) <= datetime.fromisoformat(error["at"])


def test_show_json(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    app.queue("mail").reserve()[0].commit({"sent": True})
    job = run("show", app.find()[0].id.upper(), "--json").json
    assert job.keys() == {*KEYS, "waits_for", "past_waits", "older_waits"}
    assert (job["state"], job["result"]) == ("done", {"sent": True})
    assert job["run_time"] >= 0


def test_show_of_an_unknown_job(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    answer = run("show", new_id())
    assert answer.code == 1
    assert "live or in history" in answer.error
    answer = run("show", "42")
    assert answer.code == 2
    assert "not a job id" in answer.error


def test_nothing_from_a_job_can_steer_the_terminal(run: Run, app: Stanchion) -> None:
    job = failed_job(app, "\x1b[31mred\x9b0m\x07")
    app.queue("mail").push("\x9b31m")
    for answer in (run("jobs"), run("show", job), run("show", app.queue("mail").find()[0].id)):
        assert not {"\x1b", "\x9b", "\x07"} & set(answer.out)
    assert "\\x1b[31mred" in run("show", job).out


def test_what_is_encrypted_needs_the_app(run: Run, app: Stanchion) -> None:
    from cryptography.fernet import Fernet

    sealed = Stanchion(app.url, keys=[Fernet.generate_key()])
    job = sealed.queue("mail").push({"secret": 1})
    sealed.close()
    answer = run("show", job.id)
    assert answer.code == 0
    assert "encrypted" in answer.out
    assert "--app" in answer.out
    shown = run("show", job.id, "--json").json
    assert shown["payload"] is None
    assert "encrypted" in shown["unreadable"]
    assert "secret" not in json.dumps(run("jobs", "--json").json)


def test_filters_by_contents_and_by_the_end(run: Run, app: Stanchion) -> None:
    mail = app.queue("mail")
    done = mail.push({"user": {"id": 4}}, headers={"source": "web"}).id
    mail.reserve()[0].commit()
    other = mail.push({"user": {"id": "4"}}, headers={"source": 4}).id

    def ids(*given: str) -> list[str]:
        return [job["id"] for job in run("jobs", "--json", *given).json]

    assert ids("--payload", "user.id=4") == [done]
    assert ids("--payload", 'user.id="4"') == [other]
    assert ids("--header", "source=web") == [done]
    assert ids("--header", "source=4") == [other]
    assert ids("--finished-since", "1h") == [done]
    assert ids("--finished-until", "1h") == []
    assert "name=value" in run("jobs", "--payload", "user").error


def test_dead_jobs_show_their_errors_on_80_columns(app: Stanchion) -> None:
    error = "TimeoutError: no answer from psp-9.example.org within 30 s"
    queue = app.queue("payments.europe")
    queue.push({"args": [1]}, max_attempts=1)
    queue.reserve()[0].bury(error)
    rows = [_row(job, job.task or "", datetime.now(UTC)) for job in app.find()]
    head, line = fitted(_columns(["dead"], None), rows, 80).plain.splitlines()
    assert head.split() == ["ID", "QUEUE", "AGE", "ERROR"]  # no job has a task
    assert error[:35] in line
    assert "STATE" in fitted(_columns(None, None), rows, 80).plain
    assert "STATE" in fitted(_columns(["dead"], None), rows, 120).plain


def test_members_of_a_flow(run: Run, app: Stanchion) -> None:
    @app.task(name="step", queue="mail")
    def step() -> None: ...

    flow = group([step.s(), step.s()]).enqueue()
    app.queue("mail").push(1)
    found = [job["id"] for job in run("jobs", "--flow", flow.id, "--json").json]
    assert len(found) == 2
    assert len(run("jobs", "--flow", flow.id).out.splitlines()) == 3
    assert run("jobs", "--flow", found[0]).code == 1
    assert (
        [job.id for job in app.find(flow=flow.id)] == [job.id for job in app.queue("mail").find(flow=flow.id)] == found
    )
    assert "2 jobs" in run("cancel", "--flow", flow.id).out
    assert app.queue("mail").size().total == 1


def test_a_table_reads_no_payloads(run: Run, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    app.queue("mail").push({"large": "x" * 1000})

    def whole_rows(*_: object, **__: object) -> None:
        raise AssertionError("a table needs no whole rows")

    monkeypatch.setattr(Stanchion, "find", whole_rows)
    assert run("jobs").code == run("top", "--once", "--interval", "0.1").code == 0
    assert "payload" not in COLUMNS
