"""`stanchion pipeline`, in this process and as one of its own."""

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from stanchion import Worker
from stanchion.context import context_of
from stanchion.ops.cli.run.look import Look
from stanchion.pipelines import Pipeline
from stanchion.pipelines.pipeline import plan_of
from stanchion.service.loading import load_pipeline
from tests.cli.conftest import Run, app, command, process, run, start, url  # noqa: F401
from tests.docs.pages import ROOT, blocks

SOURCE = """
from stanchion import Retry, Send, Stanchion

app = Stanchion()
etl = app.pipeline("etl")
broken = Stanchion("memory://").pipeline("broken")
spark = Stanchion("memory://").pipeline("spark")


@etl.station("raw", to=["even", "odd"], max_attempts=1)
def raw(n):
    if n == 13:
        raise ValueError("bad luck")
    return Send("odd" if n % 2 else "even", n) if n else None


etl.station("even")(lambda n: n)
etl.station("odd", to="even", keep_arrival=True)(etl.expect("item < 1000", on_fail="drop")(lambda n: n + 1))
broken.station("raw", to="nowhere")(print)
spark.spark_station("raw", schema="n int")(print)
"""


@pytest.fixture
def etl(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:  # noqa: F811
    """The pipeline `flow:etl`."""
    (tmp_path / "flow.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("STANCHION_URL", url)
    yield load_pipeline("flow:etl")
    sys.modules.pop("flow").app.close()


def test_the_items_that_failed_an_expectation_are_told(etl: Pipeline, run: Run) -> None:  # noqa: F811
    etl.push_many([3, 1001, 1003])
    Worker(context_of(etl), queues=etl.queues, threads=1, until_empty=True).run()
    (found,) = run("pipeline", "status", "flow:etl", "-i", "100ms", "--json").json["expectations"]
    assert [found[name] for name in ("station", "condition", "on_fail", "failed")] == ["odd", "item < 1000", "drop", 2]
    assert sorted(found["ids"]) == sorted(job.id for job in etl.find(state="cancelled"))
    told = run("pipeline", "status", "flow:etl", "-i", "100ms").err
    assert re.search(r"odd: 2 items failed 'item < 1000', the last .+ ago \(drop\)", told)


@pytest.mark.slow
def test_run_until_empty_and_status(etl: Pipeline, process: Run, run: Run) -> None:  # noqa: F811
    etl.push_many(list(range(20)))
    answer = process("pipeline", "run", "flow:etl", "--until-empty", "--threads", "2", "--log-level", "error")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    found = run("pipeline", "status", "flow:etl", "-i", "100ms", "--json").json
    assert found["dead_letters"] == 1
    raw, odd, even = found["stations"]
    assert [raw[name] for name in ("came", "out", "dropped", "retried", "dead")] == [20, 18, 1, 0, 1]
    assert (even["out"], odd["out"], odd["rate"]) == (18, 9, 0.0)
    table = run("pipeline", "status", "flow:etl", "-i", "100ms")
    cells = ["raw", "0", "0", "0", "0", "20", "18", "1", "0", "1", "0", "ValueError:", "bad", "luck"]
    assert table.out.splitlines()[1].split() == cells
    assert "1 dead letters: stanchion jobs --queue etl.dead" in table.err


@pytest.mark.slow
def test_two_processes_share_a_pipeline(etl: Pipeline, process: Run) -> None:  # noqa: F811
    etl.push_many([n for n in range(60) if n != 13])
    answer = process(
        *("pipeline", "run", "flow:etl", "--until-empty", "--processes", "2", "--poll", "50ms", "--log-level", "error")
    )
    assert answer.code == 0, answer.err
    assert etl.queue("even").counts().committed == 58
    assert etl.status().empty


def test_a_worker_runs_the_stations_of_the_app(etl: Pipeline, process: Run) -> None:  # noqa: F811
    etl.push(2)
    assert process("worker", "flow:app", "--until-empty", "--log-level", "error").code == 0
    assert etl.queue("even").counts().committed == 1


def test_plan(etl: Pipeline, run: Run) -> None:  # noqa: F811
    etl.push(1)
    etl.queue("odd").configure(max_rate=100)
    found = run("pipeline", "plan", "flow:etl")
    assert [line.split(maxsplit=3) for line in found.out.splitlines()] == [
        ["FROM", "TO", "ITEMS", "WHY"],
        ["push", "raw", "stored", "items enter here"],
        ["raw", "even", "in", "memory"],
        ["raw", "odd", "stored", "odd has max_rate"],
        ["odd", "even", "in", "memory  odd keeps arrivals"],
    ]
    assert "2 segments: raw, even; odd, even" in found.err
    assert run("pipeline", "plan", "flow:etl", "--json").json == {
        "pipeline": "etl",
        "edges": [
            {"from": None, "to": "raw", "stored": True, "reasons": ["items enter here"], "keeps_arrival": False},
            {"from": "raw", "to": "even", "stored": False, "reasons": [], "keeps_arrival": False},
            {"from": "raw", "to": "odd", "stored": True, "reasons": ["odd has max_rate"], "keeps_arrival": False},
            {"from": "odd", "to": "even", "stored": False, "reasons": [], "keeps_arrival": True},
        ],
        "segments": [["raw", "even"], ["odd", "even"]],
        "tables": [],
    }
    assert "sends items to 'nowhere'" in run("pipeline", "plan", "flow:broken").err


def test_graph(etl: Pipeline, run: Run, tmp_path: Path) -> None:  # noqa: F811
    assert run("pipeline", "graph", "flow:etl").out == f"{etl.graph()}\n"
    assert run("pipeline", "graph", "flow:app").out == f"{etl.graph()}\n"
    assert run("pipeline", "graph", "flow:etl", "--json").json["stations"][0] == {
        "station": "raw",
        "to": ["even", "odd"],
    }
    assert run("pipeline", "graph", "flow:etl", "--svg", "etl.svg").out == ""
    assert (tmp_path / "etl.svg").read_text() == etl.svg() == run("pipeline", "graph", "flow:etl", "--svg", "-").out


@pytest.mark.parametrize("form", ["svg", "mermaid", "dot"])
def test_graph_in_other_forms(etl: Pipeline, run: Run, form: str) -> None:  # noqa: F811
    assert run("pipeline", "graph", "flow:etl", "--format", form).out == etl.graph(form)  # type: ignore[arg-type]


def test_pause_and_resume(etl: Pipeline, run: Run) -> None:  # noqa: F811
    plan_of(etl).prepare()
    assert run("pipeline", "pause", "flow:etl", "odd").out == "paused: odd\n"
    assert [one.paused for one in etl.status().stations] == [False, False, True]
    assert run("pipeline", "pause", "flow:etl", "--json").json == [
        {"station": name, "paused": True} for name in ("raw", "even", "odd")
    ]
    assert run("pipeline", "resume", "flow:etl").out == "resumed: raw, even, odd\n"
    assert not any(one.paused for one in etl.status().stations)
    assert "no station 'ood'" in run("pipeline", "pause", "flow:etl", "ood").error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["graph", "flow:broken"], "'nowhere', which is no station"),
        (["graph", "flow:etl", "--format", "png"], "text, svg, mermaid, dot, not 'png'"),
        (["graph", "flow:etl", "--format", "dot", "--json"], "not both"),
        (["graph", "flow:etl", "--format", "dot", "--svg", "-"], "not both"),
        (["run", "flow:broken"], "'nowhere', which is no station"),
        (["run", "flow:spark"], "--engine spark"),
        (["run", "flow:etl", "--engine", "flink"], "workers or spark"),
        (["run", "flow:etl", "--until-empty", "--available-now"], "not both"),
        (["status", "flow:etl", "-i", "0"], "--interval"),
        (["status", "flow:Send"], "is not a pipeline"),
        (["status", "nothing:etl"], "can't import"),
    ],
)
def test_bad_input(etl: Pipeline, run: Run, arguments: list[str], told: str) -> None:  # noqa: F811, ARG001
    answer = run("pipeline", *arguments)
    assert answer.code == 2
    assert told in answer.error


def test_the_route_of_an_item_is_shown(etl: Pipeline, run: Run) -> None:  # noqa: F811
    one, bad = etl.push(1), etl.push(13)
    etl.drain()
    assert "route        raw → odd → even\n" in run("show", one.id).out
    assert "x-route" not in run("show", one.id).out
    assert run("show", one.id, "--json").json["headers"]["x-route"][0][:2] == ["raw", 1]
    assert "\nway  " not in run("show", bad.id).out


def test_a_frame_of_the_live_view(etl: Pipeline) -> None:
    etl.push_many([1, 2, 13])
    etl.drain()
    look = Look(etl)
    look.again()
    for width in (60, 100, 160):
        screen = Console(file=io.StringIO(), width=width, height=20, force_terminal=True)
        screen.print(look.frame(width, "the store is away"))
        drawn = screen.file.getvalue()  # type: ignore[attr-defined]
        for words in ("etl", "STATION", "raw", "1 dead letters", "the store is away"):
            assert words in drawn


def test_the_picture_in_the_documentation_is_what_the_tool_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = [block.text for block in blocks(ROOT / "docs/pipelines.md") if block.file == "etl.py"]
    (tmp_path / "pictured.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    picture = (ROOT / "docs/pipelines.svg").read_text()
    assert picture == load_pipeline("pictured:etl").svg()
    assert ElementTree.fromstring(picture).tag.endswith("svg")  # noqa: S314 - our own text
    sys.modules.pop("pictured")
