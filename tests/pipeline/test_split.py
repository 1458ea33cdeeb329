"""`stanchion pipeline split`."""

import pytest

from stanchion.context import context_of
from stanchion.ops.audit import AuditLog
from stanchion.pipelines import Pipeline
from tests.cli.conftest import Run, app, command, process, run, start, url  # noqa: F401
from tests.pipeline.test_cli import etl  # noqa: F401

SPLIT = ("pipeline", "split", "flow:etl")


def test_some_items(etl: Pipeline, run: Run) -> None:  # noqa: F811
    (chunk,) = etl.push_chunks(range(10))
    etl.pause("raw")
    answer = run(*SPLIT, chunk.id, "7", "2-3", "7")
    one, two, three, rest = sorted(etl.find("raw"), key=lambda job: job.id)[1:]
    assert answer.out.splitlines() == [
        f"item 7 is job {one.id}, ready",
        f"item 2 is job {two.id}, ready",
        f"item 3 is job {three.id}, ready",
        f"the other 7 items: job {rest.id}, ready",
    ]
    assert [job.payload for job in (one, two, three)] == [7, 2, 3]
    assert list(rest.payload) == [0, 1, 4, 5, 6, 8, 9]
    found, _ = AuditLog(lambda: context_of(etl).store).newest(50)
    assert [(entry.act, entry.subject, entry.number, entry.note) for entry in found] == [("split", chunk.id, 3, "etl")]


def test_all_items(etl: Pipeline, run: Run) -> None:  # noqa: F811
    (chunk,) = etl.push_chunks(range(30))
    lines = run(*SPLIT, chunk.id, "--all").out.splitlines()
    assert (len(lines), lines[-1]) == (21, "and 10 more items are jobs of their own")
    (other,) = etl.push_chunks(range(3))
    answer = run(*SPLIT, other.id, "0", "1", "--json").json
    assert [(one.get("item"), one.get("items")) for one in answer] == [(0, None), (1, None), (None, 1)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "which items? name some"),
        (("17", "--all"), "which items? name some"),
        (("x",), "'x' is neither an item, as 17, nor a range of items, as 20-29"),
        (("9-3",), "'9-3' is neither an item"),
        (("0-10000",), "'0-10000' has more than 10,000 items"),
        (("17",), "has no item 17: it has 10 items, from 0 to 9"),
    ],
)
def test_what_is_wrong_is_told(etl: Pipeline, run: Run, arguments: tuple[str, ...], told: str) -> None:  # noqa: F811
    (chunk,) = etl.push_chunks(range(10))
    answer = run(*SPLIT, chunk.id, *arguments)
    assert answer.code == 2
    assert told in answer.error
    assert etl.find("raw")[0].items == 10


def test_an_item_is_not_cancelled_alone(etl: Pipeline, run: Run) -> None:  # noqa: F811
    (chunk,) = etl.push_chunks(range(10))
    for act in ("cancel", "retry", "replay"):
        answer = run(act, f"{chunk.id}/7")
        assert answer.code == 2
        told = f"item 7 is part of chunk {chunk.id}, which has 10 items; split it first: etl.split('{chunk.id}', [7])"
        assert told in answer.error
    assert etl.find("raw")[0].items == 10
