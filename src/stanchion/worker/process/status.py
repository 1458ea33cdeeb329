"""Reports health to probes of the process: in a file, or by HTTP on a port shared with other routes."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stanchion.core.checks import whole
from stanchion.telemetry.server import LOOPBACK, Answer, ProbeServer, Route

log = logging.getLogger("stanchion.worker")

Status = dict[str, Any]
"""`status` ("ok" or "red"), `reason` (None when ok), and details."""

TICK = 0.5
"""Seconds between two checks."""

REWRITE = 5.0
"""Seconds after which an unchanged file is written again, so that its age shows that the process is alive."""


class StatusReporter:
    """Writes `status()` to a file, and serves it by HTTP at `/`: 200 when ok, 503 when red; `routes`: further paths.

    `others`: further files, kept up to date together with the first."""

    def __init__(
        self,
        status: Callable[[], Status],
        file: str | Path | None,
        port: int | None,
        host: str = LOOPBACK,
        routes: Mapping[str, Route] | None = None,
        others: Mapping[str | Path, Callable[[], str]] | None = None,
    ) -> None:
        self._status = status
        self._file = None if file is None else Path(file)
        self._others = {Path(other): text for other, text in (others or {}).items()}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._server = None if port is None else ProbeServer({"/": self._answer, **(routes or {})}, host, port)

    @property
    def port(self) -> int | None:
        """The port served, or the one the system chose for 0."""
        return None if self._server is None else self._server.port

    def start(self) -> None:
        """Start the threads that are needed."""
        if self._server is not None:
            self._server.start()
        if self._file is not None:
            self._thread = threading.Thread(target=self._keep_file, name="stanchion-health-file", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Write the final status, and stop serving."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(2)
        if self._server is not None:
            self._server.stop()

    def _answer(self, _accept: str) -> Answer:
        status = self._status()
        return Answer(200 if status["status"] == "ok" else 503, "application/json", json.dumps(status).encode())

    def _keep_file(self) -> None:
        assert self._file is not None  # noqa: S101 - only started with one
        written, written_at = "", 0.0
        while True:
            stopping = self._stopping.is_set()
            status = self._status()
            word = line_of(status)
            for other, text in self._others.items():
                self._write(other, text())
            if word != written or time.monotonic() - written_at >= REWRITE:
                self._write(self._file, f"{word}\n")
                written, written_at = word, time.monotonic()
            if stopping:
                return
            self._stopping.wait(TICK)

    def _write(self, file: Path, text: str) -> None:
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            temporary.write_text(text)
            temporary.replace(file)
        except OSError as error:
            log.warning("can't write the health file %s: %s", file, error)


def checked_port(port: object) -> int | None:
    """Return a port to listen at, None for none; 0 lets the system choose it."""
    return None if port is None else whole(port, "health_port", 0, 65_535)


def line_of(status: Status) -> str:
    """Return the status in one line that starts with its verdict."""
    return f"{status['status']} {status.get('worker', '')}" + (f": {status['reason']}" if status["reason"] else "")
