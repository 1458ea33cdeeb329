"""Reports health to probes of the process: in a file or by HTTP."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from stanchion.core.checks import whole
from stanchion.errors import InvalidInput

log = logging.getLogger("stanchion.worker")

Status = dict[str, Any]
"""`status` ("ok" or "red"), `reason` (None when ok), and details."""

LOOPBACK = "127.0.0.1"

TICK = 0.5
"""Seconds between two checks."""

REWRITE = 5.0
"""Seconds after which an unchanged file is written again, so that its age shows that the process is alive."""


class StatusReporter:
    """Writes `status()` to a file, and serves it by HTTP: 200 when ok, 503 when red."""

    def __init__(
        self, status: Callable[[], Status], file: str | Path | None, port: int | None, host: str = LOOPBACK
    ) -> None:
        self._status = status
        self._file = None if file is None else Path(file)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._server = None if port is None else _server(status, host, port)

    @property
    def port(self) -> int | None:
        """The port served, or the one the system chose for 0."""
        return None if self._server is None else int(self._server.server_address[1])

    def start(self) -> None:
        """Start the threads that are needed."""
        if self._server is not None:
            server = threading.Thread(target=self._server.serve_forever, name="stanchion-health", daemon=True)
            server.start()
        if self._file is not None:
            self._thread = threading.Thread(target=self._keep_file, name="stanchion-health-file", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Write the final status, and stop serving."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(2)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _keep_file(self) -> None:
        written, written_at = "", 0.0
        while True:
            stopping = self._stopping.is_set()
            status = self._status()
            word = line_of(status)
            if word != written or time.monotonic() - written_at >= REWRITE:
                self._write(f"{word}\n")
                written, written_at = word, time.monotonic()
            if stopping:
                return
            self._stopping.wait(TICK)

    def _write(self, text: str) -> None:
        assert self._file is not None  # noqa: S101 - only started with one
        temporary = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            temporary.write_text(text)
            temporary.replace(self._file)
        except OSError as error:
            log.warning("can't write the health file %s: %s", self._file, error)


def checked_port(port: Any) -> int | None:
    """Return a port to listen at, None for none; 0 lets the system choose it."""
    return None if port is None else whole(port, "health_port", 0, 65_535)


def line_of(status: Status) -> str:
    """Return the status in one line that starts with its verdict."""
    return f"{status['status']} {status.get('worker', '')}" + (f": {status['reason']}" if status["reason"] else "")


def _server(status: Callable[[], Status], host: str, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            answer = status()
            body = json.dumps(answer).encode()
            self.send_response(200 if answer["status"] == "ok" else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: probes come every second."""

    try:
        server = _SERVERS[":" in host]((host, port), Handler)
    except (OSError, OverflowError, UnicodeError) as error:
        raise InvalidInput(
            f"health can't be served on port {port} of {host}: {error}; choose a free port from 1 to 65535, and an "
            f"address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them"
        ) from None
    server.daemon_threads = True
    return server


class _IPv6Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6


_SERVERS = {False: ThreadingHTTPServer, True: _IPv6Server}
