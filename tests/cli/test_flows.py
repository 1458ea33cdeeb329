import pytest

from stanchion import FlowState, Stanchion, chain, group
from stanchion.core.ids import new_id
from stanchion.flows.handle import FlowHandle
from tests.cli.conftest import Run


@pytest.fixture
def flow(app: Stanchion) -> FlowHandle:
    @app.task(name="add", queue="mail")
    def add(one: int, two: int = 0) -> int:
        return one + two

    @app.task(name="fail", queue="mail", max_attempts=1)
    def fail(*_args: int) -> None:
        raise ValueError("it broke")

    return chain(add.s(1), group(add.s(1), fail.s()), add.s()).on_failure(add.s(5)).enqueue()


def test_show_draws_a_flow(run: Run, app: Stanchion, flow: FlowHandle) -> None:
    answer = run("show", flow.id)
    assert answer.code == 0
    assert answer.out.splitlines()[0].split() == ["▶", "chain", "running", "0", "of", "3", flow.id]
    app.drain()
    lines = [line.split() for line in run("show", flow.id).out.splitlines()]
    shown = [[word for word in line if word not in "├──└──│" and not word.count("-") > 1] for line in lines]
    assert shown == [
        ["✗", "chain", "failed", "3", "of", "3"],
        ["✓", "add", "done"],
        ["✗", "group", "failed", "2", "of", "2"],
        ["✓", "add", "done"],
        ["✗", "fail", "dead"],
        ["-", "add", "cancelled"],
        ["on", "failure:", "✓", "add", "done"],
    ]


def test_show_of_a_large_flow_is_cut(run: Run, app: Stanchion) -> None:
    @app.task(name="one", queue="mail")
    def one() -> int:
        return 1

    flow = group(one.s() for _ in range(250)).enqueue()
    answer = run("show", flow.id)
    assert len(answer.out.splitlines()) == 102
    assert answer.out.splitlines()[-1].endswith("150 more")


def test_show_json(run: Run, app: Stanchion, flow: FlowHandle) -> None:
    app.drain()
    tree = run("show", flow.id, "--json").json
    assert (tree["flow"], tree["kind"], tree["state"]) == (flow.id, "chain", "failed")
    assert [member["kind"] for member in tree["members"]] == ["job", "group", "job"]
    assert tree["on_failure"]["state"] == "done"


def test_show_in_other_forms(run: Run, app: Stanchion, flow: FlowHandle) -> None:
    app.drain()
    assert flow.draw("text").splitlines() == [
        "add ─┬─► add ───► group ───► add ───► add",
        "     └─► fail ───► group ↑",
    ]
    mermaid = run("show", flow.id, "--format", "mermaid").out
    assert mermaid == flow.draw("mermaid")
    assert f'title: "Flow {flow.id}"' in mermaid
    assert '    n3["group<br/><small>failed, 2 of 2</small>"]' in mermaid.splitlines()
    assert "    n4 -.-> n5" in mermaid.splitlines()
    dot = run("show", flow.id, "--format", "dot").out
    assert dot == flow.draw("dot")
    assert dot.count("->") == 6
    assert '"part5" -> "part6" [style=dashed]' in dot
    assert run("show", flow.id, "--format", "svg").out == flow.draw() == flow.draw("svg")


def test_a_large_group_is_drawn_in_part(app: Stanchion) -> None:
    @app.task(name="one", queue="mail")
    def one() -> int:
        return 1

    drawn = group(one.s() for _ in range(250)).enqueue().draw("mermaid").splitlines()
    assert sum('["one<br/><small>ready</small>"]' in line for line in drawn) == 100
    assert '    n100["150 more"]' in drawn
    assert "    n100 --> n101" in drawn


def test_an_empty_group_is_drawn(app: Stanchion) -> None:
    assert app.event_group("none").draw("text") == "group"


def test_format_is_for_flows(run: Run, flow: FlowHandle) -> None:
    job = next(flow.members())
    answer = run("show", job.id, "--format", "dot")
    assert (answer.code, flow.id in answer.error) == (2, True)
    assert run("show", flow.id, "--format", "png").code == 2
    assert run("show", flow.id, "--format", "dot", "--json").code == 2


def test_show_of_a_job_names_its_flow(run: Run, flow: FlowHandle) -> None:
    job = next(flow.members())
    assert flow.id in run("show", job.id).out
    assert run("show", job.id, "--json").json["flow"] == flow.id


def test_cancel_of_a_flow(run: Run, app: Stanchion, flow: FlowHandle) -> None:
    assert run("cancel", flow.id).code == 0
    assert flow.state is FlowState.CANCELLED
    assert app.queue("mail").size().total == 0


def test_cancel_of_one_that_has_ended(run: Run, app: Stanchion, flow: FlowHandle) -> None:
    app.drain()
    answer = run("cancel", flow.id)
    assert answer.code == 1
    assert "failed already" in answer.err
    assert "neither live nor in history" in run("cancel", new_id()).err
