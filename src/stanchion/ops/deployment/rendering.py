"""The files of each kind of deployment, made from the templates."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from stanchion.core.project import FILES, RUNBOOK
from stanchion.ops.deployment import programs, quoting
from stanchion.ops.deployment.settings import HEALTH_PORT, Deployment

_FOLDER: Final = Path(__file__).parent / "files"

Fills = Callable[..., str]


class File(NamedTuple):
    """A file to write. `private`: it holds credentials."""

    name: str
    text: str
    private: bool = False


def grafana() -> File:
    """Return the dashboard."""
    return File("stanchion.json", (_FOLDER / "grafana.json").read_text("utf-8"))


def prometheus(runbook: str | None = None) -> File:
    """Return the alert rules. `runbook`: address of a page with a section for each rule, in place of the project's."""
    values = {"runbook": (runbook or RUNBOOK).rstrip("#"), "docs": f"{FILES}/docs", "yaml": quoting.yaml}
    return File("stanchion.rules.yml", _filled("prometheus.yml", values))


def kubernetes(deployment: Deployment, parts: Collection[str]) -> list[File]:
    """Return the manifests of these parts."""
    everywhere = "0.0.0.0"  # noqa: S104 - in a pod
    advertised = f"--advertise=$(POD).{deployment.name}-manager"
    values = {
        **_common(deployment),
        "setup": programs.setup(deployment),
        "worker": programs.worker(deployment, everywhere),
        "page": programs.page(deployment, everywhere),
        "manager": programs.manager(deployment, everywhere, advertised),
        "args": quoting.kubernetes,
        "secret": deployment.secret_name,
        "revision": _revision(deployment),
        "scaled": "scaler" in parts,
        "backlog_metric": programs.backlog_metric(deployment),
        "lag_metric": programs.lag_metric(deployment),
        "backlog_query": programs.backlog_query(deployment),
    }
    return [_file(f"{part}.yaml", f"kubernetes/{part}.yaml", values, part) for part in parts]


def systemd(deployment: Deployment, parts: Collection[str]) -> list[File]:
    """Return the units of these parts."""
    here = "127.0.0.1"
    processes = ("--processes", str(deployment.processes))
    values = {
        **_common(deployment),
        "setup": programs.setup(deployment),
        "worker": programs.worker(deployment, here, *(processes if deployment.processes > 1 else ())),
        "page": programs.page(deployment, here),
        "manager": programs.manager(deployment, here, health_port=HEALTH_PORT + 1),
        "command": partial(_command, deployment),
    }
    return [
        _file(f"{deployment.name}.env", "secrets.env", values, part)
        if part == "secrets"
        else _file(f"{deployment.name}-{part}.service", f"systemd/{part}.service", values, part)
        for part in parts
    ]


def compose(deployment: Deployment, parts: Collection[str]) -> list[File]:
    """Return the Compose file with the services of these parts, and the file with their credentials."""
    everywhere = "0.0.0.0"  # noqa: S104 - in a container
    services = [part for part in parts if part != "secrets"]
    values = {
        **_common(deployment),
        "parts": services,
        "setup": programs.setup(deployment),
        "worker": programs.worker(deployment, everywhere),
        "page": programs.page(deployment, everywhere),
        "manager": programs.manager(deployment, everywhere, "--advertise", "manager"),
        "probe": programs.probe,
        "args": quoting.compose,
    }
    found = [_file("compose.yaml", "compose.yaml", values, "")] if services else []
    return [*found, *(_file(".env", "secrets.env", values, part) for part in parts if part == "secrets")]


def _common(deployment: Deployment) -> dict[str, object]:
    """Return the values that all templates share; each call makes new tokens."""
    given = {one.name: getattr(deployment, one.name) for one in fields(deployment)}
    return given | {
        "url": deployment.url or "postgresql://USER:PASSWORD@HOST:5432/DATABASE",
        "page_token": secrets.token_urlsafe(32),
        "manager_token": secrets.token_urlsafe(32),
        "grace": f"{deployment.grace:g} s",
        "stop": deployment.stop,
        "in_home": deployment.in_home,
        "yaml": quoting.yaml,
    }


def _revision(deployment: Deployment) -> str:
    """Return a short hash of all that the setup job consists of."""
    parts = deployment.image, deployment.app, deployment.secret_name
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def _command(deployment: Deployment, args: Iterable[str]) -> str:
    """Return the command line of a unit, with the program of the virtual environment."""
    program, *rest = args
    return quoting.systemd([f"{deployment.directory.rstrip('/')}/.venv/bin/{program}", *rest])


def _file(name: str, template: str, values: Mapping[str, object], part: str) -> File:
    return File(name, _filled(template, values), private=part == "secrets")


def _filled(template: str, values: Mapping[str, object]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    return Environment(  # noqa: S701 - no HTML
        loader=FileSystemLoader(_FOLDER),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        block_start_string="[%",
        block_end_string="%]",
        variable_start_string="[[",
        variable_end_string="]]",
        comment_start_string="[#",
        comment_end_string="#]",
    )
