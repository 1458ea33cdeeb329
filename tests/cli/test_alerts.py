import json
import re
import threading

import pytest

from stanchion import Stanchion
from stanchion.context.queues.pauses import pauses_of
from stanchion.core.project import RUNBOOK
from tests.alerts.test_webhook import Receiver
from tests.cli.conftest import Run

LATE = "--limit", "no_worker=0.000001"


def test_nothing(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    answer = run("alerts")
    assert (answer.code, answer.out) == (0, "nothing needs a person: 1 live job in 1 queue\n")
    assert run("alerts", "--json").json == []


def test_one_alert(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    answer = run("alerts", *LATE)
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert lines[0].startswith("NOW   mail has no live worker: 1 job can run")
    assert lines[1].strip() == "Start a worker that takes it: stanchion worker MODULE:APP --queues mail"
    assert lines[-1].endswith(f"{RUNBOOK}#no-worker")
    (alert,) = run("alerts", *LATE, "--json").json
    assert (alert["rule"], alert["subject"]) == ("no-worker", "mail")


def test_the_most_urgent_first_and_the_number_of_the_others(run: Run, app: Stanchion) -> None:
    for number in range(9):
        app.queue(f"q{number}").push(1)
    said = run("alerts", *LATE).out.splitlines()
    assert said[0] == "NOW   9 queues have no live worker: q0, q1, q2 and 6 more."
    assert said[1] == f"      --all shows each; {RUNBOOK}#no-worker"
    assert len(said) == 2
    assert run("alerts", *LATE, "--all").out.count("no live worker") == 9


def test_the_bands(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1, priority="interactive")
    answer = run("alerts", "--monitor")
    assert any(line.split()[:3] == ["mail", "interactive", "1"] for line in answer.out.splitlines())
    told = run("alerts", "--monitor", "--json").json
    assert {one["band"]: one["ready"] for one in told["bands"]}["interactive"] == 1
    assert told["queues"][0]["size"]["total"] == 1


def test_limits_for_all(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    assert run("alerts", "set", "no_worker=0.000001", "queue.mail.max_age=2m").code == 0
    assert run("alerts", "limits").out.splitlines() == ["no_worker=1e-06", "queue.mail.max_age=120"]
    assert run("alerts").code == 1
    assert run("alerts", "set", "no_worker=none").code == 0
    assert run("alerts", "limits", "--json").json == {"queue.mail.max_age": 120}
    assert run("alerts").code == 0


def test_nonsense(run: Run, app: Stanchion) -> None:
    app.setup()
    for args in (["--limit", "no_worker"], ["--limit", "slow=1"], ["--limit", "no_worker=x"], ["set", "no_worker=-1"]):
        assert run("alerts", *args).code == 2
    assert "--watch" in run("alerts", "--webhook", "http://example.org").error
    assert run("alerts", "--watch", "--webhook", "example.org").code == 2


def test_watching(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    answer = run("alerts", "--watch", *LATE, "--interval", "0.01", "--samples", "5", "--json")
    assert answer.code == 1
    (line,) = answer.out.splitlines()
    assert json.loads(line)["status"] == "firing"
    assert run("alerts", "--watch", "--interval", "0.01", "--samples", "3").code == 0


def test_watching_with_a_webhook(run: Run, app: Stanchion) -> None:
    receiver = Receiver()
    threading.Thread(target=receiver.server.serve_forever, daemon=True).start()
    app.queue("mail").push(1)
    run("alerts", "--watch", *LATE, "--interval", "0.01", "--samples", "6", "--webhook", receiver.url)
    receiver.server.shutdown()
    receiver.server.server_close()
    assert [body["alert"]["subject"] for body in receiver.got] == ["mail"]


@pytest.mark.usefixtures("short_calls")
def test_a_store_that_is_not_there(run: Run) -> None:
    answer = run("alerts", "--url", "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")
    assert answer.code == 1
    assert answer.out.startswith("NOW   The store can't be used")


def test_who_is_on_it(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    assert run("alerts", "set", "no_worker=0.000001").code == 0
    assert run("alerts", "on-it", "mail", "--who", "ana").out == "ana is on it: queue:mail\n"
    assert re.search(r"^ {6}ana is on it for \d", run("alerts").out, re.MULTILINE)
    assert "no alert is about 'other'" in run("alerts", "on-it", "other").err


def test_a_pause_keeps_who_and_why(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    run("pause", "mail", "--note", "the provider is down")
    assert app.queue("mail").settings.paused
    assert pauses_of(app.store, ["mail"])["mail"].note == "the provider is down"
    assert "at most 300 characters" in run("pause", "mail", "--note", "x" * 301).err
    run("resume", "mail")
    assert pauses_of(app.store, ["mail"]) == {}
