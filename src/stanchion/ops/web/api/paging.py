"""Pages of lists: some items, where the next ones begin, and how many there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from stanchion.ops.web.api.operation import Answer, Call

T = TypeVar("T")

USUAL: Final = 50
"""Items of a page whose size is not given."""


def scope_of(call: Call, name: str) -> str:
    """Return the identity that a cursor is bound to: the list, the name in its path, and its filter."""
    given = {key: value for key, value in call.query.items() if key not in ("after", "limit")}
    return json.dumps([name, dict(call.visit.request.path_params), given], sort_keys=True, default=str)


def limit_of(call: Call) -> int:
    """Return the size of a page."""
    return int(call.query.get("limit", USUAL))


def page(call: Call, items: Sequence[object], after: str | None, count: int, kind: str = "exact") -> Answer:
    """Return a page as an answer. `after`: the cursor of the next one."""
    return Answer({"items": list(items), "next": after, "count": {"value": count, "kind": kind}, "as_of": call.as_of})


def named_page(
    call: Call, name: str, items: Sequence[T], key: Callable[[T], str], shown: Callable[[T], object]
) -> Answer:
    """Return a page of a list that was read whole, in the order of `key`, which differs for each item."""
    scope, limit = scope_of(call, name), limit_of(call)
    ordered = sorted(items, key=key)
    rest = ordered
    if after := call.query.get("after"):
        last = call.shared.cursors.read(scope, after)
        rest = [one for one in ordered if key(one) > last]
    found = rest[:limit]
    behind = call.shared.cursors.write(scope, key(found[-1])) if len(rest) > limit else None
    return page(call, [shown(one) for one in found], behind, len(ordered))
