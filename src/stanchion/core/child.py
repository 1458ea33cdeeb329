"""The child of a task that forks."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn


def end_child(error: BaseException | None) -> NoReturn:
    """End this process, in which a task that has forked is over: its job, and the worker, are the parent's.

    Its exit code is that of a script: 0 if the task returned, 1 if it raised, or what SystemExit says.
    """
    code = 0
    if isinstance(error, SystemExit):
        given = error.code
        code = given if isinstance(given, int) else 0 if given is None else 1
    elif error is not None:
        code = 1
        with suppress(Exception):
            traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code & 0xFF)
