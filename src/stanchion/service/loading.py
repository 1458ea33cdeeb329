"""Loading apps and pipelines by the names given on a command line."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence

from stanchion.app import Stanchion, app_of
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.pipelines import Pipeline

_CALL = re.compile(r"([\w.]+)\(\)")

_made: dict[str, object] = {}
"""What factories have made, by the path: a process has one app, whoever asks for it."""


def load(path: str, imports: Sequence[str] = ()) -> Stanchion:
    """Import `module:attribute` and return that app, or the app of that pipeline. Raises InvalidInput.

    `module:factory()` is the app that a function without arguments returns, called once in this process. Then the
    modules that the app includes are imported, and those named by `imports`.
    """
    found = _attribute(path)
    if isinstance(found, Pipeline):
        found = app_of(context_of(found))
    if not isinstance(found, Stanchion):
        raise InvalidInput(f"{path!r} is not a Stanchion app; {_advice(path, found)}")
    found.include(*imports)
    context_of(found).registry.includes.load()
    return found


def load_pipeline(path: str) -> Pipeline:
    """Import `module:attribute` and return that pipeline, or the only one of that app. Raises InvalidInput."""
    found = _attribute(path)
    if isinstance(found, Stanchion) and len(found.pipelines) == 1:
        return next(iter(found.pipelines.values()))
    if not isinstance(found, Pipeline):
        raise InvalidInput(f"{path!r} is not a pipeline; name it as module:attribute, such as etl:etl")
    return found


def _advice(path: str, found: object) -> str:
    if callable(found) and not isinstance(found, type):
        return f"it is a function: if it makes the app, name it as '{path}()'"
    return "name it as module:attribute, such as shop.jobs:app, or by the function that makes it, 'shop:create_app()'"


def _attribute(path: str) -> object:
    module_name, _, attribute = path.partition(":")
    call = _CALL.fullmatch(attribute)
    if call is not None and path in _made:
        return _made[path]
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"can't import {module_name!r} ({error}); run this in the folder that holds it") from error
    found: object = module
    for name in (attribute or "app").removesuffix("()").split("."):
        found = getattr(found, name, None)
    if call is None:
        return found
    if not callable(found):
        raise InvalidInput(f"{module_name!r} has no function {call[1]!r} that could make an app; correct {path!r}")
    _made[path] = found()
    return _made[path]
