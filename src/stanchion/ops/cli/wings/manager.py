"""stanchion manager."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from stanchion.core.checks import whole
from stanchion.core.text.durations import duration
from stanchion.errors import InvalidInput, MissingExtra
from stanchion.manager.server.settings import Limits, ServerSettings, advertised_address, listen_address, tls_of
from stanchion.manager.server.tokens import Caller, Tokens, token_of, tokens_in
from stanchion.ops.cli.console.root import RUN, cli
from stanchion.ops.cli.console.session import Session, command
from stanchion.ops.cli.run.options import (
    Certificate,
    HealthHost,
    HealthPort,
    Key,
    Listen,
    LogFormat,
    LogLevel,
    Metrics,
    StoreMetrics,
    refuse_level,
)
from stanchion.service.logs import log_to_stderr
from stanchion.stores.registry import open_store, shown_url
from stanchion.stores.wire.transport import TOKEN_VARIABLE
from stanchion.worker.process.status import checked_port

if TYPE_CHECKING:
    from stanchion.manager.service.manager import Manager
    from stanchion.manager.service.probes import ProbeSettings

manager_cli = typer.Typer(help="Serve the store to clients without a database connection; show what managers do.")
cli.add_typer(manager_cli, name="manager", rich_help_panel=RUN)


ClientAuthority = Annotated[
    str | None,
    typer.Option(
        "--tls-client-ca", metavar="FILE", help="Authority (PEM) whose certificates callers must show: mutual TLS."
    ),
]


@command(manager_cli, group=True, makes_store=True)
def manager(
    session: Session,
    listen: Listen = "127.0.0.1:7117",
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="HOST[:PORT]",
            help="Address that clients use to reach this manager; default: the listening address.",
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with a table `token` for each caller: name, token, roles, queues, semaphores, rates. A "
            "single token with all rights: set STANCHION_MANAGER_TOKEN.",
        ),
    ] = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    tls_client_ca: ClientAuthority = None,
    compress: Annotated[bool, typer.Option("--compress", help="Compress answers (gzip).")] = False,
    threads: Annotated[int, typer.Option(help="Maximum number of concurrent store calls.")] = 16,
    grace: Annotated[str, typer.Option(help="Time for calls under way to finish after SIGTERM or Ctrl-C.")] = "30s",
    health_port: HealthPort = None,
    health_host: HealthHost = "127.0.0.1",
    metrics: Metrics = False,
    store_metrics: StoreMetrics = False,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> None:
    """Serve the store to clients without a database connection, until SIGTERM or Ctrl-C.

    stanchion manager --listen 127.0.0.1:7117; clients use grpc://127.0.0.1:7117 as their store
    """
    refuse_level(log_level)
    run_manager = _service()
    url = session.app.url
    _refuse_other_than_databases(url)
    settings = _settings(listen, tokens, (tls_cert, tls_key, tls_client_ca), threads, compress=compress)
    settings = settings if advertise is None else replace(settings, advertise=advertised_address(advertise))
    probes = _probes(health_port, health_host, metrics=metrics, store_metrics=store_metrics)
    log_to_stderr(log_level, log_format)
    store = open_store(url)

    def started(one: Manager) -> None:
        scheme = "grpc" if settings.tls is None else "grpcs"
        address = one.server.address
        answer = {"listening": address, "url": f"{scheme}://{address}", "store": shown_url(url)}
        if session.out.as_json:
            session.out.json_line({**answer, "pid": os.getpid()})
        else:
            session.out.say(f"serving {answer['store']} to clients of {answer['url']}")

    try:
        run_manager(store, settings, duration(grace, "--grace"), started, probes)
    finally:
        store.close()


def _refuse_other_than_databases(url: str) -> None:
    """Raise InvalidInput for the URL of a manager, or of a map of shards."""
    if url.startswith("grpc"):
        raise InvalidInput(f"{shown_url(url)} is a manager itself; give the URL of the database")
    if url.startswith("shards:"):
        raise InvalidInput(
            "a manager serves one database, and this is a map of several: start managers for each shard, with the URL "
            "of its database, and name them in the map by grpc://"
        )


def _service() -> Callable[..., None]:
    """Import and return the function that runs a manager. Raises MissingExtra."""
    try:
        from stanchion.manager.service.process import run_manager
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("grpc", "grpc_health", "grpc_reflection", "google"):
            raise
        raise MissingExtra("grpc", "a manager") from None
    return run_manager


def _probes(port: int | None, host: str, *, metrics: bool, store_metrics: bool) -> ProbeSettings | None:
    from stanchion.manager.service.probes import ProbeSettings

    if checked_port(port) is None:
        if metrics or store_metrics:
            raise InvalidInput("metrics are served on the port of health: give --health-port, such as 8017")
        return None
    return ProbeSettings(port or 0, host, metrics, store_metrics)


def _settings(
    listen: str, tokens: str | None, tls: tuple[str | None, str | None, str | None], threads: int, *, compress: bool
) -> ServerSettings:
    known = [] if tokens is None else tokens_in(tokens)
    if secret := os.environ.get(TOKEN_VARIABLE):
        known.append(token_of(secret, Caller(TOKEN_VARIABLE)))
    limits = Limits(threads=whole(threads, "--threads", 1, 1000))
    return ServerSettings(listen_address(listen), Tokens(known), tls_of(*tls), limits, compress)
