"""`stanchion archive`, and what `replay` and `report` refuse; what they do is tested with Spark."""

from pathlib import Path

import pytest

from stanchion import Stanchion
from tests.cli.conftest import Run


def finish(app: Stanchion, count: int) -> None:
    app.queue("orders").push_many(list(range(count)))
    for job in app.queue("orders").reserve(count):
        job.commit()


def test_archive(run: Run, app: Stanchion, tmp_path: Path) -> None:
    finish(app, 3)
    folder = str(tmp_path / "archive")
    young = run("archive", folder)
    assert (young.code, young.out) == (0, "nothing to archive\n")
    done = run("archive", folder, "--older-than", "0", "--keep")
    assert done.out.startswith("archived: 3 jobs in 1 file, kept; ")
    again = run("archive", folder, "--older-than", "0", "--json")
    assert again.json | {"seconds": 0} == {
        "folder": folder,
        "archived": 0,
        "items": 0,
        "purged": 3,
        "files": 0,
        "engine": "local",
        "compacted": 0,
        "seconds": 0,
    }
    assert app.queue("orders").history() == []
    finish(app, 1)
    last = run("archive", folder, "--older-than", "0", "--compact", "--queue", "orders")
    assert last.out.startswith("archived: 1 job in 1 file, 1 purged from the store; compacted, 1 file fewer; ")


def test_items_of_chunks(run: Run, app: Stanchion, tmp_path: Path) -> None:
    etl = app.pipeline("etl")
    etl.station("end")(lambda item: item)
    etl.push_chunks([1, 2, 3])
    etl.push(4)
    etl.drain()
    done = run("archive", str(tmp_path / "archive"), "--older-than", "0")
    assert done.out.startswith("archived: 4 items of 2 jobs in 1 file, 2 purged from the store; ")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("archive", "{here}"), "contains something other than an archive"),
        (("archive", "new", "--engine", "flink"), "spark or local, not 'flink'"),
        (("archive", "new", "--older-than", "soon"), "must be a duration"),
        (("archive", "new", "--queue", "ordres"), "no queue 'ordres'"),
        (("replay", "--archive", "new", "--where", "true"), "there is no archive in"),
        (("replay", "--archive", "new"), "select them in Spark SQL"),
        (("replay", "--archive", "new", "--where", "true", "--task", "mail"), "select archived jobs by --where"),
        (("replay", "--where", "true"), "give --archive DIR too"),
        (("replay", "--queue", "orders", "--dry-run"), "give --archive DIR too"),
        (("report", "--since", "soon"), "must be a duration"),
    ],
)
def test_what_is_refused(run: Run, app: Stanchion, tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    finish(app, 1)
    answer = run(*(one.format(here=tmp_path) for one in args))
    assert answer.code == 2
    assert said in answer.error
    assert len(app.queue("orders").history()) == 1
