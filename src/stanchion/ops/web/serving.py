"""Serves the page by uvicorn."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from socket import socket
from types import FrameType
from typing import Final

import uvicorn

from stanchion.app import Stanchion
from stanchion.core.urls import Listen, listening
from stanchion.errors import InvalidInput
from stanchion.ops.web.access.callers import Token, Tokens
from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.repeats import OncePerMinute
from stanchion.ops.web.site import Site
from stanchion.worker.process.signals import stopping_signals

PORT: Final = 7118
"""The port of a page whose address names none."""


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Where the page is served. `proxies`: addresses whose X-Forwarded-* are believed; `tls`: certificate, key."""

    listen: Listen
    root_path: str = ""
    proxies: str = ""
    tls: tuple[str, str] | None = None


def listen_address(text: str) -> Listen:
    """Read `127.0.0.1:7118`, `[::1]:7118`, a host or a port alone. Raises InvalidInput."""
    found = listening(text, PORT)
    if found is None:
        raise InvalidInput(f"the address to listen at must be host:port, such as 127.0.0.1:{PORT}, not {text!r}")
    return found


def refuse_open(listen: Listen, tokens: Iterable[Token], *, proxied: bool) -> None:
    """Refuse to let others in without tokens. Raises InvalidInput."""
    if [*tokens] or (listen.loopback and not proxied):
        return
    what = "behind a proxy" if listen.loopback else f"at {listen.text}"
    raise InvalidInput(
        f"{what}, others could read and cancel jobs: give --tokens FILE or set STANCHION_WEB_TOKEN, and use TLS, by a "
        f"proxy or by --tls-cert and --tls-key; or listen at 127.0.0.1"
    )


class _Server(uvicorn.Server):
    """Says when it listens, and ends streams before it stops."""

    def __init__(self, config: uvicorn.Config, site: Site, started: Callable[[int], None]) -> None:
        super().__init__(config)
        self._site, self._started = site, started

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._site.end_streams()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._started(self.servers[0].sockets[0].getsockname()[1])


def serve(stanchion: Stanchion, tokens: list[Token], settings: ServingSettings, started: Callable[[int], None]) -> bool:
    """Serve the page until SIGTERM or Ctrl-C; `started` gets the port. False: it could not listen."""
    refuse_open(settings.listen, tokens, proxied=bool(settings.proxies))
    certificate, key = settings.tls or (None, None)
    site = Site(stanchion, Tokens(tokens))
    config = uvicorn.Config(
        site_app(site, settings.root_path),
        host=settings.listen.host,
        port=settings.listen.port,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=settings.proxies or None,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        server_header=False,
        access_log=False,
        log_config=None,
        ws="none",
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=64 * 1024,
    )
    logging.getLogger("uvicorn.error").addFilter(OncePerMinute())
    for one in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again once it has stopped
        signal.signal(one, lambda *_: None)
    for one in set(stopping_signals()) - {signal.SIGTERM, signal.SIGINT}:  # uvicorn knows only those two
        signal.signal(one, lambda *_: signal.raise_signal(signal.SIGTERM))
    server = _Server(config, site, started)
    server.run()
    return server.started
