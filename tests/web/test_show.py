"""Words, redaction, and text of jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from stanchion.alerts.records import Rule
from stanchion.core.project import RUNBOOK
from stanchion.core.text.durations import spelled
from stanchion.core.text.redaction import Redaction
from stanchion.ops import words
from stanchion.ops.web.asgi import STATIC
from stanchion.ops.web.show import runbook
from stanchion.ops.web.show.foreign import HIDDEN, SHOWN, pretty, visible
from stanchion.ops.web.show.templating import FOLDER, query

NOW = datetime(2026, 11, 26, 3, 12, 40, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *(
            (None, "–"),
            (0.0, "0 ms"),
            (0.042, "42 ms"),
            (0.4, "0.4 s"),
            (5.04, "5.0 s"),
            (5, "5 s"),
            (9.97, "10 s"),
            (34, "34 s"),
        ),
        *((60, "1 min"), (680, "11 min 20 s"), (10_680, "2 h 58 min"), (7200, "2 h"), (273_600, "3 days 4 h")),
    ],
)
def test_durations_have_two_units_at_most(seconds: float | None, text: str) -> None:
    assert spelled(seconds) == text


def test_numbers() -> None:
    assert [words.number(value) for value in (0, 1246, 999_999, 10_234_567)] == [
        "0",
        "1,246",
        "999,999",
        "10.2 million",
    ]
    assert words.plural(1, "job") == "1 job"
    assert words.plural(2, "person", "people") == "2 people"
    assert words.listed(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (0.4, "now"),
        (-0.4, "now"),
        (-2, "2 s ago"),
        (300, "in 5 min"),
        (-3600, "02:12:40"),
        (-86_400, "yesterday 03:12"),
    ],
)
def test_times_are_near_or_by_the_clock(seconds: float, text: str) -> None:
    assert words.near(NOW + timedelta(seconds=seconds), NOW) == text


def test_other_days_are_named() -> None:
    assert words.clock(NOW + timedelta(days=3), NOW) == "29 Nov, 03:12"
    assert words.clock(NOW - timedelta(days=365), NOW) == "26 Nov 2025, 03:12"


KEYS = ("password", "DB_PASSWORD", "token", "Authorization", "authorisation", "api-key", "cardNumber", "cookie", "ssn")


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_hidden_at_any_depth(key: str) -> None:
    assert Redaction().value({"a": [{key: {"x": "s3cret"}}]}) == {"a": [{key: "•••"}]}
    assert "s3cret" not in Redaction().text(f'failed: {key}=s3cret, {{"{key}": "s3cret"}}, {key}: Bearer s3cret')


def test_other_values_stay() -> None:
    given = {"discarded": 1, "business name": "x", "cardinality": 2, "lines": [{"sku": "a", "password": None}]}
    assert Redaction().value(given) == given
    assert Redaction().text("no answer from a:5432 in 5 s") == "no answer from a:5432 in 5 s"


def test_credentials_of_an_address_are_hidden() -> None:
    assert (
        Redaction().text("no answer from postgresql://ana:hunter2@db/x") == "no answer from postgresql://ana:•••@db/x"
    )
    assert Redaction().value({"at": "redis://u:hunter2@h"}) == {"at": "redis://u:•••@h"}


@pytest.mark.nightly
def test_a_long_text_is_redacted_in_time() -> None:
    for text in ("a" * 200_000, '"' * 100_000, "password=" * 20_000, "://" + "a" * 100_000):
        Redaction().text(text)


def test_misleading_characters_are_seen() -> None:
    assert visible("a\0b\u202ec\x1b[31m\ud800\tx\n") == "a␀b‹U+202E›c␛[31m‹U+D800›\tx\n"


def test_payloads_are_text() -> None:
    text = str(pretty({"a": "</pre><script>", "b": HIDDEN}))
    assert "<script>" not in text
    assert '<span class="masked">hidden</span>' in text
    assert '<span class="masked"' not in str(pretty({"a": '<span class="masked">hidden</span>'}))
    assert "more characters" in str(pretty("x" * (SHOWN + 10)))


def test_a_deep_payload_is_no_error() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested too deeply" in str(pretty(deep))


def test_queries_leave_out_what_is_empty() -> None:
    assert query(a="x y&z", b="", c=None) == "?a=x+y%26z"
    assert query(a="") == ""


def test_templates_escape_everything() -> None:
    for file in FOLDER.glob("*.html"):
        text = file.read_text()
        assert "|safe" not in text.replace(" ", ""), file.name
        assert "autoescape" not in text, file.name
        assert "style=" not in text, file.name


def test_vendored_scripts_are_those_of_the_registry() -> None:
    import hashlib

    known = dict(line.split()[::-1] for line in (STATIC / "vendor" / "SHA256SUMS").read_text().splitlines())
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (STATIC / "vendor").glob("*.js")}
    assert found == known


class TestRunbook:
    def test_each_rule_has_a_section(self) -> None:
        assert {section.name for section in runbook.sections()} == set(get_args(Rule))

    def test_alerts_lead_to_it_or_to_an_address(self) -> None:
        assert runbook.link_of(f"{RUNBOOK}#age") == "/runbook#age"
        assert runbook.link_of("https://wiki.example/alerts#age") == "https://wiki.example/alerts#age"
        assert runbook.link_of("javascript:alert(1)#age") == ""

    def test_code_links_and_lists_are_marked_up(self) -> None:
        (age,) = (section for section in runbook.sections() if section.name == "age")
        text = str(age.parts)
        assert "<code>stanchion top</code>" in text
        assert '<a href="#run-time">jobs take longer</a>' in text
        assert len(age.parts[0][1]) == 4
