"""What a task hides: on pages, in the API, in the shell, and in the errors that are stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.context.declarations.hiding import KIND
from stanchion.core.text.hiding import Hidden, place_of
from stanchion.errors import InvalidInput
from stanchion.ops.cli import cli
from tests.web.conftest import Browser, site_of

CARD, NOTE = "4111-1111-2222", "the-note"
PLACES = ("card.number", "items.pin", ("meta", "a.b"), "*.deep", "answer")


def places(*given: Any) -> Hidden:
    return Hidden(tuple(map(place_of, given)), ("card", "items"))


@pytest.mark.parametrize(
    ("given", "value", "shown"),
    [
        (("card.number",), {"card": {"number": 1, "kind": 2}}, {"card": {"number": "x", "kind": 2}}),
        (("card",), {"card": {"number": 1}}, {"card": "x"}),
        (("cards.number",), {"cards": [{"number": 1}, {"number": 2}]}, {"cards": [{"number": "x"}, {"number": "x"}]}),
        (("a.b",), {"a": [[{"b": 1}], 2]}, {"a": [[{"b": "x"}], 2]}),
        ((("a.b", "c"),), {"a.b": {"c": 1}, "a": {"b": {"c": 1}}}, {"a.b": {"c": "x"}, "a": {"b": {"c": 1}}}),
        (("*.pin",), {"a": {"pin": 1}, "b": {"pin": 2, "c": 3}}, {"a": {"pin": "x"}, "b": {"pin": "x", "c": 3}}),
        (("a.*",), {"a": [1, 2], "b": 3}, {"a": ["x", "x"], "b": 3}),
        (("a.b",), {"a": None, "c": {"a": {"b": 1}}}, {"a": None, "c": {"a": {"b": 1}}}),
        (("a.b",), [{"a": {"b": None}}], [{"a": {"b": None}}]),
        ((), {"a": 1}, {"a": 1}),
    ],
)
def test_places(given: Any, value: Any, shown: Any) -> None:
    assert places(*given).in_value(value, "x") == shown


def test_arguments_are_found_by_position_and_by_name() -> None:
    hidden = places("card.number", "items", "*.cvv")
    payload = {"args": [{"number": 1, "cvv": 2}, [3], {"number": 4, "cvv": 5}], "kwargs": {"card": {"number": 6}}}
    assert hidden.in_call(payload, "x") == {
        "args": [{"number": "x", "cvv": "x"}, "x", {"number": 4, "cvv": "x"}],
        "kwargs": {"card": {"number": "x"}},
    }


def test_what_is_nested_too_deeply_is_not_shown() -> None:
    value: Any = {"pin": 1}
    for _ in range(5000):
        value = [value]
    assert "pin" not in repr(places("pin").in_value(value, "x"))[:10_000]


@pytest.mark.parametrize("value", [CARD, 'a "quoted" one', "ends\nhere", "it's", 41112222, "zürich"])
def test_values_are_masked_in_texts_in_each_form(value: Any) -> None:
    mask = places("card").masking({"args": [value]})
    text = f"{value} {value!r} {json.dumps(value)} other"
    assert mask(text).replace("•••", "").replace("'", "").replace('"', "").split() == ["other"]


@pytest.mark.parametrize("wrong", ["", "a..b", (), ("a", ""), 7, ("a", 1)])
def test_wrong_places_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="such as 'card"):
        place_of(wrong)


def test_one_text_is_not_several_places() -> None:
    app = Stanchion("memory://")
    with pytest.raises(InvalidInput, match="several"):
        app.task(hide="card")(print)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def ids(url: str) -> Iterator[dict[str, str]]:
    """The ids of jobs of tasks that hide, whose code others have not."""
    app = Stanchion(url)

    @app.task(name="pay", queue="pay", max_attempts=1, hide=PLACES)
    def pay(card: dict[str, str], **_: Any) -> None:
        raise ValueError(f"declined: {card['number']}")

    @app.task(name="ask", queue="pay", hide=PLACES)
    def ask() -> dict[str, str]:
        return {"answer": NOTE, "other": "shown"}

    made = {"pay": pay.enqueue({"number": CARD, "kind": "visa"}, meta={"a.b": NOTE}).id, "ask": ask.enqueue().id}
    app.drain(["pay"])
    yield made
    app.close()


def noted(card: dict[str, str]) -> None:
    del card


def test_it_is_stored_before_the_first_job_and_written_once(url: str) -> None:
    app = Stanchion(url)
    task = app.task(name="pay", queue="pay", hide=PLACES)(noted)
    for _ in range(3):
        task.enqueue({"number": CARD})
    (value,) = app.store.values(KIND)
    assert (value.name, value.version) == ("pay", 1)
    other = Stanchion(url)
    other.task(name="pay", queue="pay", hide=())(noted).enqueue({})
    assert context_of(other).hidden.of(app.store, ["pay"]) == {}
    assert context_of(Stanchion(url)).hidden.of(app.store, ["pay", None, "unknown"]) == {}
    app.close()


def test_the_stored_error_has_no_hidden_value(url: str, ids: dict[str, str]) -> None:
    row = Stanchion(url).store.fetch([ids["pay"]])[ids["pay"]]
    assert CARD not in str(row.errors)
    assert json.loads(row.errors or "")[0]["error"] == "ValueError: declined: •••"


def test_a_page_without_the_code_hides_it_and_an_operator_may_look(url: str, ids: dict[str, str]) -> None:
    site = site_of(Stanchion(url))
    browser = Browser(site)
    text = browser.get(f"/jobs/{ids['pay']}").text
    assert "visa" in text
    assert text.count('<span class="masked">hidden</span>') == 2
    assert CARD not in text
    assert NOTE not in text
    assert NOTE not in browser.get(f"/jobs/{ids['ask']}").text
    assert CARD in browser.submit(f"/jobs/{ids['pay']}/reveal").text
    assert CARD not in browser.get("/jobs?state=dead").text
    site.close()


def test_the_api_hides_it(url: str, ids: dict[str, str]) -> None:
    site = site_of(Stanchion(url))
    browser = Browser(site)
    found = browser.get(f"/api/v1/jobs/{ids['pay']}").json()
    assert found["payload"]["args"] == [{"number": "•••", "kind": "visa"}]
    assert CARD not in json.dumps(found)
    assert browser.get(f"/api/v1/jobs/{ids['ask']}").json()["result"] == {"answer": "•••", "other": "shown"}
    assert browser.post(f"/api/v1/jobs/{ids['pay']}/reveal").json()["payload"]["args"][0]["number"] == CARD
    site.close()


@pytest.mark.parametrize("args", [["show", "{pay}"], ["show", "{pay}", "--json"], ["jobs", "--json"], ["jobs"]])
def test_the_shell_hides_it(url: str, ids: dict[str, str], args: list[str]) -> None:
    given = [one.format(**ids) for one in args]
    said = CliRunner().invoke(cli, [given[0], "--url", url, *given[1:]])
    assert said.exit_code == 0, said.output
    assert CARD not in said.output
    assert NOTE not in said.output
    if given[0] == "show":
        assert CARD in CliRunner().invoke(cli, ["show", "--url", url, ids["pay"], "--reveal"]).output


def test_what_another_process_declares_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that began last is right, also if another one writes between its look and its write."""
    with closing(Stanchion("memory://")) as app:

        @app.task(name="refund", queue="payments", hide=("iban",))
        def refund(iban: str) -> None:
            raise ValueError(iban)

        store = context_of(app).fresh_store
        write, others = store.compare_and_set, iter(['[[["other"]],[]]'])

        def late(kind: str, name: str, text: str | None, version: int) -> bool:
            for other in others:
                assert write(kind, name, other, version)
            return write(kind, name, text, version)

        monkeypatch.setattr(store, "compare_and_set", late)
        context_of(app).hidden.store(store)
        assert [value.text for value in store.values("hidden")] == ['[[["iban"]],["iban"]]']
