"""What is refused before the first item, and what the refusal says."""

import pytest

from stanchion import JobHandle, Pipeline, Retry, Send, Stanchion, Worker
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.pipelines.pipeline import plan_of


@pytest.fixture
def etl() -> Pipeline:
    return Stanchion("memory://").pipeline("etl")


def same(item):
    return item


def refusal(etl: Pipeline) -> str:
    """What every first use says, before anything is stored."""
    told = set()
    for use in (
        plan_of(etl).check,
        etl.graph,
        etl.svg,
        etl.drain,
        lambda: etl.push(1),
        lambda: etl.run(until_empty=True),
    ):
        with pytest.raises(InvalidInput) as error:
            use()
        told.add(str(error.value))
    assert app_of(context_of(etl)).find() == []
    assert len(told) == 1
    return told.pop()


def test_a_pipeline_without_stations(etl):
    assert "has no stations" in refusal(etl)


def test_an_unknown_target(etl):
    etl.station("raw", to="claen")(same)
    etl.station("clean")(same)
    assert refusal(etl) == (
        "station 'raw' of pipeline 'etl' sends items to 'claen', which is no station (known: raw, clean); "
        "declare it, or correct to="
    )


def test_a_station_without_input(etl):
    etl.station("raw", to="end")(same)
    etl.station("end")(same)
    etl.station("lost", to="end")(same)
    told = refusal(etl)
    assert "nothing leads to station 'lost'" in told
    assert "entry=True" in told
    etl.push(1, "lost")
    assert etl.drain() == 2


def test_an_entry_needs_no_input(etl):
    etl.station("raw", to="end")(same)
    etl.station("end")(same)
    etl.station("other", to="end", entry=True)(same)
    plan_of(etl).check()
    assert plan_of(etl).entries == ["raw", "other"]


def test_stations_that_nothing_reaches(etl):
    etl.station("raw", to="end")(same)
    etl.station("end")(same)
    etl.station("ping", to="pong")(same)
    etl.station("pong", to=["ping", "end"])(same)
    told = refusal(etl)
    assert "'ping'" in told
    assert "can't be reached" in told


def test_a_loop_without_an_end(etl):
    etl.station("raw", to="ping")(same)
    etl.station("ping", to="pong")(same)
    etl.station("pong", to="ping")(same)
    assert "can never finish" in refusal(etl)
    etl.station("pong", to=["ping", "end"])(same)
    etl.station("end")(same)
    plan_of(etl).check()
    assert [name for name, station in plan_of(etl).stations.items() if station.loops] == ["ping", "pong"]


def test_a_loop_is_known_without_a_check(etl):
    etl.station("raw", to="raw", max_rounds=1)(lambda _item: Send("raw"))
    assert plan_of(etl).stations["raw"].loops
    etl.station("end", to="gone")(same)
    assert not plan_of(etl).stations["end"].loops


def test_a_station_of_which_a_worker_runs_the_queue_is_checked_too(etl):
    etl.station("raw", to="gone")(same)
    app_of(context_of(etl)).task(name="t")(same)
    with pytest.raises(InvalidInput, match="no station"):
        Worker(etl).start()
    worker = Worker(etl, ["default"])
    worker.start()
    worker.stop()


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"name": "dead"}, "dead letters"),
        ({"name": "a.b"}, "dots"),
        ({"payload": "mix"}, "replace, merge"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"retry": 3}, "Retry policy"),
        ({"limits": "smtp"}, "list of names"),
        ({"timeout": -1}, "timeout"),
        ({"lanse": 3}, "unknown queue setting"),
        ({"max_rate": 0}, "max_rate"),
    ],
)
def test_a_bad_declaration(etl, declared, told):
    with pytest.raises(InvalidInput, match=told):
        etl.station(declared.pop("name", "raw"), **declared)(same)
    assert plan_of(etl).stations == {}


def test_a_function_that_takes_no_item(etl):
    with pytest.raises(InvalidInput, match="must take an item"):
        etl.station("raw")(lambda: 1)
    with pytest.raises(InvalidInput, match="must take an item"):
        etl.station("raw")(lambda item, more: 1)  # noqa: ARG005


def test_two_functions_for_one_station(etl):
    etl.station("raw")(same)
    with pytest.raises(InvalidInput, match="two functions"):
        etl.station("raw")(lambda item: item)
    etl.station("raw", retry=Retry(3))(same)
    assert plan_of(etl).stations["raw"].retry.max_attempts == 3


def test_unknown_stations_are_named(etl):
    etl.station("raw")(same)
    for use in (etl.queue, etl.pause, lambda name: etl.push(1, name)):
        with pytest.raises(InvalidInput, match=r"no station 'rwa' \(known: raw\)"):
            use("rwa")


def test_a_bad_send_is_refused_where_it_is_made():
    for send in (lambda: Send(""), lambda: Send(7), lambda: Send("raw", delay=-1)):  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            send()


def test_an_unknown_semaphore_is_refused(etl):
    etl.station("raw", limits=["smtp"])(same)
    with pytest.raises(InvalidInput, match="no semaphore 'smtp'"):
        etl.push(1)


def test_a_station_for_spark_says_so(etl):
    etl.station("raw", to="daily")(same)
    etl.spark_station("daily", schema="n int")(same)
    for use in (
        etl.drain,
        lambda: etl.run(until_empty=True),
        lambda: Worker(etl, etl.queues).start(),
    ):
        with pytest.raises(InvalidInput, match="--engine spark"):
            use()
    assert context_of(etl).registry.own_queues() == ["etl.raw"]
    etl.push(1)
    assert app_of(context_of(etl)).drain() == 1
    assert etl.queue("daily").size().ready == 1


def test_and_runs_on_workers_with_a_twin(etl):
    etl.station("raw", to="daily")(same)
    etl.spark_station("daily", schema="n int", worker=lambda item: item + 1)(same)
    job = etl.push(1)
    etl.drain()
    assert JobHandle(etl, job.id).job().result == 2
