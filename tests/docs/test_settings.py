"""Compare the table of the settings of queues with the settings there are."""

from __future__ import annotations

import re

import pytest

from stanchion.context.queues.options import QueueOptions
from stanchion.core.text.durations import spelled
from stanchion.stores.fields.jobs import Kind
from stanchion.stores.fields.queues import SETTABLE, Setting
from stanchion.stores.records.queues import QueueSettings
from tests.docs.pages import ROOT

SETTINGS = {one.name: one for one in SETTABLE}


def rows() -> list[tuple[list[str], str, str]]:
    """Return the names, the default and the meaning of each row."""
    _, _, section = (ROOT / "docs" / "queues.md").read_text().partition("\n## Settings\n")
    found = re.findall(r"^\| (`.*?) \| (.*?) \| (.*) \|$", section, re.MULTILINE)
    return [(re.findall(r"`(\w+)`", names), default.replace("`", ""), meaning) for names, default, meaning in found]


def test_each_setting_is_in_the_table_once_and_may_be_declared() -> None:
    told = [name for names, _, _ in rows() for name in names]
    assert sorted(told) == sorted([*SETTINGS, "schema"])
    assert sorted(QueueOptions.__annotations__) == sorted(told)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_default_is_that_of_the_setting(name: str) -> None:
    (default,) = (default for names, default, _ in rows() if name in names)
    together = next(SETTINGS[names[0]] for names, _, _ in rows() if name in names)
    assert default in defaults(together)


def test_each_has_a_meaning() -> None:
    assert all(meaning.strip() for _, _, meaning in rows())


def defaults(one: Setting) -> set[str]:
    """Return the words for the default of a setting."""
    value = getattr(QueueSettings(""), one.name)
    if value is None:
        return {"none", one.absent}
    if one.kind is Kind.FLAG:
        return {"yes" if value else "no"}
    return {spelled(value) if one.is_time else str(value)}
