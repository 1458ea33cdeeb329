from pathlib import Path

import pytest

from stanchion import Push, Stanchion
from stanchion.context import context_of
from tests.cli.conftest import Run


@pytest.fixture
def ids(app: Stanchion) -> list[str]:
    """One job that holds `smtp` and three that wait for it."""
    app.semaphore("smtp", capacity=1)
    app.semaphore("api", capacity=1000)
    jobs = app.queue("mail").push_many([Push(number, limits=["smtp"]) for number in range(4)])
    app.queue("mail").reserve(4)
    return [job.id for job in jobs]


@pytest.mark.usefixtures("ids")
def test_lists_them_with_what_is_held(run: Run) -> None:
    answer = run("semaphores")
    assert answer.code == 0
    heading, smtp, api = answer.out.splitlines()
    assert heading.split() == ["SEMAPHORE", "CAPACITY", "HELD", "WAITING"]
    assert api.split() == ["api", "1,000", "0", "0"]
    assert smtp.split() == ["smtp", "1", "1", "3"]
    assert run("semaphores", "--json").json[0] == {"name": "smtp", "capacity": 1, "held": 1, "waiting": 3}


def test_none_is_nothing_found(run: Run) -> None:
    run("setup")
    assert run("semaphores").code == 1
    assert run("semaphores", "--json").json == []


def test_one_with_its_holders_and_its_line(run: Run, ids: list[str]) -> None:
    for args in (["semaphores", "smtp"], ["semaphores", "show", "smtp"]):
        summary, _heading, *rows = run(*args).out.splitlines()
        assert summary == "smtp: 1 of 1 held, 3 waiting"
        assert [row.split()[:2] for row in rows] == [
            ["holds", ids[0]],
            *([str(place), job] for place, job in enumerate(ids[1:], 1)),
        ]
    found = run("semaphores", "smtp", "--json", "--limit", "2").json
    assert (found["capacity"], found["held"], found["waiting"]) == (1, 1, 3)
    assert [job["id"] for job in found["holders"]] == ids[:1]
    assert [job["id"] for job in found["waiters"]] == ids[1:3]
    assert found["waiters"][0] == {"id": ids[1], "queue": "mail", "task": None, "state": "waiting"}


def test_resize(run: Run, app: Stanchion, ids: list[str]) -> None:
    assert run("semaphores", "resize", "smtp", "3").out == "smtp: capacity 3\n"
    assert app.semaphore("smtp").usage()[1:] == (3, 3, 1)
    assert len(app.queue("mail").reserve(9)) == len(ids) - 2
    assert run("semaphores", "resize", "smtp", "0", "--json").json == {"name": "smtp", "capacity": 0}
    assert "whole number" in run("semaphores", "resize", "smtp", "--", "-1").error


def test_reset_returns_to_the_code(run: Run, app: Stanchion) -> None:
    app.semaphore("smtp", capacity=2)
    context_of(app).store_semaphores()
    assert run("semaphores", "resize", "smtp", "0").code == 0
    assert run("semaphores", "reset", "smtp").out == "smtp: capacity 2\n"
    assert run("semaphores", "resize", "--new", "imap", "7").out == "imap: capacity 7\n"
    assert "no code has declared" in run("semaphores", "reset", "imap").error
    assert app.semaphore("imap").capacity == 7


@pytest.mark.usefixtures("ids")
def test_a_mistyped_name_is_refused(run: Run, app: Stanchion) -> None:
    for args in (["semaphores", "smpt"], ["semaphores", "resize", "smpt", "3"]):
        answer = run(*args)
        assert answer.code == 2
        assert "known: api, smtp" in answer.error
    assert run("semaphores", "resize", "--new", "gpu", "3").code == 0
    assert app.semaphore("gpu").capacity == 3


def test_push_with_limits_and_order_key(run: Run, app: Stanchion) -> None:
    app.semaphore("smtp", capacity=1)
    app.semaphore("api", capacity=1)
    context_of(app).store_semaphores()
    made = run("push", "mail", "1", "--limits", "smtp", "--limits", "api", "--order-key", "acme", "--json").json
    assert (made["limits"], made["order_key"]) == (["api", "smtp"], "acme")
    refused = run("push", "mail", "1", "--limits", "smpt")
    assert refused.code == 2
    assert "no semaphore 'smpt'" in refused.error


def test_show_says_what_a_job_waits_for(run: Run, app: Stanchion, ids: list[str]) -> None:
    assert "waits for    a slot of smtp, 2nd in line\n" in run("show", ids[2]).out
    assert run("show", ids[2], "--json").json["waits_for"] == "a slot of smtp, 2nd in line"
    assert "waits for" not in run("show", ids[0]).out
    first, second, third = app.queue("orders").push_many([Push(number, order_key="acme") for number in range(3)])
    (job,) = app.queue("orders").reserve(3)
    for waiting in (second, third):
        assert f"waits for    job {first.id} of the same order key\n" in run("show", waiting.id).out
    job.rollback(delay=60)
    assert f"waits for    job {first.id} of the same order key\n" in run("show", third.id).out


def test_show_says_which_job_is_next_before_any_had_a_slot(run: Run, app: Stanchion) -> None:
    first, second = app.queue("orders").push_many([Push(1, order_key="acme", delay=60), Push(2, order_key="acme")])
    assert app.queue("orders").reserve(3) == []
    assert f"waits for    job {first.id} of the same order key\n" in run("show", second.id).out


def test_parked_jobs_are_copied_and_line_up_anew(run: Run, app: Stanchion, tmp_path: Path) -> None:
    app.semaphore("smtp", capacity=1)
    mail = app.queue("mail")
    ids = [job.id for job in mail.push_many([Push(number, limits=["smtp"]) for number in range(3)])]
    first, second = mail.push_many([Push(number, order_key="acme") for number in range(2)])
    for job in mail.reserve(5):
        job.rollback(delay=0)
    assert ([job.id for job in app.semaphore("smtp").holders()], mail.size().waiting) == ([ids[1]], 2)
    there = Stanchion(f"sqlite:///{tmp_path}/there.db")
    answer = run("copy", app.url, there.url, "--settle", "0")
    assert answer.code == 0, answer.err
    assert there.semaphore("smtp").usage() == ("smtp", 1, 0, 0)
    assert {job.id for job in there.queue("mail").reserve(9)} == {ids[1], first.id}
    assert [job.id for job in there.semaphore("smtp").blocked()] == [ids[0], ids[2]]
    assert there.find(state="waiting")[0].id == second.id
    there.close()


def test_show_tells_the_waits_that_are_over(run: Run, app: Stanchion) -> None:
    app.store.clock_offset = -60.0
    app.semaphore("smtp", capacity=1)
    mail = app.queue("mail")
    first, second = (job.id for job in mail.push_many([Push(number, limits=["smtp"]) for number in range(2)]))
    (held,) = mail.reserve(2)
    app.store.clock_offset += 1
    held.commit()
    mail.pause()
    app.store.clock_offset += 1  # a pause of less than a millisecond is none
    mail.resume()
    lines = run("show", second).out.splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.startswith("waits        Waited "))
    assert " for semaphore smtp  20" in lines[place]
    assert lines[place + 1].startswith("             mail was paused for ")
    found = run("show", second, "--json").json
    assert [(one["kind"], one["name"]) for one in found["past_waits"]] == [("semaphore", "smtp"), ("pause", "mail")]
    assert not found["older_waits"]
    assert run("show", first, "--json").json["past_waits"] == []
