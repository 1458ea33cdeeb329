"""`stanchion replay --pipeline`, and what `stanchion show` says of an item's way."""

from stanchion.pipelines import Pipeline
from tests.cli.conftest import Run, app, command, process, run, start, url  # noqa: F401
from tests.pipeline.test_cli import etl  # noqa: F401


def test_items_run_again_from_a_station(etl: Pipeline, run: Run) -> None:  # noqa: F811
    ids = [etl.push(n).id for n in (13, 2, 13)]
    etl.drain()
    again = ("replay", "--pipeline", "flow:etl", "--from", "raw", "--state", "dead")
    assert run(*again, "--dry-run").out == "would replay: 2 items\n"
    assert etl.queue("raw").size().total == 0
    assert run(*again).out == "replayed: 2 items\n"
    assert [job.origin for job in etl.queue("raw").find(state="ready")] == [ids[2], ids[0]]  # the oldest runs first
    assert run(*again, "--limit", "1", "--dry-run").out == "would replay: 1 item\n"
    answer = run("replay", "--pipeline", "flow:etl", ids[1], "--json")
    assert [(one["id"], one["ok"]) for one in answer.json] == [(ids[1], True)]
    copy = etl.queue("raw").get(answer.json[0]["copy"])
    assert copy is not None
    assert copy.payload == 2


def test_a_replay_with_a_name_is_done_once(etl: Pipeline, run: Run) -> None:  # noqa: F811
    etl.push_many([2, 4])
    etl.drain()
    again = ("replay", "--pipeline", "flow:etl", "--state", "done", "--write-id", "fix")
    assert run(*again).out == "replayed: 2 items\n"
    answer = run(*again)
    assert (answer.code, answer.out) == (0, "nothing to do: this write was done before\n")
    assert run(*again, "--json").json == []
    assert etl.queue("raw").size().total == 2
    assert len(run("jobs", "--passed", "etl.raw", "--queue", "etl.even", "--json").json) == 2
    assert len(run("jobs", "--passed", "etl.raw", "--json").json) == 4


def test_what_can_not_run_again_is_told(etl: Pipeline, run: Run) -> None:  # noqa: F811
    done, waiting, missing = etl.push(2).id, "", "01a1fe3f-73a2-767e-a69c-404dbf034853"
    etl.drain()
    waiting = etl.push(4).id
    answer = run("replay", "--pipeline", "flow:etl", "--from", "even", done, waiting, missing)
    assert (answer.code, answer.out) == (1, "replayed: 1 item, 2 not\n")
    assert f"item {waiting} has not passed station 'etl.even'" in answer.err
    assert f"item {missing} is neither live nor in history" in answer.err
    for arguments, told in (
        (("replay", "--from", "raw", done), "give --pipeline"),
        (("replay", "--pipeline", "flow:etl", "--from", "nowhere", done), "has no station"),
        (("replay", "--pipeline", "flow:etl", "--queue", "etl.raw"), "with --pipeline, select"),
        (("replay", "--pipeline", "flow:etl"), "which items?"),
        (("replay", "--write-id", "x", done), "give --archive DIR too"),
    ):
        answer = run(*arguments)
        assert answer.code == 2
        assert told in answer.error


def test_the_way_of_an_item_is_shown_with_its_times(etl: Pipeline, run: Run) -> None:  # noqa: F811
    item, still = etl.push(1), etl.push(2, delay=60)
    etl.drain()
    lines = run("show", item.id).out.splitlines()
    (first,) = (n for n, line in enumerate(lines) if line.startswith("trail"))
    assert [line[13:22].strip() for line in lines[first : first + 3]] == ["etl.raw", "etl.odd", "etl.even"]
    assert all(" UTC" in line for line in lines[first : first + 3])
    job = run("show", item.id, "--json").json
    assert [(stop["queue"], stop["attempts"]) for stop in job["trail"]] == [
        ("etl.raw", 1),
        ("etl.odd", 1),
        ("etl.even", None),
    ]
    assert (job["payload"], job["entry_payload"]) == (2, 1)
    assert "trail" not in run("show", still.id).out
