import json
import signal
import subprocess
from collections.abc import Callable

from stanchion import Stanchion
from tests.cli.conftest import Run


def test_a_line_per_event(run: Run, app: Stanchion) -> None:
    job = app.queue("mail").push(1)
    app.queue("mail").pop()
    app.queue("orders").push(2)
    answer = run("watch", "--since", "1h", "--until-idle", "0")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert len(lines) == 4
    assert [word for word in ("pushed", "started", "finished") if word in answer.out] == [
        "pushed",
        "started",
        "finished",
    ]
    assert job.id in lines[0]


def test_positions_continue(run: Run, app: Stanchion) -> None:
    app.queue("mail").push_many(range(3))
    answer = run("watch", "--json", "--queues", "mail", "--events", "pushed", "--since", "1h", "--limit", "2")
    first, second = map(json.loads, answer.out.splitlines())
    assert (first["kind"], first["queue"], first["state"], first["attempt"]) == ("pushed", "mail", "ready", 0)
    more = run("watch", "--json", "--since", second["position"], "--until-idle", "0").out.splitlines()
    told = {first["id"], second["id"], *(json.loads(line)["id"] for line in more)}
    assert told == {job.id for job in app.queue("mail").find()}


def test_queues_by_pattern(run: Run, app: Stanchion) -> None:
    for name in ("mail.eu", "mail.us", "orders", "other"):
        app.queue(name).push(1)
    answer = run("watch", "--json", "--queues", "mail.*,orders", "--since", "1h", "--until-idle", "0")
    assert {json.loads(line)["queue"] for line in answer.out.splitlines()} == {"mail.eu", "mail.us", "orders"}


def test_filters(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1, tenant="a")
    app.queue("mail").push(1, tenant="b")
    answer = run("watch", "--since", "1h", "--tenant", "b", "--until-idle", "0", "--json")
    assert [json.loads(line)["tenant"] for line in answer.out.splitlines()] == ["b"]


def test_nonsense(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    assert run("watch", "--since", "yesterday").code == 2
    assert run("watch", "--events", "born").code == 2
    assert run("watch", "--limit", "0").code == 2


def test_ctrl_c_ends_it(start: Callable[..., subprocess.Popen[str]], app: Stanchion) -> None:
    app.queue("mail").push(1)
    watching = start("watch", "--json", "--since", "1h")
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["kind"] == "pushed"
    app.queue("mail").push(2)
    assert json.loads(watching.stdout.readline())["kind"] == "pushed"
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert "continue with --since 1." in err
    assert "Traceback" not in err
