"""stanchion manager, as a process of its own."""

import json
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from stanchion import Stanchion
from stanchion.errors import StoreUnavailable
from tests.cli.conftest import Run
from tests.servers.process import free_port
from tests.servers.proxy import TcpProxy
from tests.telemetry.scrape import probe
from tests.web.seed_parts import managers
from tests.worker.conftest import until

Start = Callable[..., "subprocess.Popen[str]"]

SECRET = "the-secret-of-the-test"


def started(start: Start, *options: str, **env: Any) -> tuple["subprocess.Popen[str]", dict[str, Any]]:
    """Start a manager; return it with its first line."""
    process = start("manager", "--listen", "127.0.0.1:0", "--json", *options, **env)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate(timeout=60)
    return process, json.loads(line)


def stopped(process: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> str:
    """Stop a manager; return what it logged."""
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return str(err)


def test_serves_the_store(start: Start, app: Stanchion, url: str) -> None:
    process, said = started(start)
    assert said == {
        "listening": said["listening"],
        "url": f"grpc://{said['listening']}",
        "store": url,
        "pid": process.pid,
    }
    client = Stanchion(said["url"])
    job = client.queue("orders").push({"id": 1})
    (reserved,) = client.queue("orders").reserve(wait=30)
    assert reserved.payload == {"id": 1}
    reserved.commit(result="done")
    client.close()
    assert "stopping" in stopped(process)
    found = app.queue("orders").get(job.id)
    assert found is not None
    assert found.result == "done"


def test_stops_on_ctrl_c_and_then_is_away(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from stanchion.stores.records import calls

    monkeypatch.setattr(calls, "CALL_SECONDS", 1.0)
    process, said = started(start)
    client = Stanchion(said["url"])
    client.queue("orders").push(1)
    stopped(process, signal.SIGINT)
    with pytest.raises(StoreUnavailable, match="can't use the manager"):
        client.queue("orders").push(2)
    client.close()


def test_with_a_token(start: Start, run: Run) -> None:
    process, said = started(start, env={"STANCHION_MANAGER_TOKEN": SECRET})
    known = f"{said['url']}?token={SECRET}"
    assert run("push", "orders", "1", "--url", known).code == 0
    (queue,) = run("queues", "--url", known, "--json").json
    assert queue["name"] == "orders"
    for wrong in (said["url"], f"{said['url']}?token=wrong-wrong-wrong"):
        answer = run("queues", "--url", wrong)
        assert answer.code == 1
        assert "token" in answer.error
        assert "wrong-wrong" not in answer.error
    assert SECRET not in stopped(process)


def test_says_where_it_serves_to_people(start: Start) -> None:
    process = start("manager", "--listen", "127.0.0.1:0")
    assert process.stderr is not None
    assert re.match(r"serving sqlite:///\S+ to clients of grpc://127\.0\.0\.1:\d+\n", process.stderr.readline())
    stopped(process)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--listen", "0.0.0.0:0"), "STANCHION_MANAGER_TOKEN"),
        (("--listen", "nowhere:x"), "host:port"),
        (("--tls-cert", "none.pem"), "--tls-key"),
        (("--tokens", "none.toml"), "can't read"),
        (("--threads", "0"), "--threads"),
        (("--grace", "soon"), "--grace"),
        (("--log-level", "loud"), "--log-level"),
        (("--url", f"grpc://127.0.0.1:1?token={SECRET}"), "URL of the database"),
        (("--url", "shards:///shards.toml"), "start managers for each shard"),
    ],
)
def test_refuses(run: Run, options: tuple[str, ...], match: str) -> None:
    answer = run("manager", *options)
    assert answer.code == 2
    assert match in answer.error
    assert SECRET not in answer.err


def test_short_tokens_are_refused(run: Run) -> None:
    answer = run("manager", STANCHION_MANAGER_TOKEN="short")
    assert answer.code == 2
    assert "at least 16" in answer.error
    assert "secrets.token_urlsafe" in answer.error


@pytest.mark.parametrize("comes_back", [True, False])
def test_waits_for_a_store_that_is_away(start: Start, pg_store_url: str, comes_back: bool) -> None:
    port = int(urlsplit(pg_store_url).port or 0)
    with TcpProxy("127.0.0.1", port) as proxy:
        proxy.drop()
        url, health = pg_store_url.replace(f":{port}/", f":{proxy.port}/"), free_port()
        options = ("--listen", "127.0.0.1:0", "--json", "--health-port", str(health))
        process = start("manager", "--url", url, *options, env={"STANCHION_CALL_SECONDS": "1"})
        assert process.stdout is not None
        assert process.stderr is not None
        waited = next(line for line in process.stderr if "waiting for the store" in line)
        assert "next try in" in waited
        assert probe(health, "/livez") == (200, None)
        assert probe(health, "/readyz")[0] == 503
        if comes_back:
            proxy.pass_through()
            client = Stanchion(json.loads(process.stdout.readline())["url"])
            client.queue("orders").push({"id": 1})
            client.close()
            assert probe(health, "/readyz") == (200, None)
        stopped(process)


def test_waits_for_no_store_that_will_not_come(run: Run, pg_store_url: str) -> None:
    answer = run("manager", "--url", f"{pg_store_url}_nosuch", "--listen", "127.0.0.1:0")
    assert answer.code == 1
    assert "does not exist" in answer.error


def test_stores_lists_it(run: Run) -> None:
    (found,) = [store for store in run("stores", "--json").json if store["name"] == "grpc"]
    assert found["schemes"] == ["grpc", "grpcs"]
    assert found["extra"] == "grpc"
    assert not found["joins_transactions"]


def test_status(start: Start, run: Run, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    from stanchion.stores.records import calls

    app.queue("shown").push(1)
    process, said = started(start)

    def shown() -> bool:
        (found,) = json.loads(run("manager", "status", "--url", said["url"], "--json").out)
        return any({"queue": "shown", "window": 1}.items() <= one.items() for one in found["queues"])

    until(shown)
    ended = run("manager", "status", "--url", said["url"])
    assert ended.code == 0
    assert re.search(r"^MANAGER +STATE +QUEUE +SLICES +WINDOW", ended.out)
    assert f"{said['listening']}" in ended.out
    assert "0 receivers" in ended.err
    stopped(process)
    monkeypatch.setattr(calls, "CALL_SECONDS", 1.0)
    assert "check the URL, and that the manager runs" in run("manager", "status", "--url", said["url"]).err


def test_status_without_managers(run: Run) -> None:
    run("setup")
    ended = run("manager", "status")
    assert (ended.code, ended.err) == (1, "no managers: `stanchion manager` starts one\n")
    assert run("manager", "status", "--json").json == []


def test_status_by_the_store_itself(run: Run, app: Stanchion) -> None:
    managers(app)
    ended = run("manager", "status")
    assert ended.code == 0
    assert [line[line.index(":7117") :].split() for line in ended.out.splitlines()[1:]] == [
        [":7117", "gone", "0"],
        [":7117", "<b>", "alive", "mail", "1"],
        [":7117", "<b>", "alive", "orders", "2"],
    ]
    assert "--url grpc://HOST:PORT" in ended.err
    gone, alive = run("manager", "status", "--json").json
    assert (gone["state"], alive["state"], alive["receivers"]) == ("gone", "alive", [])
    assert alive["queues"][0] == {"queue": "mail", "slices": 1, "statements_per_job": None}
