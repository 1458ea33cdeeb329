import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stanchion import JobState, Stanchion
from tests.cli.conftest import Run


def lines(path: Path, *values: object) -> str:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values))
    return str(path)


def test_prints_the_id_of_the_job(run: Run, app: Stanchion) -> None:
    answer = run("push", "orders", '{"id": 1}')
    job = app.get(answer.out.strip())
    assert (answer.code, answer.err) == (0, "ready in orders\n")
    assert job is not None
    assert (job.queue, job.payload, job.task) == ("orders", {"id": 1}, None)


def test_a_band_is_a_priority(run: Run, app: Stanchion) -> None:
    job = app.get(run("push", "orders", "1", "--priority", "interactive").out.strip())
    assert job is not None
    assert job.priority == 80


def test_options_reach_the_job(run: Run, app: Stanchion) -> None:
    answer = run(
        *("push", "orders", "1", "--delay", "1h30m", "--priority", "-5", "--tenant", "acme", "--key", "k"),
        *("--header", "trace=abc", "--header", "n=1", "--max-attempts", "3", "--timeout", "90s"),
    )
    job = app.get(answer.out.strip())
    assert job is not None
    assert (job.priority, job.tenant, job.key, job.headers) == (-5, "acme", "k", {"trace": "abc", "n": 1})
    assert (job.max_attempts, job.timeout, job.state) == (3, 90.0, JobState.SCHEDULED)
    assert job.run_at - job.enqueued_at == timedelta(minutes=90)
    assert "due in 90 min" in answer.err


def test_run_at_is_utc_unless_it_says_otherwise(run: Run) -> None:
    for text, hour in (("2031-05-01T12:00", 12), ("2031-05-01T12:00Z", 12), ("2031-05-01T12:00+02:00", 10)):
        job = run("push", "q", "1", "--run-at", text, "--json").json
        assert job["run_at"] == f"2031-05-01T{hour}:00:00.000000Z"


def test_json_is_the_whole_job(run: Run) -> None:
    job = run("push", "q", "[1]", "--json").json
    assert (job["queue"], job["payload"], job["state"], job["duplicate"]) == ("q", [1], "ready", False)


def test_a_duplicate_says_so(run: Run, app: Stanchion) -> None:
    first = run("push", "q", "1", "--key", "k")
    again = run("push", "q", "2", "--key", "k")
    assert again.out == first.out
    assert "already has this key" in again.err
    assert run("push", "q", "2", "--key", "k", "--json").json["duplicate"] is True
    app.queue("q").reserve()[0].commit()
    assert run("push", "q", "2", "--key", "k", "--key-ttl", "1h").out == first.out
    assert run("push", "q", "2", "--key", "k").out != first.out
    refused = run("push", "q", "2", "--key", "k", "--on-duplicate", "raise")
    assert refused.code == 1
    assert "already has the live job" in refused.error


def test_a_task_is_placed_and_checked_by_its_app(run: Run, shop: str) -> None:
    job = run("push", "--app", shop, "--task", "welcome", "--arg", "42", "--kwarg", "lang=fr", "--json").json
    assert (job["queue"], job["task"]) == ("mail", "welcome")
    assert job["payload"] == {"args": [42], "kwargs": {"lang": "fr"}}
    refused = run("push", "--app", shop, "--task", "welcome")
    assert refused.code == 2
    assert "missing a required argument: 'user'" in refused.error
    assert run("push", "--app", shop, "--task", "nope").code == 2


def test_a_task_without_its_app_needs_a_queue(run: Run) -> None:
    assert run("push", "mail", "--task", "welcome", "--arg", "x@example.org", "--json").json["payload"] == {
        "args": ["x@example.org"]
    }
    refused = run("push", "--task", "welcome")
    assert refused.code == 2
    assert "--app module:app" in refused.error


def test_a_file_is_pushed_line_by_line(run: Run, app: Stanchion, tmp_path: Path) -> None:
    file = lines(tmp_path / "jobs.jsonl", *({"n": n} for n in range(2_500)))
    answer = run("push", "q", "--file", file, "--priority", "7", "--json")
    assert answer.code == 0
    assert (answer.json["pushed"], answer.json["duplicates"]) == (2_500, 0)
    assert app.queue("q").size().ready == 2_500
    assert app.queue("q").find(limit=1)[0].payload == {"n": 2_499}
    assert app.queue("q").find(limit=1)[0].priority == 7


def test_stdin_is_pushed_and_blank_lines_are_passed_over(run: Run, app: Stanchion) -> None:
    answer = run("push", "q", "--file", "-", input='1\n\n"two"\n')
    assert answer.out.startswith("pushed 2 jobs in ")
    assert [job.payload for job in app.queue("q").find()] == ["two", 1]


def test_lines_of_calls(run: Run, app: Stanchion, shop: str, tmp_path: Path) -> None:
    file = lines(tmp_path / "calls.jsonl", [1], {"user": 2, "lang": "de"})
    assert run("push", "--app", shop, "--task", "welcome", "--file", file).code == 0
    assert [job.payload for job in app.find(task="welcome")] == [
        {"args": [], "kwargs": {"user": 2, "lang": "de"}},
        {"args": [1]},
    ]
    refused = run("push", "--app", shop, "--task", "welcome", "--file", lines(tmp_path / "bad.jsonl", [1], [1, 2, 3]))
    assert refused.error.startswith("error: line 2: the arguments don't fit welcome")


def test_a_bad_line_is_named_and_the_rest_can_go_on(run: Run, app: Stanchion, tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text("1\n" * 2_500 + "{bad\n" + "2\n")
    answer = run("push", "q", "--file", str(file))
    assert answer.code == 2
    assert answer.error.startswith("error: line 2,501: the line is not JSON")
    assert "lines 1 to 2,000 are stored; continue with `tail -n +2001`" in answer.err
    assert app.queue("q").size().total == 2_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'"\xff"\n', "line 1: it is not UTF-8"),
        (b'"%s"\n' % (b"x" * 2_000_000), "line 1: the payload takes 2,000,002 bytes"),
        (b"x" * 8_000_000, "line 1 is longer than the largest payload"),
    ],
)
def test_bad_content_is_refused(run: Run, tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_bytes(content)
    answer = run("push", "q", "--file", str(file))
    assert answer.code == 2
    assert message in answer.error


def test_an_empty_file_is_nothing_found(run: Run, tmp_path: Path) -> None:
    assert run("push", "q", "--file", lines(tmp_path / "empty.jsonl")).code == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "nothing to push"),
        (["q", "{bad"], "not JSON"),
        (["q", "NaN"], "JSON"),
        (["q", "1", "--delay", "soon"], "must be a duration"),
        (["q", "1", "--delay", "5m", "--run-at", "2031-05-01"], "run_at or delay"),
        (["q", "1", "--run-at", "tomorrow"], "ISO 8601"),
        (["q", "1", "--priority", "101"], "from -100 to 100"),
        (["q", "1", "--priority", "urgent"], "or interactive or user_visible"),
        (["q", "1", "--on-duplicate", "ignore"], "return, raise, replace"),
        (["q", "1", "--header", "novalue"], "name=value"),
        (["q", "1", "--arg", "2"], "name it with --task"),
        (["q", "1", "--task", "t"], "not a payload"),
        (["q", "1", "--file", "-"], "not both"),
        (["q", "--file", "-", "--key", "k"], "--key"),
        (["q", "--file", "/does/not/exist"], "No such file"),
        (["--file", "-"], "no target"),
        (["q", "--task", "t", "--arg", "[1"], "not JSON"),
    ],
)
def test_bad_input_is_refused(run: Run, app: Stanchion, args: list[str], message: str) -> None:
    answer = run("push", *args)
    assert answer.code == 2
    assert message in answer.error
    assert app.find() == []


def test_now_is_the_stores(run: Run) -> None:
    due = datetime.fromisoformat(run("push", "q", "1", "--delay", "2h", "--json").json["run_at"])
    assert timedelta(minutes=119) < due - datetime.now(UTC) < timedelta(minutes=121)
