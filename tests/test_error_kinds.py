"""Kinds of errors: what differs from job to job is left out, and the cause stays."""

import pytest

from stanchion.core.text.error_kinds import KEY, LONGEST, group_in, group_of, kind_of


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("KeyError: 'dep_time'", "KeyError: 'dep_time'"),
        ("KeyError: 'k17'", "KeyError: 'k‹n›'"),
        ("ValueError: '" + "x" * 25 + "'", "ValueError: ‹text›"),
        ('ValueError: "' + "a b " * 10 + '"', "ValueError: ‹text›"),
        ("ValueError: it's gone, isn't it", "ValueError: it's gone, isn't it"),
        ("TimeoutError: no answer in 2.5 s", "TimeoutError: no answer in ‹n› s"),
        ("E: job 01a1fc69-dac4-74f4-a99e-8e16cdc39180", "E: job ‹id›"),
        ("E: object at 0x7f2953592c00", "E: object at ‹hex›"),
        ("E: digest deadbeef0123", "E: digest ‹hex›"),
        ("E: deadbeef", "E: deadbeef"),
        ("E: ada@example.org bounced", "E: ‹mail› bounced"),
        ("E: GET https://api.example.org/v1/jobs?id=7 failed", "E: GET ‹url› failed"),
        ("E: can't reach 10.0.0.7:5432", "E: can't reach ‹host›"),
        ("E: can't reach db1.internal.example:5432", "E: can't reach ‹host›"),
        ("E: no file /var/tmp/a b", "E: no file ‹path› b"),
        ("E: since 2026-11-26T05:40:12.123Z", "E: since ‹time›"),
        ("E: first line\nsecond line 7", "E: first line"),
        ("E: first line\r\nsecond line 7", "E: first line"),
        ("E: digest DEADBEEF0123", "E: digest ‹hex›"),
        ("E: order 12345678 of 1,246,000, off by -5", "E: order ‹n› of ‹n›, off by ‹n›"),
        ("E: 3-5 tries, step job-17", "E: ‹n›-‹n› tries, step job-‹n›"),
        ("E: no answer from psp-a.example in 5 s", "E: no answer from ‹host› in ‹n› s"),
        ("java.io.IOException: no com.example.Order", "java.io.IOException: no com.example.Order"),
        ("E: see (https://example.org/a?b=c), then", "E: see (‹url›), then"),
        (r"E: no file C:\\Temp\\orders.csv", "E: no file ‹path›"),
        ("E: naïve façade 42", "E: naïve façade ‹n›"),
        ("", ""),
    ],
)
def test_kind(error: str, kind: str) -> None:
    assert kind_of(error) == kind


def test_it_is_bounded() -> None:
    assert len(kind_of("E" * 10_000)) == LONGEST
    for text in ("'" * 100_000, "a." * 100_000, "/a" * 100_000, "0" * 100_000, "a-" * 100_000, "a@a." * 1000):
        assert len(kind_of(text)) <= 2 * LONGEST


def test_a_group_is_of_a_kind_and_a_task() -> None:
    one = group_of("ValueError: no stock for 7", "ship")
    assert one == group_of("ValueError: no stock for 8", "ship")
    assert one != group_of("ValueError: no stock for 7", "pack")
    assert one != group_of("KeyError: no stock for 7", "ship")
    assert KEY.fullmatch(one)


def test_a_fingerprint_takes_the_place_of_the_error() -> None:
    one = group_of("ValueError: no stock", "ship", "stock")
    assert one == group_of("KeyError: 'shelf'", "ship", "stock") != group_of("ValueError: no stock", "ship")
    assert one != group_of("KeyError: 'shelf'", "pack", "stock")
    assert one != group_of("stock", "ship")


def test_an_entry_of_an_earlier_release_has_a_group() -> None:
    entry = {"attempt": 1, "at": 1.0, "error": "ValueError: no stock for 7"}
    assert group_in(entry, "ship") == group_of("ValueError: no stock for 8", "ship")
    assert group_in({**entry, "group": "00000001"}, "ship") == "00000001"
