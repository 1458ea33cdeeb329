"""An HTTP port for probes and Prometheus.

/livez, /healthz   200 while the process works; otherwise a restart helps
/readyz            200 while it does its work, which needs the store
/metrics           for Prometheus, if asked for
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from stanchion.errors import InvalidInput

log = logging.getLogger("stanchion.telemetry")

LOOPBACK = "127.0.0.1"


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    content_type: str
    body: bytes


Route = Callable[[str], Answer]
"""Answers a request; gets its header Accept."""


def verdict(trouble: str | None, **details: object) -> Answer:
    """Return the problem as JSON: 200 for none, else 503."""
    told = {"status": "red" if trouble else "ok", "reason": trouble, **details}
    return Answer(503 if trouble else 200, "application/json", json.dumps(told).encode())


def probes(alive: Callable[[], str | None], ready: Callable[[], str | None]) -> dict[str, Route]:
    """Return the routes of liveness and readiness; each function returns the problem, or None."""

    def live(_accept: str = "") -> Answer:
        return verdict(alive())

    return {"/livez": live, "/healthz": live, "/readyz": lambda _accept: verdict(ready())}


class ProbeServer:
    """Serves routes by HTTP, in separate threads; 404 for other paths, 500 for a route that fails.

    Raises InvalidInput for an address that can't be listened at; port 0 lets the system choose.
    """

    def __init__(self, routes: Mapping[str, Route], host: str, port: int) -> None:
        self._server = _bound(routes, host, port)

    @property
    def port(self) -> int:
        """The port served."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serve from now on."""
        threading.Thread(target=self._server.serve_forever, name="stanchion-health", daemon=True).start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def _bound(routes: Mapping[str, Route], host: str, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            answer = _answer(routes, self.path.partition("?")[0], self.headers.get("Accept", ""))
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

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


def _answer(routes: Mapping[str, Route], path: str, accept: str) -> Answer:
    route = routes.get(path)
    if route is None:
        return Answer(404, "text/plain", f"no such path; there are {', '.join(sorted(routes))}\n".encode())
    try:
        return route(accept)
    except Exception as error:
        log.warning("%s failed: %s: %s", path, type(error).__name__, error)
        return Answer(500, "text/plain", f"{type(error).__name__}\n".encode())


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the signature of the library
        """Log what ends a connection, such as a client that has gone; the library would print a traceback."""
        log.debug("a connection to the port of health has ended", exc_info=True)


class _IPv6Server(_Server):
    address_family = socket.AF_INET6


_SERVERS = {False: _Server, True: _IPv6Server}
