"""Conditions of expectations: what they mean, and what they may not use."""

import pickle
import sys
from unittest.mock import patch

import pytest

from stanchion import Stanchion
from stanchion.errors import InvalidInput, MissingExtra
from stanchion.pipelines.condition import Condition

ITEM = {
    "n": 7,
    "half": 0.5,
    "below": -7,
    "name": "Ann",
    "padded": " é ",
    "yes": True,
    "no": False,
    "nothing": None,
    "list": [1],
    "at": {"city": {"zip": "1010"}},
    "odd name": 1,
    "percent": "100%",
    "lines": "a\nb",
}


@pytest.mark.parametrize(
    "text",
    [
        *("n > 6", "n >= 7", "n < 8", "n <= 7", "n = 7", "n = 7.0", "n <> 8", "n != 8", "n == 7", "7 = n"),
        *("half < 1", "half = 0.5", "half = 5e-1", "below = -7", "n + below = 0", "n - 1 = 6", "n * 2 = 14"),
        *("n / 2 = 3.5", "n % 4 = 3", "below % 4 = -3", "below % -4 = -3", "half % 0.2 > 0.09", "-n = below"),
        *("name = 'Ann'", "name < 'Bo'", 'name = "Ann"', "name like 'A%'", "name like '_nn'", "name not like 'B%'"),
        *("percent like '100\\\\%'", "lines like 'a%b'", "length(padded) = 3", "length(trim(padded)) = 1"),
        *("upper(name) = 'ANN'", "lower(name) = 'ann'", "abs(below) = 7", "upper(trim(padded)) = 'É'"),
        *("yes", "not no", "yes = true", "yes is true", "no is false", "nothing is not true", "nothing is null"),
        *("missing is null", "n is not null", "list is not null", "at is not null", "name is not true"),
        *("n between 7 and 8", "n not between 8 and 9", "n in (1, 7)", "n not in (1, 2)", "name in ('Ann')"),
        *("n in (7, null)", "coalesce(nothing, missing, n) = 7", "at.city.zip = '1010'", "`odd name` = 1"),
        *("item.n = 7", "n = 7 and (yes or no)", "no or n = 7", "nothing = 1 or yes", "not (n = 7 and no)"),
        *("n\n  =  7", "N is null", "coalesce(no, true) is false"),
    ],
)
def test_they_are_true(text):
    assert Condition(text).of(ITEM) is True
    assert Condition(f"not ({text})").of(ITEM) is False


@pytest.mark.parametrize(
    "text",
    [
        *("missing = 1", "nothing = null", "nothing <> 1", "not nothing", "nothing and yes", "nothing or no"),
        *("name = 1", "name > 1", "yes = 1", "n = '7'", "n + name = 1", "n / 0 = 1", "n % 0 = 1", "half % 0 = 1"),
        *("list = list", "at = at", "-name = 1", "length(n) = 1", "abs(name) = 1", "lower(n) = '7'", "n like '7'"),
        *("n in (1, null)", "n not in (1, null)", "n between 8 and nothing and yes", "at.city.zip.more = 1"),
        *("name.first = 'a'", "n", "name", "at", "n and yes", "n * 1e308 * 1e308 > 0 and nothing"),
    ],
)
def test_they_are_unknown(text):
    value = Condition(text).of(ITEM)
    assert value is None or (text in ("n between 8 and nothing and yes",) and value is False)


@pytest.mark.parametrize("item", [5, "five", [1], True, None])
def test_an_item_may_be_anything(item):
    assert Condition("miles > 0").of(item) is None
    assert Condition("item is null").of(item) is (item is None)
    assert Condition("item = 5").of(item) is (True if item == 5 and item is not True else None)


def test_a_field_named_item_goes_before_the_item():
    assert Condition("item = 3").of({"item": 3}) is True
    assert Condition("item.n = 3").of({"n": 3}) is True


@pytest.mark.parametrize("text", ["", "  ", "a >", "a = 1; b = 2", "a = ", "(a", "'a"])
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(InvalidInput, match=r"can't be read|must be one expression"):
        Condition(text)


@pytest.mark.parametrize(
    "text",
    [
        *("select 1", "exists (select 1)", "a in (select 1)", "f(a)", "cast(a as int) > 1", "a rlike 'b'", "a like b"),
        *("case when a then b end", "a['b'] = 1", "a[0] = 1", "a ilike 'b'", "a like 'x' escape '!'", "a is b"),
        *("a = any(1)", "a div 2 = 1", "a & 1 = 1", "*", "a = :x", "a = ?", "current_date > a", "a.* = 1"),
        *("interval '1' day > a", "date '2020-01-01' > a", "length(a, 2) = 1", "(a, b) = (1, 2)", "a || b = 'x'"),
        *("trim(both 'x' from a) = 's'", "substr(a, 1) = 'b'", "a <=> b", "count(*) > 1", "rand() > 0"),
    ],
)
def test_what_is_beyond_them_is_refused(text):
    with pytest.raises(InvalidInput, match="may not use"):
        Condition(text)


def test_they_travel_and_are_compared_by_their_text():
    one = Condition(" miles > 0\n  and name = 'a  b' ")
    copy = pickle.loads(pickle.dumps(one))  # noqa: S301
    assert (copy, copy.text) == (one, "miles > 0 and name = 'a  b'")
    assert {one, copy} == {one} != {Condition("miles > 0")}
    assert copy.of({"miles": 1, "name": "a  b"}) is True


def test_a_message_tells_each_value_once():
    assert Condition("a > 0 or b.c = a or item.d is null").seen({"a": True, "b": {"c": "x" * 200}}) == (
        f"a = true, b.c = '{'x' * 98}…, item.d = null"
    )


def test_a_missing_library_is_named():
    with patch.dict(sys.modules, {"sqlglot": None}), pytest.raises(MissingExtra, match=r"stanchion\[expectations\]"):
        Condition("a > 0")


def test_a_station_takes_them_from_below_only():
    etl = Stanchion("memory://").pipeline("etl")
    with pytest.raises(InvalidInput, match="on_fail must be one of bury, drop, stop"):
        etl.expect("a > 0", on_fail="skip")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="below the decorator that declares its station"):

        @etl.expect("a > 0")
        @etl.station("raw")
        def raw(item):
            return item
