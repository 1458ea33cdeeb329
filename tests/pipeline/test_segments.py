"""Which edges of a pipeline are stored, and why; and the segments between them."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from stanchion import Pipeline, Stanchion
from stanchion.context.queues.options import StationQueueOptions
from stanchion.errors import InvalidInput
from stanchion.pipelines.pipeline import plan_of
from stanchion.pipelines.segments.edges import Edge, closing_edges, segments_of
from stanchion.stores.fields.queues import SETTABLE
from stanchion.stores.records.queues import QueueSettings

ENTRY = ("items enter here",)

GIVEN: dict[str, Any] = {
    "max_rate": 5,
    "max_running": 2,
    "lanes": 4,
    "expires": 60,
    "ordered": True,
    "ordered_by": "tenant",
    "partitions": 2,
}
"""Settings for which jobs have to be claimed."""

HARMLESS: dict[str, Any] = {
    "paused": True,  # a state, which workers look at when an item comes
    "lanes_per_tenant": 1,
    "history_ttl": 60,
    "history_ttl_done": 60,
    "history_ttl_dead": 60,
    "history_ttl_cancelled": 60,
    "history_max": 5,
    "dead_letter": None,
    "lease": 5,
    "expires_with_jobs": True,
    "jobs_expire": 60,
}
"""Settings that only concern jobs that are pushed, that end, or that are reserved without a worker."""


def same(item: object) -> object:
    return item


def reasons(etl: Pipeline) -> dict[tuple[str | None, str], tuple[str, ...]]:
    """Return the reasons of each edge."""
    return {(edge.source, edge.target): edge.reasons for edge in plan_of(etl).topology.edges}


def between(**options: Any) -> dict[tuple[str | None, str], tuple[str, ...]]:
    """Return the reasons of the edges of three stations; the middle one has options."""
    app = Stanchion("memory://")
    etl = app.pipeline("etl")
    etl.station("a", to="b")(same)
    etl.station("b", to="c", **options)(same)
    etl.station("c")(same)
    return reasons(etl)


def test_stations_without_options_are_one_segment() -> None:
    found = between(payload="replace", max_attempts=3, timeout=5, max_rounds=3)
    assert found == {(None, "a"): ENTRY, ("a", "b"): (), ("b", "c"): ()}


@pytest.mark.parametrize(
    ("options", "before", "after"),
    [
        ({"stored": True}, "b has stored=True", "b has stored=True"),
        ({"limits": ["crm", "geo"]}, "b takes crm, geo", "b takes crm, geo"),
        ({"key": "id"}, "b has key=", None),
        ({"max_rate": 5}, "b has max_rate", None),
        ({"max_running": 2}, "b has max_running", "b has max_running"),
        ({"lanes": 4}, "b has lanes", None),
        ({"expires": 60}, "b expires when unused", None),
        ({"ordered": True}, "b is ordered", "b is ordered"),
        ({"ordered_by": "tenant"}, "b is ordered by tenant", "b is ordered by tenant"),
    ],
    ids=str,
)
def test_a_station_that_items_have_to_be_claimed_for(options: Any, before: str, after: str | None) -> None:
    found = between(**options)
    assert found["a", "b"] == (before,)
    assert found["b", "c"] == (() if after is None else (after,))


def test_a_station_with_partitions(tmp_path) -> None:
    etl = Stanchion(f"sqlite:///{tmp_path}/jobs.db").pipeline("etl")
    etl.station("a", to="b")(same)
    etl.station("b", partitions=2)(same)
    assert reasons(etl)["a", "b"] == ("b has partitions",)


def test_several_reasons_are_all_told() -> None:
    assert between(stored=True, max_rate=1)["a", "b"] == ("b has stored=True", "b has max_rate")


@pytest.mark.parametrize(("name", "value"), [one for one in HARMLESS.items() if one[0] != "lanes_per_tenant"])
def test_a_setting_that_restrains_no_claim(name: str, value: object) -> None:
    assert between(**{name: value})["a", "b"] == ()


def test_each_setting_of_a_station_is_looked_at() -> None:
    assert {*GIVEN, *HARMLESS} == set(StationQueueOptions.__annotations__)
    restraining = {one.name for one in SETTABLE if one.restrains}
    assert restraining == {*GIVEN, "paused"}
    assert restraining < {one.name for one in fields(QueueSettings)}


def test_a_spark_station_is_a_segment_of_its_own() -> None:
    etl = Stanchion("memory://").pipeline("etl")
    etl.station("a", to="b")(same)
    etl.spark_station("b", schema="n int", to="c", worker=same)(same)
    etl.station("c")(same)
    assert reasons(etl) == {
        (None, "a"): ENTRY,
        ("a", "b"): ("b is a Spark station",),
        ("b", "c"): ("b is a Spark station",),
    }


def on_spark(*to: str, **options: Any) -> dict[tuple[str | None, str], tuple[str, ...]]:
    """Return why items are stored behind Spark station a, which sends them to these, and before c, if one is that."""
    etl = Stanchion("memory://").pipeline("etl")
    etl.spark_station("a", schema="n int", to=to)(same)
    etl.spark_station("b", schema="n int", **options)(same)
    etl.spark_station("c", schema="n int")(same) if "c" in to else etl.station("d")(same)
    return reasons(etl)


def test_spark_stations_that_follow_each_other_run_in_one_plan() -> None:
    assert on_spark("b", "d")["a", "b"] == ()
    assert on_spark("b", "d")["a", "d"] == ("a is a Spark station",)


def test_spark_stations_that_run_alone() -> None:
    """Behind a fork to two of them, around a stop, and where one gets a stream."""
    told = ("b is a Spark station", "a is a Spark station")
    assert on_spark("b", "c")["a", "b"] == told
    assert on_spark("b", "d", stored=True)["a", "b"] == ("b has stored=True",)
    windows: dict[str, Any] = {"watermark": ("at", "1 minute"), "checkpoint": "/data/windows"}
    etl = Stanchion("memory://").pipeline("etl")
    etl.spark_station("a", schema="at timestamp", to="b")(same)
    etl.spark_station("b", schema="at timestamp", to="d", **windows)(same)
    etl.station("d")(same)
    assert reasons(etl)["a", "b"] == told


def test_a_pipeline_that_always_stores() -> None:
    etl = Stanchion("memory://").pipeline("etl", stored="always")
    etl.station("a", to="b", stored=True)(same)
    etl.station("b")(same)
    assert reasons(etl) == {(None, "a"): ENTRY, ("a", "b"): ("the pipeline has stored='always'",)}


def test_a_fork_and_a_merge_are_in_memory() -> None:
    etl = Stanchion("memory://").pipeline("etl")
    etl.station("a", to=["b", "c"])(same)
    etl.station("b", to="d")(same)
    etl.station("c", to="d")(same)
    etl.station("d")(same)
    assert not any(why for (source, _), why in reasons(etl).items() if source)
    assert segments_of(plan_of(etl).topology.edges) == {"a": ("a", "b", "c", "d")}


def test_the_edge_that_closes_a_loop_is_stored() -> None:
    etl = Stanchion("memory://").pipeline("etl")
    etl.station("poll", to=["check", "poll"])(same)
    etl.station("check", to=["poll", "end"])(same)
    etl.station("end")(same)
    assert reasons(etl) == {
        (None, "poll"): ENTRY,
        ("poll", "check"): (),
        ("poll", "poll"): ("this closes a loop",),
        ("check", "poll"): ("this closes a loop",),
        ("check", "end"): (),
    }


@pytest.mark.parametrize(
    ("links", "closing"),
    [
        ({"a": ["b"], "b": ["c"], "c": []}, set()),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, set()),
        ({"a": ["c", "b"], "b": ["c"], "c": ["b", "d"], "d": []}, {("b", "c")}),
        ({"a": ["b"], "b": ["c"], "c": ["d", "a"], "d": ["b"]}, {("c", "a"), ("d", "b")}),
    ],
    ids=["line", "diamond", "entered twice", "nested"],
)
def test_the_edges_that_close_loops(links: dict[str, list[str]], closing: set[tuple[str, str]]) -> None:
    assert closing_edges(links, ["a"]) == closing


def test_a_long_line_of_stations_needs_no_deep_stack() -> None:
    links = {str(n): [str(n + 1)] for n in range(5000)} | {"5000": ["0"]}
    assert closing_edges(links, ["0"]) == {("5000", "0")}


def test_a_station_belongs_to_each_segment_that_leads_to_it() -> None:
    etl = Stanchion("memory://").pipeline("etl")
    etl.station("a", to="c")(same)
    etl.station("b", to="c", entry=True)(same)
    etl.station("c", to="d")(same)
    etl.station("d", stored=True, to="e")(same)
    etl.station("e")(same)
    assert segments_of(plan_of(etl).topology.edges) == {"a": ("a", "c"), "b": ("b", "c"), "d": ("d",), "e": ("e",)}


def test_the_edges_are_looked_at_again_for_a_new_station() -> None:
    etl = Stanchion("memory://").pipeline("etl")
    etl.station("a")(same)
    assert reasons(etl) == {(None, "a"): ENTRY}
    etl.station("b", entry=True)(same)
    assert reasons(etl) == {(None, "a"): ENTRY, (None, "b"): ENTRY}


def test_wrong_options_are_refused() -> None:
    app = Stanchion("memory://")
    with pytest.raises(InvalidInput, match="stored of a station must be True or False, not 'always'"):
        app.pipeline("etl").station("a", stored="always")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="stored of a pipeline must be one of needed, always, not True"):
        app.pipeline("other", stored=True)  # type: ignore[arg-type]


# -- the plan, with the settings in force


def test_the_plan_has_the_settings_that_are_in_force(tmp_path: Path) -> None:
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
    app.setup()
    etl = app.pipeline("etl")
    etl.station("a", to="b")(same)
    etl.station("b", to="c", max_rate=5)(same)
    etl.station("c")(same)
    etl.push(1)
    etl.pause("c")
    etl.queue("a").configure(max_running=1)
    plan = etl.plan()
    assert plan.edges == (
        Edge(None, "a", ENTRY),
        Edge("a", "b", ("b has max_rate", "a has max_running")),
        Edge("b", "c", ("c is paused",)),
    )
    assert plan.segments == (("a",), ("b",), ("c",))
    etl.resume("c")
    assert etl.plan().segments == (("a",), ("b", "c"))
    assert asyncio.run(etl.aplan()) == etl.plan()
    app.close()


def test_the_plan_of_a_pipeline_that_always_stores_names_nothing_else() -> None:
    etl = Stanchion("memory://").pipeline("etl", stored="always")
    etl.station("a", to="b")(same)
    etl.station("b", max_running=1)(same)
    etl.push(1)
    assert [edge.reasons for edge in etl.plan().edges] == [ENTRY, ("the pipeline has stored='always'",)]


def test_the_plan_names_stations_that_keep_arrivals(tmp_path: Path) -> None:
    etl = Stanchion(f"sqlite:///{tmp_path}/jobs.db").pipeline("etl")
    etl.station("a", to="b")(same)
    etl.station("b", to="c", keep_arrival=True)(same)
    etl.station("c")(same)
    etl.push(1)
    assert [(edge.target, edge.stored, edge.keeps_arrival) for edge in etl.plan().edges] == [
        ("a", True, False),
        ("b", False, False),
        ("c", False, True),
    ]


def test_the_plan_is_refused_like_the_first_item() -> None:
    etl = Stanchion("memory://").pipeline("etl")
    etl.station("a", to="nowhere")(same)
    with pytest.raises(InvalidInput, match="which is no station"):
        etl.plan()


def test_an_async_station_before_a_plain_one() -> None:
    async def later(item: object) -> object:
        return item

    etl = Stanchion("memory://").pipeline("etl")
    etl.station("a", to="b")(same)
    etl.station("b", to="c")(later)
    etl.station("c", to="d")(later)
    etl.station("d")(same)
    assert reasons(etl) == {
        (None, "a"): ENTRY,
        ("a", "b"): (),
        ("b", "c"): (),
        ("c", "d"): ("c is async and d is not",),
    }
