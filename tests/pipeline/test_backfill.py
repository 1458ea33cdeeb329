"""`stanchion pipeline backfill` and `backfills`."""

from stanchion.context import context_of
from stanchion.pipelines import Pipeline
from stanchion.schemas.models import schema_from
from tests.cli.conftest import Run, app, command, process, run, start, url  # noqa: F401
from tests.pipeline.test_cli import etl  # noqa: F401

BACKFILL = ("pipeline", "backfill", "flow:etl", "raw")


def test_it_counts_then_enqueues_then_does_nothing(etl: Pipeline, run: Run) -> None:  # noqa: F811
    etl.push_many([1, 2, 13])
    etl.drain()
    etl.push(4)
    answer = run(*BACKFILL, "--dry-run")
    left = "left out: 1 still on their way, or finished since the backfill began"
    assert answer.out == f"would enqueue: 3 items at raw; {left}\n"
    assert "purged before" in answer.err
    assert etl.queue("raw").size().total == 1
    assert run(*BACKFILL, "--name", "fix").out == f"enqueued: 3 items at raw; {left}\n"
    assert etl.queue("raw").size().total == 4
    again = run(*BACKFILL, "--name", "fix")
    assert again.code == 0
    assert again.out.startswith("nothing to do: backfill fix was done ")
    assert etl.queue("raw").size().total == 4
    told = run(*BACKFILL, "--name", "fix", "--json").json
    assert (told["name"], told["enqueued"], told["left_out"], told["was_done"]) == ("fix", 3, {"live": 1}, True)


def test_backfills_are_listed(etl: Pipeline, run: Run) -> None:  # noqa: F811
    etl.push(2)
    etl.drain()
    assert run("pipeline", "backfills", "flow:etl", "--json").json == []
    run(*BACKFILL, "--name", "fix", "--priority", "-50", "--max-live", "10", "--since", "2020-01-01")
    (one,) = run("pipeline", "backfills", "flow:etl", "--json").json
    assert (one["name"], one["station"], one["source"], one["enqueued"]) == ("fix", "raw", None, 1)
    assert one["since"] == "2020-01-01T00:00:00.000000Z"
    assert one["done_at"] is not None
    heads, row = run("pipeline", "backfills", "flow:etl").out.splitlines()
    assert heads.split() == ["NAME", "STATION", "SINCE", "UNTIL", "SOURCE", "ENQUEUED", "DONE"]
    assert row.split()[:3] == ["fix", "raw", "2020-01-01"]


def test_what_is_wrong_is_told(etl: Pipeline, run: Run) -> None:  # noqa: F811
    etl.push(2)
    etl.drain()
    for arguments, told in (
        ((*BACKFILL, "--since", "2h"), "give --name"),
        ((*BACKFILL, "--until", "1h"), "give --name"),
        ((*BACKFILL[:3], "nowhere"), "has no station 'nowhere'"),
        ((*BACKFILL, "--archive", "none"), "there is no archive in"),
        ((*BACKFILL, "--since", "2030-01-02", "--until", "2030-01-01"), "the window is empty"),
    ):
        answer = run(*arguments)
        assert answer.code == 2
        assert told in answer.error
    assert run(*BACKFILL, "--since", "2h", "--dry-run").out == "would enqueue: 1 item at raw\n"


def test_reasons_are_told_item_by_item(etl: Pipeline, run: Run) -> None:  # noqa: F811
    item = etl.push(1)
    etl.drain()
    etl.queue("even").configure(history_ttl=3600)
    answer = run(*BACKFILL[:3], "odd")
    assert answer.out == "enqueued: 1 item at odd\n"
    context_of(etl).schemas.declare("etl.raw", schema_from("n bigint"))
    context_of(etl).declare("etl.raw")
    answer = run(*BACKFILL, "--name", "typed")
    assert answer.out == "enqueued: 0 items at raw; left out: 1 do not fit the schema of the station's queue\n"
    assert f"item {item.id} a payload does not fit the schema of queue 'etl.raw'" in answer.err
