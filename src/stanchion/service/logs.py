"""The log of the commands that serve: lines of text, or of JSON for programs that read them."""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import threading
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from stanchion.core.concurrency.background import Background
from stanchion.core.text.printable import safe
from stanchion.core.text.redaction import redacted
from stanchion.errors import InvalidInput

LINE: Final = "%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s"

FORMATS: Final = ("text", "json")

WAITING_MAX: Final = 4_000_000
"""Characters that wait for a reader of the log, beyond which further lines are dropped."""

FLUSH_SECONDS: Final = 1.0
"""Seconds that a reader gets at the end of the process to take the lines that wait."""

_INDENT: Final = "    "

_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

log = logging.getLogger("stanchion.log")


class TextLines(logging.Formatter):
    """Formats a record as redacted text whose control characters are escaped; further lines are indented.

    So a message of an exception can neither control a terminal nor imitate a log line.
    """

    def __init__(self) -> None:
        super().__init__(LINE)

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines."""
        return safe(redacted(super().format(record))).replace("\n", f"\n{_INDENT}")


class JsonLines(logging.Formatter):
    """Formats a record as one redacted line of JSON.

    It has `time` in UTC, `level`, `logger`, `process`, `message`, `exception`, and what else the call of the logger
    gave in `extra`, such as `job`, `task`, `seconds`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        given = {name: value for name, value in vars(record).items() if name not in _USUAL}
        return json.dumps(redacted({**given, **line}), default=str)


class UnblockedHandler(logging.Handler):
    """Writes records to a stream in a separate thread, so that no caller waits for a reader that does not read.

    Up to `waiting_max` characters wait; further lines are dropped, and a line says how many once there is room.
    """

    def __init__(self, stream: TextIO, waiting_max: int = WAITING_MAX) -> None:
        super().__init__()
        self._stream = stream
        self._lines = Background("stanchion-log", self._write, waiting_max)

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record to the thread."""
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        self._lines.put(line, len(line) + 1)

    def flush(self) -> None:
        """Wait for FLUSH_SECONDS at most until all lines are written."""
        self._lines.drain(FLUSH_SECONDS)

    def _write(self, line: str) -> None:
        dropped = self._lines.take_dropped()
        if dropped:
            told = "%d lines of the log were dropped here, as nobody read them in time"
            record = log.makeRecord(log.name, logging.WARNING, __file__, 0, told, (dropped,), None)
            line = f"{self.format(record)}\n{line}"
        try:
            write(self._stream, f"{line}\n")
        except (OSError, ValueError, AttributeError):  # its reader has gone, or the process has no stderr
            return


def write(stream: TextIO, text: str) -> None:
    """Write text to a stream, for as long as that takes. Holds no lock of the stream that others would wait for."""
    try:
        descriptor = stream.fileno()
    except OSError:  # a stream in memory
        stream.write(text)
        stream.flush()
        return
    rest = memoryview(text.encode(stream.encoding, "backslashreplace"))
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # another process has made the pipe non-blocking
            select.select((), (descriptor,), (), FLUSH_SECONDS)


def log_to_stderr(level: str, form: str = "text", stream: TextIO | None = None) -> None:
    """Log from this level on, as `text` or `json`: also warnings, and what threads and finalizers raise.

    Python would print these to stderr itself, in a call that waits for its reader. `stream`: what takes the place of
    stderr. Raises InvalidInput for another form.
    """
    if form not in FORMATS:
        raise InvalidInput(f"--log-format must be one of {', '.join(FORMATS)}, not {form!r}")
    handler = UnblockedHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_of_thread
    sys.unraisablehook = _log_unraisable


def _log_of_thread(raised: threading.ExceptHookArgs) -> None:
    if raised.exc_type is not SystemExit and raised.exc_value is not None:
        name = "a thread" if raised.thread is None else raised.thread.name
        log.error("%s has died", name, exc_info=raised.exc_value)


def _log_unraisable(raised: Any) -> None:
    log.error("%s: %r", raised.err_msg or "an error was ignored in", raised.object, exc_info=raised.exc_value)


def flushed(seconds: float = FLUSH_SECONDS) -> bool:
    """Write what waits for stdout, stderr and the log; return whether all was written within `seconds`.

    If not, the interpreter would wait for the reader when it ends, or abort: end the process by `os._exit`.
    """

    def flush() -> None:
        for one in (*logging.getLogger().handlers, sys.stdout, sys.stderr):
            if one is not None:
                one.flush()

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
