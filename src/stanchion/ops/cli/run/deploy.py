"""stanchion deploy."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stanchion.core.text.durations import duration
from stanchion.errors import InvalidInput
from stanchion.ops.cli.console.given import names
from stanchion.ops.cli.console.root import RUN, cli
from stanchion.ops.cli.console.session import Session, command

if TYPE_CHECKING:
    from stanchion.ops.deployment.rendering import File
    from stanchion.ops.deployment.settings import Deployment

deploy_cli = typer.Typer(help="Print dashboards, alert rules, units and manifests.", no_args_is_help=True)
cli.add_typer(deploy_cli, name="deploy", rich_help_panel=RUN)

_ADDRESS = re.compile(r"https?://[^\s\"'\\\\{}<>]+")

USUAL = ("setup", "worker", "page")
"""Parts of a deployment, unless others are named."""

Parts = Annotated[list[str] | None, typer.Argument(metavar="PART", help="Only these parts.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write files to this folder instead of printing.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Name = Annotated[str, typer.Option(help="Start of the names of all services.")]
Image = Annotated[str, typer.Option(help="Image with your program and Stanchion.")]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queues", "-q", metavar="A,B", help="Queues of the workers; by default all queues with tasks."),
]
Threads = Annotated[int, typer.Option(help="Concurrent jobs per worker process.")]
Grace = Annotated[str, typer.Option(help="Time for running jobs to finish after SIGTERM.")]
Replicas = Annotated[int, typer.Option(help="Number of workers; with a scaler the smallest one.")]


@command(deploy_cli, "grafana")
def grafana(session: Session, output: Output = None, force: Force = False) -> None:
    """Print a Grafana dashboard (stanchion.json): import it, and choose your Prometheus as its data source."""
    from stanchion.ops.deployment.rendering import grafana

    _deliver(session, [grafana()], output, force=force)


@command(deploy_cli, "prometheus")
def prometheus(
    session: Session,
    runbook: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Your runbook, with a section for each rule; by default the project's page."),
    ] = None,
    output: Output = None,
    force: Force = False,
) -> None:
    """Print alert rules for Prometheus (stanchion.rules.yml): name the file under rule_files."""
    from stanchion.ops.deployment.rendering import prometheus

    if runbook is not None and not _ADDRESS.fullmatch(runbook):
        raise InvalidInput(f"--runbook must be an address that begins with https:// or http://, not {runbook!r}")
    _deliver(session, [prometheus(runbook)], output, force=force)


@command(deploy_cli, "systemd")
def systemd(
    session: Session,
    parts: Parts = None,
    name: Name = "stanchion",
    directory: Annotated[
        str, typer.Option(metavar="DIR", help="Folder of your program, with its virtual environment .venv.")
    ] = "/srv/shop",
    queues: Queues = None,
    threads: Threads = 8,
    processes: Annotated[int, typer.Option(help="Worker processes, each with its threads.")] = 1,
    grace: Grace = "30s",
    output: Output = None,
    force: Force = False,
) -> None:
    """Print hardened units for systemd. PART: setup, worker, page (the default), manager, secrets.

    stanchion deploy systemd --app shop:app --output /etc/systemd/system

    `secrets` is the environment file /etc/NAME.env with the store's URL and tokens.
    """
    chosen = _chosen(parts, (*USUAL, "manager", "secrets"))
    given = {"name": name, "directory": directory, "threads": threads, "processes": processes}
    deployment = _deployment(session, queues, grace, **given)
    from stanchion.ops.deployment.rendering import systemd

    _deliver(session, systemd(deployment, chosen), output, force=force, between="\n")


@command(deploy_cli, "kubernetes")
def kubernetes(
    session: Session,
    parts: Parts = None,
    name: Name = "stanchion",
    namespace: Annotated[str | None, typer.Option(help="Namespace of all objects.")] = None,
    image: Image = "registry.example.org/shop:1",
    secret: Annotated[
        str | None,
        typer.Option(help="Secret with the keys url, page-token and manager-token; by default named as --name."),
    ] = None,
    queues: Queues = None,
    threads: Threads = 8,
    grace: Grace = "30s",
    replicas: Replicas = 3,
    max_replicas: Annotated[int, typer.Option(help="Largest number of workers under the scaler.")] = 20,
    scale_by: Annotated[
        str, typer.Option(metavar="SOURCE", help="Source of the scaler's figures: prometheus or postgresql.")
    ] = "prometheus",
    prometheus: Annotated[
        str, typer.Option(metavar="URL", help="Prometheus, as KEDA reaches it.")
    ] = "http://prometheus-server.monitoring:80",
    output: Output = None,
    force: Force = False,
) -> None:
    """Print manifests for Kubernetes. PART: setup, worker, page (the default), manager, scaler, secrets.

    stanchion deploy kubernetes --app shop:app --image registry.example.org/shop:2 --output manifests

    `setup` is a job that must end before a rollout. `scaler` is a ScaledObject of KEDA, by the queues' backlog.
    """
    chosen = _chosen(parts, (*USUAL, "manager", "scaler", "secrets"))
    given = {"name": name, "namespace": namespace, "image": image, "secret": secret, "threads": threads}
    scaling = {"replicas": replicas, "max_replicas": max_replicas, "scale_by": scale_by, "prometheus": prometheus}
    deployment = _deployment(session, queues, grace, **given, **scaling)
    _refuse_sqlite(deployment)
    from stanchion.ops.deployment.rendering import kubernetes

    _deliver(session, kubernetes(deployment, chosen), output, force=force, between="---\n")


@command(deploy_cli, "compose")
def compose(
    session: Session,
    parts: Parts = None,
    name: Name = "stanchion",
    image: Image = "registry.example.org/shop:1",
    queues: Queues = None,
    threads: Threads = 8,
    grace: Grace = "30s",
    replicas: Replicas = 1,
    output: Output = None,
    force: Force = False,
) -> None:
    """Print a Compose file (compose.yaml). PART: setup, worker, page (the default), manager, secrets.

    stanchion deploy compose --app shop:app --image registry.example.org/shop:2 > compose.yaml

    `secrets` is the file .env with the store's URL and tokens.
    """
    chosen = _chosen(parts, (*USUAL, "manager", "secrets"))
    if output is None and "secrets" in chosen and len(chosen) > 1:
        raise InvalidInput("the secrets of Compose go into a separate file, .env: print them alone, or give --output")
    deployment = _deployment(session, queues, grace, name=name, image=image, threads=threads, replicas=replicas)
    _refuse_sqlite(deployment)
    from stanchion.ops.deployment.rendering import compose

    _deliver(session, compose(deployment, chosen), output, force=force)


def _chosen(parts: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Return the named parts, or the usual ones, in their order."""
    for part in parts or ():
        if part not in known:
            raise InvalidInput(f"there is no part {part!r}; choose of {', '.join(known)}")
    return [part for part in known if part in (parts or USUAL)]


def _deployment(session: Session, queues: list[str] | None, grace: str, **given: Any) -> Deployment:
    from stanchion.ops.deployment.settings import Deployment

    if session.app_path is not None:
        given["app"] = session.app_path
    else:
        session.out.say("the files name the app shop:app: give yours with --app")
    return Deployment(url=session.url, queues=tuple(names(queues) or ()), grace=duration(grace, "--grace"), **given)


def _refuse_sqlite(deployment: Deployment) -> None:
    if deployment.url is not None and deployment.url.startswith("sqlite"):
        raise InvalidInput(
            "containers cannot share a SQLite file safely: give the URL of a database server, or run Stanchion on the "
            "machine of the file by `stanchion deploy systemd`"
        )


def _deliver(session: Session, files: Sequence[File], output: Path | None, *, force: bool, between: str = "") -> None:
    """Print the files, or write them: all or none."""
    if output is not None:
        written = _write(files, output, force=force)
        session.out.done("\n".join(f"wrote {path}" for path in written), [str(path) for path in written])
    elif session.out.as_json:
        session.out.json({file.name: file.text for file in files})
    else:
        several = len(files) > 1
        print(between.join(f"# {file.name}\n{file.text}" if several else file.text for file in files), end="")


def _write(files: Iterable[File], folder: Path, *, force: bool) -> list[Path]:
    texts = {folder / file.name: file for file in files}
    there = [str(path) for path in texts if path.exists()]
    if there and not force:
        raise InvalidInput(f"{', '.join(there)} exists already; --force overwrites it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, file in texts.items():
            if file.private:
                path.unlink(missing_ok=True)
            with open(path, "w", encoding="utf-8", opener=_private if file.private else None) as target:
                target.write(file.text)
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror or error}") from error
    return list(texts)


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, flags, 0o600)
