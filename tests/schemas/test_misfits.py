"""Which values fit a type, and what is said of those that don't."""

from __future__ import annotations

import pytest

from stanchion.schemas.ddl import struct_of
from stanchion.schemas.misfits import Checker, Misfit


def misfit(kind: str, value: str) -> Misfit | None:
    """Return what is wrong with a field of this type."""
    return Checker(struct_of(f"f {kind}")).text(f'{{"f":{value}}}')


FITS = {
    "boolean": ("true", "false", "null"),
    "tinyint": ("-128", "127"),
    "smallint": ("-32768", "32767"),
    "int": ("-2147483648", "2147483647"),
    "bigint": (str(-(2**63)), str(2**63 - 1), str(2**53 + 1)),
    "float": ("1.1", "3.4e38", "16777216"),
    "double": ("1", "1.1", "-0.0", "1e308", str(2**53), str(2**60)),
    "string": ('""', '"\\ud83d\\ude00"', '"\\u0000"'),
    "date": ('"2026-01-31"', '"0001-01-01"', '"9999-12-31"'),
    "timestamp": ('"2026-01-31T08:00:00Z"', '"2026-01-31 08:00:00.123456+02:00"', '"2026-01-31T08:00+0200"'),
    "timestamp_ntz": ('"2026-01-31T08:00:00"', '"2026-01-31 08:00:00.5"'),
    "decimal(5,2)": ("1", "-999.99", "1.50", "1.5000", '"999.99"', '"-1"', "0", "0.000000", "1e2", "1.5e0"),
    "array<int>": ("[]", "[1,null]"),
    "map<string,int>": ("{}", '{"":1,"a.b":null,"__proto__":2}'),
    "struct<a:int not null,b:string>": ('{"a":1}', '{"a":1,"b":null}'),
}

MISFITS = {
    "boolean": ("1", "0", '"true"'),
    "tinyint": ("128", "-129", "1.0", "true", '"1"'),
    "smallint": ("32768", "1e1"),
    "int": ("2147483648", "-2147483649"),
    "bigint": (str(2**63), str(-(2**63) - 1), "1.0", "NaN", "9" * 5000),
    "float": ("1e39", "16777217", "true"),
    "double": ("1e999", "-1e999", "NaN", "Infinity", "-Infinity", str(2**53 + 1), "1" + "0" * 400, '"1"', "true"),
    "string": ("1", "true", "[]", '"\\ud800"', '"a\\udfff"'),
    "date": ('"2027-02-30"', '"20270131"', '"2027-1-31"', '"2027-01-31T00:00:00"', "20270131", '"2027-W05-6"'),
    "timestamp": ('"2027-01-31T08:00:00"', '"2027-01-31"', "1769846400", '"2027-01-31T25:00:00Z"', '"now"'),
    "timestamp_ntz": ('"2027-01-31T08:00:00Z"', '"2027-01-31T08:00:00+01:00"', '"2027-13-31T08:00:00"'),
    "decimal(5,2)": (
        "1000",
        "1.505",
        '"1.505"',
        '"1e2"',
        '"x"',
        '""',
        "true",
        "NaN",
        "1e999999999",
        "1e-99999999999999999999",
    ),
    "array<int>": ("{}", "[1.5]", '"[1]"'),
    "map<string,int>": ("[]", '{"a":"1"}', '{"\\ud800":1}'),
    "struct<a:int not null,b:string>": ("{}", '{"a":null}', '{"a":1,"c":2}', "[]", '{"a":{}}'),
}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in FITS.items() for value in values])
def test_it_fits(kind: str, value: str) -> None:
    assert misfit(kind, value) is None
    assert misfit(f"array<{kind}>", f"[{value},null]") is None
    assert misfit(f"struct<x:decimal(3,1),f:{kind}>", f'{{"f":{value}}}') is None  # numbers are decoded exactly


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in MISFITS.items() for value in values])
def test_it_does_not_fit(kind: str, value: str) -> None:
    for found in (misfit(kind, value), misfit(f"struct<x:decimal(3,1),f:{kind}>", f'{{"f":{value}}}')):
        assert found is not None
        assert found.reason
        assert len(str(found)) < 300
        assert "2027" not in str(found), "it shows the value"


@pytest.mark.parametrize(
    "times", [("timestamp", '"0001-01-01T00:00:00+14:00"'), ("timestamp", '"9999-12-31T23:59:59-14:00"')]
)
def test_times_beyond_the_calendar(times: tuple[str, str]) -> None:
    assert misfit(*times) is not None


@pytest.mark.parametrize(
    ("payload", "path", "reason"),
    [
        ('{"lines":[{"n":1},{"n":"2"}]}', "lines[1].n", "is a string, not int"),
        ('{"lines":[null,{}]}', "lines[1].n", "is missing"),
        ('{"lines":[{"n":null}]}', "lines[0].n", "is null"),
        ('{"tags":{"a.b":{"`":true}}}', "tags[`a.b`].````", "is a boolean, not bigint"),
        ('{"other":1}', "other", "is not in the schema"),
        ("[]", "", "is an array, not an object"),
        ("null", "", "is null, not an object"),
        ("{", "", "is not JSON, is nested too deep, or has a number of too many digits"),
        ("[" * 100_000, "", "is not JSON, is nested too deep, or has a number of too many digits"),
        ('{"tags":NaN}', "", "contains NaN, which is no number of JSON"),
    ],
)
def test_what_is_said(payload: str, path: str, reason: str) -> None:
    checker = Checker(struct_of("lines array<struct<n:int not null>>, tags map<string,struct<````:bigint>>"))
    found = checker.text(payload)
    assert found is not None
    assert (found.path, found.reason) == (path, reason)


def test_the_last_of_two_equal_keys_counts() -> None:
    assert misfit("int", '"x","f":1') is None
    assert misfit("int", '1,"f":"x"') is not None


def test_many_digits_take_no_time() -> None:
    zeros = "0" * 900_000
    assert misfit("decimal(5,2)", f"1.{zeros}") is None
    assert misfit("decimal(5,2)", f"1.{zeros}1") is not None
