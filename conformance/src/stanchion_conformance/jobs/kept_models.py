"""Models that tasks get and return: equal to those that went, or refused with the name of the field."""

from __future__ import annotations

import asyncio
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import pytest

from stanchion import Job, JobState, Stanchion, chain, group
from stanchion.context import context_of
from stanchion.errors import ArgumentMisfit, InvalidInput, ResultMisfit
from stanchion_conformance.harness import QUEUE

WHEN = datetime(2031, 5, 1, 8, tzinfo=UTC)


class Named(ABC):  # noqa: B024 - a base that is no model
    pass


@dataclass
class Line(Named):
    article: str
    weight: float = 1.0


@dataclass
class Weighed(Line):
    pass


@dataclass
class Point:
    x: int
    y: int


@dataclass
class Sized:
    x: int
    y: int


@dataclass
class Tree:
    name: str
    kind: Literal["leaf", "node"] = "leaf"
    parts: list[Tree] = field(default_factory=list)
    either: Point | Line | None = None
    pair: tuple[int, str] = (1, "a")
    rest: Any = None


@dataclass
class Counted:
    n: int
    seen: int = field(default=0, init=False)


@dataclass
class Unmade:
    tags: set[complex]


Echo = Callable[[Any, Any], Any]


def echo_for(app: Stanchion) -> Echo:
    """Return what enqueues a call of a task with this annotation, runs it, and returns what the task got."""

    def echo(hint: Any, value: Any) -> Any:
        got: list[Any] = []

        def take(value: Any) -> None:
            got.append(value)

        take.__annotations__ = {"value": hint}
        context_of(app).registry.tasks.pop("echo", None)
        app.task(name="echo", queue=QUEUE, max_attempts=1)(take).enqueue(value)
        assert app.drain([QUEUE]) == 1
        return got[0]

    return echo


@pytest.fixture
def echo(app: Stanchion) -> Echo:
    return echo_for(app)


@pytest.fixture
def p() -> Any:
    """The models of Pydantic."""
    pytest.importorskip("pydantic")
    return pytest.importorskip("stanchion_conformance.jobs.pydantic_kinds")


def refused(echo: Echo, hint: Any, value: Any) -> tuple[str, str]:
    """Return the field that an enqueue names, and the reason."""
    with pytest.raises(ArgumentMisfit) as error:
        echo(hint, value)
    return error.value.field, error.value.reason


class TestKeptDataclasses:
    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (list[Line], [Line("a"), Weighed("b")][:1]),
            (dict[str, Line], {"k": Line("a", 2.5)}),
            (dict[str, list[Line]], {"k": [Line("a")], "l": []}),
            (tuple[Line, ...], (Line("a"),)),
            (tuple[int, Line], (1, Line("a"))),
            (Line | None, None),
            (list[Line] | None, [Line("b")]),
            (Point | Line, Line("b")),
            (Line | Point, Point(1, 2)),
            (str | Line, "b"),
            (Tree, Tree("a", "node", [Tree("b", either=Point(1, 2))], Line("c"), (2, "b"), {"any": [1, None]})),
            (Counted, Counted(3)),
        ],
    )
    def test_they_come_back(self, echo: Echo, hint: Any, value: Any) -> None:
        got = echo(hint, value)
        assert got == value
        assert type(got) is type(value)

    @pytest.mark.parametrize(
        ("hint", "value", "path"),
        [
            (Line, Weighed("a"), ""),
            (list[Line], [Line("a"), Weighed("b")], "[1]"),
            (Tree, Tree("a", parts=[Tree("b", either=Weighed("c"))]), "parts[0].either"),
            (Point | Sized, Sized(1, 2), ""),
            (Tree, Tree("a", rest=WHEN), "rest"),
            (Named, Line("a"), ""),
            ("Nowhere", Line("a"), ""),
        ],
    )
    def test_what_would_arrive_as_another_is_refused(
        self, app: Stanchion, echo: Echo, hint: Any, value: Any, path: str
    ) -> None:
        assert refused(echo, hint, value)[0] == path
        assert app.queue(QUEUE).size().total == 0

    def test_a_field_that_can_not_be_carried_is_refused_with_the_task(self, echo: Echo) -> None:
        with pytest.raises(InvalidInput, match=r"can't carry parameter 'value': Unmade\.tags"):
            echo(Unmade, Unmade(set()))

    def test_a_field_that_the_constructor_does_not_take(self, echo: Echo) -> None:
        counted = Counted(3)
        counted.seen = 2
        assert refused(echo, Counted, counted)[0] == "seen"

    def test_an_annotation_that_can_not_be_resolved_leaves_the_others(self, app: Stanchion) -> None:
        got: list[Any] = []

        def take(one: Any, other: Any, *more: Any, **named: Any) -> None:
            got.append((one, other, more, named))

        take.__annotations__ = {"one": "Nowhere", "other": Line, "more": Point, "named": Line}
        task = app.task(name="take", queue=QUEUE)(take)
        task.enqueue(1, Line("a"), Point(1, 2), Point(3, 4), key=Line("b"))
        with pytest.raises(ArgumentMisfit, match="Nowhere"):
            task.enqueue(Line("a"), Line("a"))
        with pytest.raises(ArgumentMisfit):
            task.enqueue(1, Line("a"), Line("a"))
        with pytest.raises(ArgumentMisfit):
            task.enqueue(1, Line("a"), key=Point(1, 2))
        app.drain([QUEUE])
        assert got == [(1, Line("a"), (Point(1, 2), Point(3, 4)), {"key": Line("b")})]

    def test_a_newer_release_added_a_field_of_a_union(self, app: Stanchion, other_app: Stanchion) -> None:
        got: list[Any] = []

        def take(one: Any) -> None:
            got.append(one)

        take.__annotations__ = {"one": Point | Line | Tree}
        app.task(name="take", queue=QUEUE)(take)
        other_app.enqueue("take", {"article": "a", "color": "red"}, queue=QUEUE)
        app.drain([QUEUE])
        assert got == [Line("a")]


class TestKeptModels:
    def test_what_comes_back(self, echo: Echo, p: Any) -> None:
        for hint, value in [
            (p.Login, p.Login(user="a")),
            (p.KeptLogin, p.KeptLogin(user="a", password="geheim")),
            (p.Excluded, p.Excluded(id=1)),
            (p.Private, p.Private(id=1)),
            (list[p.Login], [p.Login(user="a")]),
            (dict[str, p.Cat], {"k": p.Cat(name="m", lives=7)}),
            (p.Cat | p.Dog, p.Dog(name="r")),
            (p.Dog | p.Cat | None, p.Cat(name="r")),
            (p.Shape, p.Square(size=1)),
            (list[p.Shape], [p.Square(size=1), p.Circle(size=1)]),
            (p.Login | Line, Line("a")),
            (p.Open, p.Open(id=1, color="red")),
            (p.Numbers, p.Numbers([1, 2])),
            (p.Wide, p.Wide(any={"a": [1, None, "x"]})),
            (p.Parcel, p.Parcel(1, p.Login(user="a"), [0.5])),
            (p.Aliases, p.Aliases(**{"in": 1, "written": 2, "numbers": [3], "other": 4, "b": 5})),
            (p.Shelf, p.Shelf(aliases=[p.Aliases(**{"in": 1, "written": 2, "numbers": [3]})])),
        ]:
            got = echo(hint, value)
            assert type(got) is type(value)
            if not isinstance(value, p.Private):  # which has a lock
                assert got == value

    def test_what_is_refused(self, app: Stanchion, echo: Echo, p: Any) -> None:
        private = p.Private(id=1)
        private._seen = 3
        for hint, value, path in [
            (p.Login, p.Login(user="a", password="geheim"), "password"),
            (list[p.Login], [p.Login(user="a", password="geheim")], "password"),
            (p.Parcel, p.Parcel(1, p.Login(user="a", password="geheim")), "password"),
            (p.Excluded, p.Excluded(id=1, note="x"), "note"),
            (p.Private, private, "_seen"),
            (p.Animal, p.Cat(name="m"), ""),
            (list[p.Animal], [p.Animal(name="a"), p.Cat(name="m")], "[1]"),
            (p.Owner, p.Owner(pet=p.Cat(name="m")), "pet"),
            (p.Rounded, p.Rounded(price=1.26), "price"),
            (p.Doubled, p.Doubled(n=1), "n"),
            (p.Dropped, p.Dropped(id=1, extra=2), "extra"),
            (p.Open, p.Open(id=1, at=WHEN), "at"),
            (p.Wide, p.Wide(any=WHEN), "any"),
        ]:
            found, reason = refused(echo, hint, value)
            assert found == path, (hint, reason)
            assert "geheim" not in reason
        assert app.queue(QUEUE).size().total == 0

    def test_calls_by_name_flows_and_many(self, app: Stanchion, p: Any) -> None:
        def take(_first: int, _login: Any) -> None:
            raise AssertionError("never called")

        take.__annotations__ = {"_first": int, "_login": p.Login}
        task = app.task(name="take", queue=QUEUE)(take)
        wrong = p.Login(user="a", password="geheim")
        cat = p.Cat(name="m")
        for call in (
            lambda: app.enqueue("take", 1, wrong, queue=QUEUE),
            lambda: app.enqueue("elsewhere", wrong, queue=QUEUE),
            lambda: app.enqueue("elsewhere", [p.Excluded(id=1, note="x")], queue=QUEUE),
            lambda: task.enqueue_many([(1, p.Login(user="a")), (2, wrong)]),
            lambda: asyncio.run(task.aenqueue(1, wrong)),
            lambda: group(task.s(1, wrong)).enqueue(),
            lambda: chain(task.s(1, p.Login(user="a")), task.s(wrong)).enqueue(),
            lambda: chain(task.s(1, p.Login(user="a")), task.s(cat)).enqueue(),
            lambda: app.assert_enqueued(task, (1, wrong)),
            lambda: app.queue(QUEUE).push(wrong),
            lambda: app.queue(QUEUE).push({"logins": [wrong]}),
        ):
            with pytest.raises(InvalidInput) as error:
                call()
            assert "geheim" not in str(error.value)
        assert app.queue(QUEUE).size().total == 0
        chain(task.s(1, p.Login(user="a")), task.s(p.Login(user="b"))).enqueue()
        assert app.queue(QUEUE).size().total == 2

    def test_a_pushed_payload_is_as_its_serializers_say(self, app: Stanchion, p: Any) -> None:
        queue = app.queue(QUEUE)
        queue.push(p.Excluded(id=1, note="x"))
        queue.push(p.Rounded(price=1.26))
        queue.push(p.Login(user="***"))
        assert [job.payload for job in (queue.pop() for _ in range(3)) if job is not None] == [
            {"id": 1},
            {"price": 1.3},
            {"user": "***", "password": ""},
        ]

    def test_the_store_has_the_aliases_if_they_are_of_both_directions(self, app: Stanchion, p: Any) -> None:
        def take(one: Any) -> None:
            pass

        take.__annotations__ = {"one": p.Cat}
        handle = app.task(name="take", queue=QUEUE)(take).enqueue(p.Cat(name="m"))
        assert handle.job().payload == {"args": [{"name": "m", "lives": 9}]}
        assert [job.id for job in app.assert_enqueued("take", (p.Cat(name="m"),))] == [handle.id]


class TestKeptResults:
    @staticmethod
    def returning(app: Stanchion, hint: Any, value: Any, *, is_async: bool = False) -> Any:
        """Return a task that returns this value, annotated as given."""

        def sync() -> Any:
            return value

        async def waits() -> Any:
            return value

        function: Any = waits if is_async else sync
        function.__annotations__ = {"return": hint}
        context_of(app).registry.tasks.pop("make", None)
        return app.task(name="make", queue=QUEUE, max_attempts=1)(function)

    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (Line, Line("a")),
            (list[Line], [Line("a")]),
            (dict[str, Line | Point], {"a": Point(1, 2)}),
            (Line | None, None),
        ],
    )
    def test_they_come_back(self, app: Stanchion, hint: Any, value: Any, is_async: bool) -> None:
        handle = self.returning(app, hint, value, is_async=is_async).enqueue()
        app.drain([QUEUE])
        assert handle.result(timeout=0) == value
        assert asyncio.run(handle.aresult(timeout=5)) == value
        assert handle.job().result != value or value is None

    def test_without_an_annotation_they_are_plain(self, app: Stanchion) -> None:
        handle = self.returning(app, Any, Line("a")).enqueue()
        app.drain([QUEUE])
        assert handle.result(timeout=0) == {"article": "a", "weight": 1.0}

    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize(
        ("hint", "value", "named"),
        [(Line, Weighed("a"), "Weighed"), (Line, {"article": 1}, "article"), (Any, Tree("a", rest=WHEN), "rest")],
    )
    def test_a_result_that_would_not_come_back_is_an_error(
        self, app: Stanchion, hint: Any, value: Any, named: str, is_async: bool
    ) -> None:
        handle = self.returning(app, hint, value, is_async=is_async).enqueue()
        app.drain([QUEUE])
        assert handle.state is JobState.DEAD
        assert named in handle.job().errors[-1]["error"]

    def test_secrets(self, app: Stanchion, p: Any) -> None:
        for hint in (p.Login, Any, list[p.Login]):
            wrong = p.Login(user="a", password="geheim")
            handle = self.returning(app, hint, [wrong] if hint == list[p.Login] else wrong).enqueue()
            app.drain([QUEUE])
            assert handle.state is JobState.DEAD
            (error,) = handle.job().errors
            assert "password" in error["error"]
            assert "geheim" not in str(error)

    def test_a_result_of_another_release(self, app: Stanchion, other_app: Stanchion) -> None:
        handle = self.returning(other_app, Any, {"weight": 1}).enqueue()
        other_app.drain([QUEUE])
        self.returning(app, Line, None)
        with pytest.raises(ResultMisfit) as error:
            context_of(app).registry.given_result("make", handle.result(timeout=0))
        assert (error.value.task, error.value.model, error.value.field) == ("make", "Line", "article")

    def test_a_task_that_commits_its_result(self, app: Stanchion) -> None:
        def own(good: bool, job: Any) -> Line:
            line = Line("a") if good else Weighed("b")
            job.commit(line)
            return line

        own.__annotations__["job"] = Job
        task: Any = app.task(name="own", queue=QUEUE, max_attempts=1)(own)
        good, bad = task.enqueue(True), task.enqueue(False)
        app.drain([QUEUE])
        assert good.result(timeout=0) == Line("a")
        assert bad.state is JobState.DEAD

    def test_values_of_flows(self, app: Stanchion) -> None:
        got: list[Any] = []

        @app.task(name="line", queue=QUEUE)
        def line(article: str) -> Line:
            return Line(article)

        @app.task(name="all", queue=QUEUE)
        def every(lines: list[Line]) -> dict[str, Line]:
            got.append(lines)
            return {one.article: one for one in lines}

        members = group(line.s("a"), line.s("b"))
        flows = [members.enqueue(), chain(members, every.s()).enqueue(), chain(line.s("c")).enqueue()]
        app.drain([QUEUE])
        assert got == [[Line("a"), Line("b")]]
        values = [flow.result(timeout=0) for flow in flows]
        assert values == [[Line("a"), Line("b")], {"a": Line("a"), "b": Line("b")}, Line("c")]
        assert asyncio.run(flows[0].aresult(timeout=5)) == values[0]
