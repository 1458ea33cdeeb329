"""The progress of a pipeline that runs: a line for each station, rewritten on a terminal, and logged elsewhere."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from stanchion.ops.cli.console.output import Output
from stanchion.pipelines.status import StationProgress

log = logging.getLogger("stanchion.pipeline")

LOG_SECONDS = 10.0
"""Seconds between two reports in the log."""

Watch = Callable[[Sequence[StationProgress]], None]


@contextmanager
def shown_progress(out: Output, log_level: str, log_format: str) -> Iterator[Watch]:
    """Yield what shows the progress of stations within the block, and log to stderr."""
    from stanchion.service.logs import log_to_stderr

    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of each of its sockets
    if out.remarks.is_terminal and log_format == "text":
        from rich.live import Live

        with Live(console=out.remarks, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
            log_to_stderr(log_level, stream=_Above(out.remarks))
            yield lambda found: live.update(Text("\n".join(one.line for one in found)), refresh=True)
    else:
        log_to_stderr(log_level, log_format)
        logged = _Logged()
        try:
            yield logged
        finally:
            logged.write()


class _Above(io.StringIO):
    """Writes above the lines that are rewritten, instead of into them."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def write(self, text: str) -> int:
        self._console.print(Text(text), end="")
        return len(text)


class _Logged:
    """Logs the lines of stations whose progress has changed, from time to time and at the end."""

    def __init__(self) -> None:
        self._due_at = time.monotonic() + LOG_SECONDS
        self._found: Sequence[StationProgress] = ()
        self._written: dict[str, StationProgress] = {}

    def __call__(self, found: Sequence[StationProgress]) -> None:
        self._found = found
        if time.monotonic() >= self._due_at:
            self.write()

    def write(self) -> None:
        self._due_at = time.monotonic() + LOG_SECONDS
        for one in self._found:
            before = self._written.get(one.station)
            if before is None or before._replace(rate=None) != one._replace(rate=None):
                log.info("%s", one.line)
        self._written = {one.station: one for one in self._found}
