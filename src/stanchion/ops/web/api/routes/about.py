"""The API about itself: its document, and the kinds of problems."""

from __future__ import annotations

from stanchion.ops.web.api.entry import base_of
from stanchion.ops.web.api.operation import Answer, Call, Operation
from stanchion.ops.web.api.paging import named_page
from stanchion.ops.web.api.problems import KINDS, Problem, described
from stanchion.ops.web.api.schemas.filters import PAGING


def listed(call: Call) -> Answer:
    """Answer with the kinds of problems."""
    base = base_of(call.visit.request)
    return named_page(call, "problems", [*KINDS.values()], lambda kind: kind.code, lambda kind: described(kind, base))


def shown(call: Call) -> Answer:
    """Answer with a kind of problem, the target of each problem's `type`."""
    kind = KINDS.get(call.path("code"))
    if kind is None:
        raise Problem("not-found", "there is no such kind of problem")
    return Answer(described(kind, base_of(call.visit.request)))


OPERATIONS = [
    Operation("GET", "/problems", "listProblems", "about", "List the kinds of problems.", "ProblemPage", listed,
              query=PAGING, problems=("foreign-cursor",), open=True),
    Operation("GET", "/problems/{code}", "getProblem", "about", "Describe a kind of problem.", "ProblemKind",
              shown, open=True),
]  # fmt: skip
