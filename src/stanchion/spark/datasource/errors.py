"""Readable errors from Spark's Python processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from stanchion.errors import StanchionError

P = ParamSpec("P")
R = TypeVar("R")


def without_traceback(function: Callable[P, R]) -> Callable[P, R]:
    """Make Spark show this package's own errors without a traceback: their text is sufficient."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except StanchionError:
            hide_traceback()
            raise

    return call


def hide_traceback() -> None:
    """Make Spark hide the traceback of the error that ends this process, if it is a process of Spark."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name.startswith("pyspark."):
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
