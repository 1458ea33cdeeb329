"""Kinds of errors: what differs from job to job is left out, and the cause stays."""

import pytest

from stanchion.core.error_kinds import LONGEST, kind_of


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("KeyError: 'dep_time'", "KeyError: 'dep_time'"),
        ("KeyError: 'k17'", "KeyError: 'k<n>'"),
        ("ValueError: '" + "x" * 25 + "'", "ValueError: <text>"),
        ('ValueError: "' + "a b " * 10 + '"', "ValueError: <text>"),
        ("ValueError: it's gone, isn't it", "ValueError: it's gone, isn't it"),
        ("TimeoutError: no answer in 2.5 s", "TimeoutError: no answer in <n> s"),
        ("E: job 01a1fc69-dac4-74f4-a99e-8e16cdc39180", "E: job <id>"),
        ("E: object at 0x7f2953592c00", "E: object at <hex>"),
        ("E: digest deadbeef0123", "E: digest <hex>"),
        ("E: deadbeef", "E: deadbeef"),
        ("E: ada@example.org bounced", "E: <mail> bounced"),
        ("E: GET https://api.example.org/v1/jobs?id=7 failed", "E: GET <url> failed"),
        ("E: can't reach 10.0.0.7:5432", "E: can't reach <host>"),
        ("E: can't reach db1.internal.example:5432", "E: can't reach <host>"),
        ("E: no file /var/tmp/a b", "E: no file <path> b"),
        ("E: since 2026-11-26T05:40:12.123Z", "E: since <time>"),
        ("E: first line\nsecond line 7", "E: first line"),
        ("E: naïve façade 42", "E: naïve façade <n>"),
        ("", ""),
    ],
)
def test_kind(error: str, kind: str) -> None:
    assert kind_of(error) == kind


def test_it_is_bounded() -> None:
    assert len(kind_of("E" * 10_000)) == LONGEST
    assert kind_of("'" * 100_000)
