"""Loading apps and pipelines by the names given on a command line."""

from __future__ import annotations

import importlib
from typing import Any

from stanchion.app import Stanchion
from stanchion.errors import InvalidInput
from stanchion.pipelines import Pipeline


def load(path: str) -> Stanchion:
    """Import `module:attribute` and return that app, or the app of that pipeline. Raises InvalidInput."""
    found = _attribute(path)
    if isinstance(found, Pipeline):
        return Stanchion.of(found.context)
    if not isinstance(found, Stanchion):
        raise InvalidInput(f"{path!r} is not a Stanchion app; name it as module:attribute, such as shop.jobs:app")
    return found


def load_pipeline(path: str) -> Pipeline:
    """Import `module:attribute` and return that pipeline, or the only one of that app. Raises InvalidInput."""
    found = _attribute(path)
    if isinstance(found, Stanchion) and len(found.pipelines) == 1:
        return next(iter(found.pipelines.values()))
    if not isinstance(found, Pipeline):
        raise InvalidInput(f"{path!r} is not a pipeline; name it as module:attribute, such as etl:etl")
    return found


def _attribute(path: str) -> Any:
    module_name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"can't import {module_name!r} ({error}); run this in the folder that holds it") from error
    return getattr(module, attribute or "app", None)
