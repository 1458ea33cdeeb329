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
