"""Leaves cases of the suite to the night, by `tests.conformance.tiers`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Any

import pytest

from tests.conformance.tiers import (
    NIGHTS,
    is_left_to_the_night,
    is_named,
    is_of_another_night,
    is_one_of_many,
    night,
    of_the_day,
    one_in,
    one_in_a_class,
)
from tests.conformance.variants import LEFT_OUT


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[Any] | None:
    """Don't make cases that this run leaves out: to make all takes longer than many of them."""
    if not isinstance(obj, type):
        return None
    option = collector.config.option
    by_night = "not nightly" in option.markexpr and is_left_to_the_night(collector.path.stem, name)
    return [] if by_night or not is_named(name, option.keyword) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is nightly, and leave out what is not for a store and what another night runs."""
    items[:] = [item for item in items if not _is_left_out(item)]
    of_cases: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    of_classes: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        module, case = item.path.stem, getattr(item, "cls", None)
        if item.path.parent.name != "conformance" or case is None:
            continue
        if is_left_to_the_night(module, case.__name__) or is_one_of_many(module, case.__name__, item.name):
            item.add_marker("nightly")
            continue
        function = item.nodeid.partition("[")[0]
        of_cases[function, one_in(module, case.__name__)].append(item)
        of_classes[function.rpartition("::")[0], one_in_a_class(module)].append(item)
    for (_, number), cases in chain(of_cases.items(), of_classes.items()):
        _leave_others(cases, number)
    tonight = night()
    others = {item for item in items if _is_of_another_night(item, tonight)}
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=list(others))


def pytest_report_header() -> str:
    """Name the night, so that it can be run again."""
    return f"variants of stores: night {night()} of {NIGHTS}, from 0 (STANCHION_NIGHT)"


def _is_of_another_night(item: pytest.Item, tonight: int) -> bool:
    """Tell whether a nightly case of the suite runs in another night."""
    if item.path.parent.name != "conformance" or item.get_closest_marker("nightly") is None:
        return False
    return is_of_another_night(item.path.stem, item.nodeid.partition("::")[2], tonight)


def _leave_others(cases: Iterable[pytest.Item], one_in: int) -> None:
    """Leave all but one in so many cases to the night."""
    daily = of_the_day([case.nodeid for case in cases], one_in)
    for case in cases:
        if case.nodeid not in daily:
            case.add_marker("nightly")


def _is_left_out(item: pytest.Item) -> bool:
    """Tell whether a case is not for the store of its module."""
    return any(part in item.nodeid for part in LEFT_OUT.get(item.path.stem, ()))
