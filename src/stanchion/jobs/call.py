"""The arguments of a call, as stored in a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stanchion.core.values.codec import Codec
from stanchion.errors import InvalidInput

COLLECT = "stanchion.collect"
"""The built-in task that returns its argument. In a flow it collects the value of a part without a last call."""

CHECKPOINT = "checkpoint"
"""The field for the checkpoint in the payload of a call, beside its arguments."""

Call = tuple[tuple[object, ...], Mapping[str, object]]
"""The positional and the keyword arguments of a call."""


def collected(value: object) -> object:
    """Return the argument: the function of the built-in task `COLLECT`."""
    return value


def arguments(args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
    """Return the payload of a call."""
    return {"args": args, "kwargs": kwargs} if kwargs else {"args": args}


def _kept(value: object) -> object:
    """Return a value that JSON can't hold as `kept_model` keeps it: few programs have any."""
    from stanchion.schemas.round_trips import kept_model

    return kept_model(value)


def encoded_call(codec: Codec, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    """Return the payload of a call as it is stored.

    Raises InvalidInput if JSON can't hold it, or if a model in it would not come back as it is.
    """
    return codec.encode(arguments(args, kwargs), "arguments", _kept)


def encoded_result(codec: Codec, result: object) -> str | None:
    """Return the result of a call as it is stored; None for none. Raises InvalidInput as `encoded_call` does."""
    return None if result is None else codec.encode(result, "result", _kept)


def called_with(payload: object) -> tuple[list[object], dict[str, object]]:
    """Return the arguments in a payload. Raises ValueError if it is not the payload of a call."""
    if isinstance(payload, dict):
        args, kwargs = payload.get("args"), payload.get("kwargs", {})
        if isinstance(args, list) and isinstance(kwargs, dict) and payload.keys() <= _PARTS:
            return args, kwargs
    raise ValueError("the payload does not hold the arguments of a call; push it with task.enqueue() or app.enqueue()")


_PARTS = frozenset({"args", "kwargs", CHECKPOINT})


def with_checkpoint(payload: Any, checkpoint: object) -> dict[str, object]:
    """Return the payload of a call with what its next attempt sees as its checkpoint. Raises ValueError for others."""
    called_with(payload)
    return {**payload, CHECKPOINT: checkpoint}


def without_checkpoint(payload: object) -> object:
    """Return the payload of a call as it was enqueued."""
    if isinstance(payload, dict) and CHECKPOINT in payload:
        return {name: value for name, value in payload.items() if name != CHECKPOINT}
    return payload


def checkpoint_in(payload: object) -> object:
    """Return the checkpoint in the payload of a call; None if there is none."""
    return payload.get(CHECKPOINT) if isinstance(payload, dict) else None


def call_of(call: tuple[object, ...] | Mapping[str, object]) -> Call:
    """Return the arguments of a call, given as a tuple or as a mapping of keyword arguments."""
    if isinstance(call, Mapping):
        return (), call
    if isinstance(call, tuple):
        return call, {}
    raise InvalidInput(f"a call is a tuple of arguments or a mapping of keyword arguments, not {call!r}")
