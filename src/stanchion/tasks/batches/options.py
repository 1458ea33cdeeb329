"""The options of a batch task, and its function: what one call gets, and what the call of one job looks like.

@app.task(batch=500, wait=0.2)
def index(docs: list[Doc], jobs: list[Reservation]) -> list[int]: ...

index.enqueue(doc)    one job: its call takes a Doc, and its result is an int
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, NoReturn, Union, get_args, get_origin

from stanchion.context.work import Batching
from stanchion.core.checks import brief, seconds_of, whole
from stanchion.errors import InvalidInput
from stanchion.jobs.outcome import Outcome

SIZE_MAX: Final = 2000
"""Maximum jobs of a batch: a worker's row lists the jobs that run, and heartbeats carry it."""

_LISTS = (list, Sequence, Collection, Iterable)
_UNKNOWN = (Any, object, Parameter.empty, NoneType, None)
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class OneCall(NamedTuple):
    """How a function gets many jobs, and the signature and the annotations of the call of one."""

    batching: Batching
    signature: Signature
    hints: dict[str, object]


class BatchOptions(NamedTuple):
    """The options of `@app.task` that make it a batch task: see `Batching`."""

    size: int
    wait: float

    def of(self, task: str, signature: Signature, hints: Mapping[str, object]) -> OneCall:
        """Return what the function's signature and annotations say. Raises InvalidInput if it takes no batch."""
        jobs = _jobs_parameter(task, signature, hints)
        others = [one for one in signature.parameters.values() if one.name != jobs]
        if not others or others[0].kind not in _BY_POSITION:
            _refuse(task, "its function must take the items of the jobs first, as in def index(docs: list[Doc])")
        items, *more = others
        if needed := [one.name for one in more if one.default is Parameter.empty and one.kind in _NEEDED]:
            _refuse(
                task,
                f"each job has one item, but the function needs {needed[0]!r} as well: put several values in one item, "
                f"as a tuple or a dataclass",
            )
        of_one = {"return": _result_of(task, hints.get("return"))}
        if (hint := hints.get(items.name)) is not None:
            of_one[items.name] = _item_of(task, items.name, hint)
        of_one = {name: hint for name, hint in of_one.items() if hint not in _UNKNOWN}
        one = Parameter(items.name, Parameter.POSITIONAL_ONLY, annotation=of_one.get(items.name, Parameter.empty))
        return OneCall(Batching(self.size, self.wait, signature, jobs), Signature([one]), of_one)


_NEEDED = (*_BY_POSITION, Parameter.KEYWORD_ONLY)


def batch_options(batch: object, wait: object) -> BatchOptions:
    """Return the options of a batch task. Raises InvalidInput."""
    if batch is None:
        raise InvalidInput("wait is how long a batch waits for more jobs: pass batch=, the most jobs of one, too")
    return BatchOptions(whole(batch, "batch", 2, SIZE_MAX), seconds_of(wait, "wait"))


def _jobs_parameter(task: str, signature: Signature, hints: Mapping[str, object]) -> str | None:
    """Return the parameter that is annotated as the list of the jobs."""
    from stanchion.flows.flow_failure import FlowFailure
    from stanchion.jobs.job import Job

    found = None
    for name in signature.parameters:
        hint = hints.get(name)
        if any(_is_kind_of(kind, (Job, FlowFailure)) for kind in _kinds(hint)):
            _refuse(task, f"annotate {name!r} as list[Job] or list[Reservation], as a call has several jobs")
        if _is_list(hint) and any(_is_kind_of(one, (Job,)) for one in get_args(hint)):
            found = found or name
    return found


def _item_of(task: str, name: str, hint: object) -> object:
    """Return the type of an item, given the annotation of the parameter that takes their list."""
    hint = _plain(hint)
    if hint in _UNKNOWN or isinstance(hint, str) or _is_bare(hint):
        return None
    if not _is_list(hint):
        _refuse(task, f"its calls get a list of items: annotate {name!r} as list[{_called(hint)}]")
    return get_args(hint)[0]


def _result_of(task: str, hint: object) -> object:
    """Return the type of the result of one job, given the annotation of the results of a call."""
    kinds = [kind for kind in _kinds(_plain(hint)) if kind not in _UNKNOWN and not _is_kind_of(kind, (Outcome,))]
    if not kinds or isinstance(kinds[0], str) or _is_bare(kinds[0]):
        return None
    if len(kinds) > 1 or not _is_list(kinds[0]):
        _refuse(task, f"return a list with a result for each job, or None, not {_called(hint)}")
    results = [kind for kind in _kinds(get_args(kinds[0])[0]) if not _is_kind_of(kind, (BaseException,))]
    return Union[tuple(results)] if results else None  # noqa: UP007 - made of a tuple


def _plain(hint: object) -> object:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _kinds(hint: object) -> Iterator[object]:
    yield from get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_list(hint: object) -> bool:
    return get_origin(hint) in _LISTS


def _is_bare(hint: object) -> bool:
    """Return whether an annotation is a list of anything."""
    return hint in _LISTS or (_is_list(hint) and not get_args(hint))


def _is_kind_of(hint: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(hint, type) and issubclass(hint, kinds)


def _called(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _refuse(task: str, why: str) -> NoReturn:
    raise InvalidInput(f"task {brief(task)} can't take batches: {why}")
