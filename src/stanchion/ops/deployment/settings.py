"""The parameters of a deployment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import parse_qs, urlsplit

from stanchion.core.checks import whole
from stanchion.errors import InvalidInput

HEALTH_PORT: Final = 8017
PAGE_PORT: Final = 7118
MANAGER_PORT: Final = 7117

SCALERS: Final = ("prometheus", "postgresql")
"""Sources of the backlog figure for KEDA."""

_FOLDER: Final = re.compile(r"(/[\w.+@-]+)+/?", re.ASCII)
_OURS: Final = {"schema", "pool_size"}
"""The options of PostgreSQL's URLs that other clients refuse."""
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The parameters of all files. Raises InvalidInput.

    `name`: start of the names of services, units and manifests. `app`: `module:app`, as for `stanchion worker`. `url`:
    the store, for files with credentials. `secret`: the Kubernetes secret with the keys url, page-token and
    manager-token. `grace`: seconds for running jobs to finish after SIGTERM. `directory`: the folder of the program
    on a machine with systemd, with a virtual environment `.venv`. `prometheus`: address that KEDA queries.
    """

    name: str = "stanchion"
    app: str = "shop:app"
    url: str | None = None
    image: str = "registry.example.org/shop:1"
    namespace: str | None = None
    secret: str | None = None
    queues: tuple[str, ...] = ()
    threads: int = 8
    processes: int = 1
    grace: float = 30.0
    replicas: int = 3
    max_replicas: int = 20
    directory: str = "/srv/shop"
    scale_by: str = "prometheus"
    prometheus: str = "http://prometheus-server.monitoring:80"

    def __post_init__(self) -> None:
        _checked_label(self.name, "--name", 40)
        for value, option in ((self.namespace, "--namespace"), (self.secret, "--secret")):
            if value is not None:
                _checked_label(value, option, 63)
        texts = {
            **{"--app": self.app, "--image": self.image, "--url": self.url, "--prometheus": self.prometheus},
            "--directory": self.directory,
        }
        for option, text in (*texts.items(), *(("--queues", queue) for queue in self.queues)):
            if text is not None and (not text.strip() or not text.isprintable()):
                raise InvalidInput(f"{option} must be printable text on one line, not {text!r}")
        if self.url is not None and "'" in self.url:
            raise InvalidInput("--url has a quotation mark, which environment files do not allow: write it as %27")
        if self.scale_by == "postgresql" and (options := parse_qs(urlsplit(self.url or "").query).keys() & _OURS):
            raise InvalidInput(
                f"KEDA opens the database with the same URL, and does not know its option {min(options)}: scale by "
                f"prometheus, or write a ScaledObject with a URL of its own"
            )
        if not _FOLDER.fullmatch(self.directory):
            raise InvalidInput(
                "--directory must be an absolute path of letters, digits and the characters ._+@-, "
                f"not {self.directory!r}"
            )
        for number, option, least in (
            *((self.threads, "--threads", 1), (self.processes, "--processes", 1), (self.replicas, "--replicas", 0)),
            (self.max_replicas, "--max-replicas", max(self.replicas, 1)),
        ):
            whole(number, option, least, 10_000)
        if self.scale_by not in SCALERS:
            raise InvalidInput(f"--scale-by must be {' or '.join(SCALERS)}, not {self.scale_by!r}")

    @property
    def secret_name(self) -> str:
        """The name of the Kubernetes secret."""
        return self.secret or self.name

    @property
    def stop(self) -> int:
        """Seconds after which a process that got SIGTERM may be killed."""
        return int(self.grace) + 30

    @property
    def in_home(self) -> bool:
        """True if the program is below a home folder, which its unit must see then."""
        return PurePosixPath(self.directory).parts[1:2] in (("home",), ("root",))


def _checked_label(text: str, option: str, most: int) -> None:
    if not _LABEL.fullmatch(text) or len(text) > most:
        raise InvalidInput(
            f"{option} must consist of at most {most} lower-case letters, digits and dashes, and begin with a letter; "
            f"not {text!r}"
        )
