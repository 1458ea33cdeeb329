"""Errors in Spark's Python processes, as its users are to read them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from stanchion.errors import StanchionError

P = ParamSpec("P")
R = TypeVar("R")


def said_plainly(function: Callable[P, R]) -> Callable[P, R]:
    """Let Spark show of this package's own errors only the text, which says all, and not where they came from."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except StanchionError:
            hide_traceback()
            raise

    return call


def hide_traceback() -> None:
    """Have Spark show no traceback of the error that is about to end this process, if it is one of Spark's."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name.startswith("pyspark."):
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
