from dataclasses import replace
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.workers import CONSUMER, LaneRange, QueueTimes, WorkerRow
from stanchion_conformance.harness import new_job
from stanchion_conformance.jobs.chunk_contents import chunk
from tests.cli.conftest import Run


def test_lists_sizes_and_settings(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    app.queue("mail").push(2, delay=60)
    app.queue("orders").configure(max_rate=50, paused=True)
    answer = run("queues")
    assert answer.code == 0
    heading, mail, orders = answer.out.splitlines()
    assert heading.split()[:5] == ["QUEUE", "READY", "SCHEDULED", "WAITING", "RUNNING"]
    assert mail.split()[:5] == ["mail", "1", "1", "0", "0"]
    assert orders.endswith("paused max_rate=50")


def test_lists_items_where_jobs_carry_chunks(run: Run, app: Stanchion) -> None:
    app.store.push([chunk(30, queue="etl"), new_job(queue="etl")])
    heading, etl = run("queues").out.splitlines()
    assert heading.split()[:6] == ["QUEUE", "READY", "SCHEDULED", "WAITING", "RUNNING", "ITEMS"]
    assert etl.split()[:6] == ["etl", "2", "0", "0", "0", "31"]
    assert run("queues", "--json").json[0]["items"]["ready"] == 31


def test_json_shape(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    (queue,) = run("queues", "--json").json
    assert queue.keys() == {
        *("name", "paused", "max_rate", "max_running", "lanes", "lanes_per_tenant", "partitions", "key_partitions"),
        *(
            "history_ttl",
            "dead_letter",
            "lease",
            "expires",
            "expires_with_jobs",
            "timeout",
            "ordered",
            "ordered_by",
            "jobs_expire",
            *("history_ttl_done", "history_ttl_dead", "history_ttl_cancelled", "history_max"),
            "shape",
            "size",
            "items",
            "dead_letters",
            "counts",
            "next_due",
            "lag",
            "trouble",
            "unserved_lanes",
            "schema",
            "last_5_min",
        ),
    }
    assert queue["size"] == {"total": 1, "ready": 1, "scheduled": 0, "waiting": 0, "running": 0}
    assert queue["counts"]["pushed"] == 1
    assert queue["next_due"].endswith("Z")


def test_the_schema_of_a_queue(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    app.queue("orders", schema="id bigint not null, tags array<string>").push({"id": 1})
    shown: dict[str, Any] = {"version": 1, "ddl": "id bigint NOT NULL, tags array<string>"}
    shown["fields"] = [
        {"name": "id", "type": "bigint", "nullable": False},
        {"name": "tags", "type": "array<string>", "nullable": True},
    ]
    assert [queue["schema"] for queue in run("queues", "--json").json] == [None, shown]
    assert run("queues").out.count("schema=v1") == 1
    assert run("queues", "schema", "orders", "--json").json == shown
    answer = run("queues", "schema", "orders")
    assert "schema version 1" in answer.err
    assert "array<string>" in answer.out
    assert "has no schema" in run("queues", "schema", "mail").err


def test_percentiles_of_five_minutes(run: Run, app: Stanchion) -> None:
    app.queue("mail").push("x")
    assert run("queues", "--json").json[0]["last_5_min"] is None
    app.store.beat(
        [WorkerRow("w", "h", 1, ("mail",), 1, 10.0, times=(QueueTimes("mail", "eventual", (9, 0, 1), (0, 2)),))]
    )
    told = {"jobs": 10, "attempts": 2, "pickup_p50": 0.001, "pickup_p95": 0.001, "run_p50": 0.0011, "run_p95": 0.0011}
    assert run("queues", "--json").json[0]["last_5_min"] == told
    assert run("top", "--once", "--interval", "100ms", "--json").json["queues"][0]["last_5_min"] == told


def test_lanes_that_no_worker_serves(run: Run, app: Stanchion) -> None:
    app.queue("orders").configure(lanes=16, lanes_per_tenant=1)
    row = WorkerRow("w", "host", 1, ("orders", "mail"), 1, 10.0)
    app.store.beat([row])
    assert run("queues", "--json").json[0]["unserved_lanes"] == []
    app.store.leave("w")
    low = replace(row, lanes=(LaneRange("orders", -1, 3),), order="priority")
    high = replace(row, id="v", lanes=(LaneRange("orders", 6, 14),), order="strict")
    app.store.beat([low, high, replace(row, id="c", state=CONSUMER)])
    assert run("queues", "--json").json[0]["unserved_lanes"] == [[4, 5], [15, 15]]
    assert run("queues").out.rstrip().endswith("(no worker for lanes 4-5, 15)")
    app.store.push([NewJob("0198b5a0-0000-7000-8000-000000000001", "orders", "{}", lane=20)])
    assert run("queues", "--json").json[0]["unserved_lanes"] == [[4, 5], [15, 15], [20, 20]]
    app.store.leave("w")
    assert run("queues", "--json").json[0]["unserved_lanes"] == [[0, 5], [15, 15], [20, 20]]
    app.store.leave("c")
    (worker,) = run("workers", "--json").json
    assert (worker["lanes"], worker["order"]) == ({"orders": [6, 14]}, "strict")
    assert "orders=6-14,mail" in run("workers").out
    app.store.clock_offset += 1000
    assert run("queues", "--json").json[0]["unserved_lanes"] != []


def test_no_queues_is_nothing_found(run: Run) -> None:
    run("setup")
    assert run("queues").code == 1
    assert run("queues", "--json").json == []


def test_set_stores_settings(run: Run, app: Stanchion) -> None:
    answer = run(
        *("queues", "set", "mail", "max_rate=2.5", "max_running=3", "history_ttl=30d", "lease=1m"),
        *("dead_letter=lost", "paused=on", "expires=2d", "expires_with_jobs=on", "timeout=5m", "--json"),
    )
    assert answer.code == 0
    settings = app.queue("mail").settings
    assert (settings.max_rate, settings.max_running, settings.history_ttl) == (2.5, 3, 30 * 86_400)
    assert (settings.lease, settings.dead_letter, settings.paused) == (60, "lost", True)
    assert (settings.expires, settings.expires_with_jobs, settings.timeout) == (2 * 86_400, True, 300)
    assert answer.json["max_rate"] == 2.5
    assert "expires=2d expires_with_jobs timeout=5m" in run("queues").out
    assert "max_rate" not in run("queues", "set", "mail", "max_rate=none").out
    assert app.queue("mail").settings.max_rate is None


def test_ordered_queues(run: Run) -> None:
    assert run("queues", "set", "mail", "ordered=on", "ordered_by=tenant").out == "mail: ordered ordered_by=tenant\n"
    (shown,) = run("queues", "--json").json
    assert (shown["ordered"], shown["ordered_by"], shown["max_running"]) == (True, "tenant", 1)
    assert "one job at a time" in run("queues", "set", "mail", "max_running=3").error
    assert run("queues", "set", "mail", "ordered=off", "ordered_by=none").out == "mail: defaults\n"


def test_reset_returns_to_the_code(run: Run, app: Stanchion) -> None:
    mail = app.queue("mail", max_rate=5)
    mail.push(1)
    out = run("queues", "set", "mail", "max_rate=50", "max_running=3", "history_ttl=1d").out
    assert out == "mail: max_rate=50 max_running=3 history_ttl=1d (not as declared: max_rate)\n"
    assert run("queues", "reset", "mail", "max_running").out == (
        "mail: max_rate=50 history_ttl=1d (not as declared: max_rate)\n"
    )
    assert run("queues", "reset", "mail").out == "mail: max_rate=5\n"
    assert mail.settings.max_rate == 5
    assert "did you mean 'max_rate'" in run("queues", "reset", "mail", "max_rat").error
    assert "no queue 'mial'" in run("queues", "reset", "mial").error


def test_retention_by_outcome_is_printed_as_it_is_set(run: Run, app: Stanchion) -> None:
    printed = "mail: history_ttl=30d history_ttl_done=1d12h history_ttl_cancelled=7d\n"
    mapping = 'history_ttl={"done": "36h", "dead": "30d"}'
    assert run("queues", "set", "mail", mapping).out == printed
    assert app.queue("mail").settings.shorter_ttls == {"done": 36 * 3600.0, "cancelled": 7 * 86_400.0}
    assert "mail: defaults" in run("queues", "reset", "mail", "history_ttl").out
    assert run("queues", "set", "mail", *printed.split()[1:]).out == printed
    assert run("queues", "set", "mail", "history_ttl=2.5s").out == "mail: history_ttl=2.5s\n"
    assert "unknown outcome" in run("queues", "set", "mail", 'history_ttl={"failed": "36h"}').error


def test_options_before_a_subcommand_count_too(run: Run, url: str) -> None:
    assert run("--json", "queues", "--url", url, "set", "mail", "max_rate=1", STANCHION_URL="").json["name"] == "mail"


@pytest.mark.parametrize(
    ("setting", "message"),
    [("max_rat=1", "unknown queue setting"), ("max_rate=fast", "jobs per second"), ("max_rate", "name=value")],
)
def test_bad_settings_are_refused(run: Run, setting: str, message: str) -> None:
    answer = run("queues", "set", "mail", setting)
    assert answer.code == 2
    assert message in answer.error


def test_pause_and_resume(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    app.queue("orders").push(1)
    assert run("pause", "mail", "orders").out == "paused: mail, orders\n"
    assert app.queue("mail").reserve() == []
    assert run("resume", "mail", "--json").json == [{"queue": "mail", "paused": False}]
    assert len(app.queue("mail").reserve()) == 1


def test_a_mistyped_queue_is_refused(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    for args in (["pause", "male"], ["resume", "male"], ["queues", "purge", "male"], ["queues", "delete", "male"]):
        answer = run(*args)
        assert answer.code == 2
        assert "known: mail" in answer.error
    assert len(app.queues()) == 1


def test_purge(run: Run, app: Stanchion) -> None:
    app.queue("mail").push_many(range(3))
    while app.queue("mail").pop():
        pass
    assert run("queues", "purge", "mail").out == "mail: 0 jobs purged\n"
    assert run("queues", "purge", "mail", "--older-than", "0", "--json").json == [{"queue": "mail", "purged": 3}]
    assert app.queue("mail").history() == []


def test_delete_asks_for_yes(run: Run, app: Stanchion) -> None:
    app.queue("mail").push(1)
    assert "--yes" in run("queues", "delete", "mail").error
    assert run("queues", "delete", "mail", "--yes", "--json").json == {"queue": "mail", "deleted": 1}
    assert app.queues() == []


def test_a_queue_named_like_a_partition_can_be_deleted(run: Run, app: Stanchion) -> None:
    app.store.push([new_job(queue="mail#3")])
    app.queue("parted", partitions=2).push(1)
    assert "mail#3" in run("queues").out
    assert "--yes" in run("queues", "delete", "mail#3").error
    assert run("queues", "delete", "mail#3", "--yes", "--json").json == {"queue": "mail#3", "deleted": 1}
    assert "no queue 'parted#1'" in run("queues", "delete", "parted#1", "--yes").error
    assert [one["name"] for one in run("queues", "--json").json] == ["parted"]


def test_queues_in_trouble_come_first(run: Run, app: Stanchion) -> None:
    app.queue("idle").configure(max_rate=1, dead_letter="letters")
    app.queue("letters").push(1)
    app.queue("work").push(1)
    assert [line.split()[0] for line in run("queues").out.splitlines()[1:]] == ["work", "idle", "letters"]
    assert "work" in next(line for line in run("queues").out.splitlines() if line.endswith("(no worker)"))
    assert {
        one["queue"]: one["trouble"] for one in run("top", "--once", "--json", "--interval", "0.1").json["queues"]
    } == {
        "work": "no worker",
        "idle": "",
        "letters": "",
    }
    assert [one["name"] for one in run("queues", "--json").json] == ["idle", "letters", "work"]
