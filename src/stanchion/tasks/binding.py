"""Calls are bound to the parameters of their function when they are enqueued, so that a wrong call fails there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

from stanchion.errors import InvalidInput

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_VALUE = object()
"""Stands for the value of the part before, which a call in a flow gets as its first argument."""


class CallShape:
    """The calls that a function takes. `injected`: parameters that no call gives, as each attempt fills them.

    A call whose number of arguments and names fit, as nearly all do, is accepted without `inspect`, which is slower.
    """

    def __init__(self, task: str, signature: Signature, injected: Collection[str]) -> None:
        self._task = task
        taken = [one for one in signature.parameters.values() if one.name not in injected]
        self.signature = signature.replace(parameters=taken, return_annotation=Signature.empty)
        places = [one for one in taken if one.kind in _BY_POSITION]
        names = [one for one in taken if one.kind in _BY_NAME]
        self._needed, self._known = list[frozenset[str]](), list[frozenset[str]]()
        for given in range(len(places) + 1):  # by the number of positional arguments
            done = {one.name for one in places[:given]}
            others = [one for one in taken if one.kind in (*_BY_POSITION, Parameter.KEYWORD_ONLY)]
            self._needed.append(
                frozenset(one.name for one in others if one.default is Parameter.empty and one.name not in done)
            )
            self._known.append(frozenset(one.name for one in names if one.name not in done))

    def misfit(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Return why the function does not take these arguments, or None."""
        given = len(args)
        if given < len(self._needed) and self._needed[given] <= kwargs.keys() <= self._known[given]:
            return None
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
        return None

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, skip: int = 0) -> None:
        """Raise InvalidInput for arguments that the function does not take. `skip`: how many come before them."""
        if (misfit := self.misfit((*(_VALUE,) * skip, *args) if skip else args, kwargs)) is not None:
            before = " behind the value of the part before" if skip else ""
            raise InvalidInput(f"the arguments{before} don't fit {self._task}{self.signature}: {misfit}")
