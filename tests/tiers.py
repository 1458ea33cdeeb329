"""Which tests belong to `make test`, and which to `make nightly`.

Two markers say so beside `nightly` itself:

    nightly_except(*values)   nightly, but for these values of the parameter that names a database
    one_in_each(*parameters)  of all combinations of the parameters, one for each value of the first, in rotation,
                              so that each value of the others comes up too; the rest is nightly
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

STORES = (
    *("scene", "bench", "own_bench", "scenes", "url", "killable"),
    *("sql_app", "address", "store_url", "server", "kind", "app"),
)
"""The parameters that name one: `scenes` a source and a destination."""


def assign(items: Iterable[pytest.Item]) -> None:
    """Mark as nightly what the other markers say is."""
    rotated: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        daily = item.get_closest_marker("nightly_except")
        stores = {value for name, value in _parameters(item).items() if name in STORES}
        if daily and stores and not stores & set(daily.args):
            item.add_marker("nightly")
        if item.get_closest_marker("one_in_each"):
            rotated[item.nodeid.partition("[")[0]].append(item)
    for group in rotated.values():
        _rotate(group)


def _rotate(group: list[pytest.Item]) -> None:
    """Leave one combination for each value of the first parameter, and mark the others."""
    marker = group[0].get_closest_marker("one_in_each")
    assert marker is not None
    first, *others = marker.args
    places = {name: _places(group, name) for name in marker.args}
    for item in group:
        turn = places[first][id(_parameters(item)[first])]
        for name in others:
            turn, place = divmod(turn, len(places[name]))
            if places[name][id(_parameters(item)[name])] != place:
                item.add_marker("nightly")
                break


def _places(group: list[pytest.Item], name: str) -> dict[int, int]:
    """Number the values of a parameter, by their identity, in the order of their first use."""
    found = dict.fromkeys(id(_parameters(item)[name]) for item in group)
    return {value: place for place, value in enumerate(found)}


def _parameters(item: pytest.Item) -> dict[str, Any]:
    call = getattr(item, "callspec", None)
    return dict(call.params) if call else {}
