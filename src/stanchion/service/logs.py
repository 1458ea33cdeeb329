"""The log of the commands that serve: lines of text, or of JSON for programs that read them."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

from stanchion.errors import InvalidInput

LINE: Final = "%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s"

FORMATS: Final = ("text", "json")

_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: `time` in UTC, `level`, `logger`, `process`, `message`, `exception`, and
    what else the call of the logger gave in `extra`, such as `job`, `task`, `seconds`.
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
        return json.dumps({**given, **line}, default=str)


def log_to_stderr(level: str, form: str = "text") -> None:
    """Log from this level on, as `text` or `json`. Raises InvalidInput for another form."""
    if form not in FORMATS:
        raise InvalidInput(f"--log-format must be one of {', '.join(FORMATS)}, not {form!r}")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(LINE))
    logging.basicConfig(level=level.upper(), handlers=[handler])
