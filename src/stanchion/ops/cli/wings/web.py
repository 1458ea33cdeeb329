"""stanchion web."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Annotated

import typer

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.ops.cli.console.root import RUN, cli
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.run.options import Certificate, Key, Listen, LogFormat, LogLevel, refuse_level
from stanchion.service.logs import log_to_stderr


@command(cli, "web", panel=RUN)
def web(
    session: Session,
    listen: Listen = "127.0.0.1:7118",
    tokens: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with a table `token` for each person: name, token, role (read or operate). A single token "
            "that may operate: set STANCHION_WEB_TOKEN.",
        ),
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(metavar="PATH", help="Path below which a proxy serves the page, such as /jobs; it may strip it."),
    ] = "",
    proxy: Annotated[
        str, typer.Option(metavar="IP,...", help="Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.")
    ] = "",
    tls_cert: Certificate = None,
    tls_key: Key = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> Exit:
    """Serve the page: queues, jobs and workers in a browser, until SIGTERM or Ctrl-C.

    stanchion web, then open http://127.0.0.1:7118
    """
    refuse_level(log_level)
    serving = _serving()
    if (tls_cert is None) != (tls_key is None):
        raise InvalidInput("TLS takes both: --tls-cert and --tls-key")
    if root_path and (not root_path.startswith("/") or root_path.endswith("/")):
        raise InvalidInput(f"--root-path is a path such as /jobs, not {root_path!r}")
    from stanchion.ops.web.access.callers import TOKEN_VARIABLE, Caller, token_of, tokens_in

    known = [] if tokens is None else tokens_in(tokens)
    if secret := os.environ.get(TOKEN_VARIABLE):
        known.append(token_of(secret, Caller(TOKEN_VARIABLE)))
    tls = (tls_cert, tls_key) if tls_cert and tls_key else None
    settings = serving.ServingSettings(serving.listen_address(listen), root_path, proxy, tls)
    log_to_stderr(log_level, log_format)

    def started(port: int) -> None:
        scheme = "http" if tls is None else "https"
        url = f"{scheme}://{settings.listen._replace(port=port).text}{root_path}"
        if session.out.as_json:
            session.out.json_line({"url": url, "pid": os.getpid()})
        else:
            session.out.say(f"the page is at {url}")

    return Exit.OK if serving.serve(session.app, known, settings, started) else Exit.FAILED


def _serving() -> ModuleType:
    """Return what serves the page. Raises MissingExtra."""
    try:
        from stanchion.ops.web import serving
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "uvicorn":
            raise
        raise MissingExtra("web", "the page") from None
    return serving
