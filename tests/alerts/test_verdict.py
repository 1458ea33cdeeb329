"""Merging, order, thresholds and words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from stanchion import InvalidInput
from stanchion.alerts.records import Alert, Rule
from stanchion.alerts.thresholds import Thresholds
from stanchion.alerts.verdict import RULES
from stanchion.alerts.words import command
from tests.alerts.samples import alerts, head, queue, seen, told, worker


def test_one_cause_one_alert() -> None:
    (alert,) = alerts(seen(queue("mail", head(80, 90))))
    assert (alert.rule, alert.merged, alert.band) == ("no-worker", ("age",), "interactive")
    assert any("falls behind" in line for line in alert.evidence)
    commands = [action.command for action in alert.actions]
    assert len(commands) == len(set(commands))


def test_the_urgent_one_heads_the_others() -> None:
    late = queue("mail", head(0, 5400), head(80, 61))
    assert [(one.level, one.band) for one in alerts(seen(late, workers=(worker("mail"),)))] == [("now", "interactive")]


def test_order() -> None:
    late = (
        *(queue("eventual", head(0, 5400)), queue("user", head(40, 400)), queue("worst", head(80, 600))),
        queue("bad", head(80, 90)),
    )
    snapshot = seen(*late, workers=(worker("eventual", "user", "worst", "bad"),), seconds=2.0)
    assert [subject for _, _, subject in told(snapshot)] == ["worst", "bad", "user", "store", "eventual"]


def test_json() -> None:
    (alert,) = alerts(seen(queue("mail", head(80, 90))))
    told = alert.as_json()
    assert set(told) == {*Alert.__slots__, "percent"}
    assert (told["since"], told["percent"]) == ("2030-03-17T17:45:10+00:00", 150.0)
    assert told["actions"][0] == {
        "text": "Start a worker that takes it",
        "command": "stanchion worker MODULE:APP --queues mail",
    }


def test_each_rule_explains_itself() -> None:
    assert all(rule.__doc__ for rule in RULES)


def test_each_rule_has_a_section_in_the_runbook() -> None:
    page = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text("utf-8")
    assert set(get_args(Rule)) == set(re.findall(r"^### (\S+)$", page, re.MULTILINE))


class TestThresholds:
    def test_of_bands_queues_and_single_ones(self) -> None:
        limits = Thresholds().changed({"eventual.max_age": 5, "queue.a.b.max_run": 7, "no_worker": 9})
        assert limits.of("other", "eventual") == (5, 300, 8)
        assert limits.of("a.b", "eventual") == (5, 7, 8)
        assert limits.no_worker == 9
        assert Thresholds().of("other", "eventual") == (5400, 300, 8)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("slow.max_age", 1), ("eventual.age", 1), ("queue.max_age", 1), ("queue..max_age", 1), ("levels", 1)),
            *(
                ("no_worker", 0),
                ("no_worker", -1),
                ("no_worker", True),
                ("no_worker", "1"),
                ("no_worker", float("inf")),
            ),
        ],
    )
    def test_nonsense(self, name: str, value: float) -> None:
        with pytest.raises(InvalidInput):
            Thresholds().changed({name: value})


def test_names_are_quoted() -> None:
    assert command("resume", "a b") == "stanchion resume 'a b'"
