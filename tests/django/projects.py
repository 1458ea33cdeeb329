"""The shop as processes: its commands, on databases of a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from tests.docs.pages import ROOT

SHOP = Path(__file__).parent / "shop"

ENGINES = {"sqlite": "sqlite3", "postgresql": "postgresql", "mysql": "mysql"}

PATIENCE = 120.0
"""Seconds that an event may take on the slowest machine."""


def settings_of(url: str, folder: Path) -> dict[str, Any]:
    """Return the entry of DATABASES for the database of a URL."""
    found = make_url(url)
    kind = found.get_backend_name().replace("mariadb", "mysql")
    sqlite = kind == "sqlite"
    name = found.database or ""
    return {
        "ENGINE": f"django.db.backends.{ENGINES[kind]}",
        "NAME": name,
        "HOST": found.host or "",
        "PORT": found.port or "",
        "USER": found.username or "",
        "PASSWORD": found.password or "",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"} if sqlite else {},
        "TEST": {"NAME": f"{folder}/{Path(name).stem}-test.db" if sqlite else f"{name}_t"},
    }


class Project:
    """The shop on two databases."""

    def __init__(self, folder: Path, default: str, reports: str, python: Path = Path(sys.executable)) -> None:
        self.folder, self.url, self._python = folder, default, str(python)
        databases = {"default": settings_of(default, folder), "reports": settings_of(reports, folder)}
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DJANGO")},
            "SHOP_FOLDER": str(folder),
            "SHOP_DATABASES": json.dumps(databases),
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            "PYTHONPATH": f"{SHOP}:{ROOT / 'src'}",
        }

    def manage(self, *arguments: str, code: int = 0) -> str:
        """Run a command of `manage.py` to its end; return what it prints."""
        run = subprocess.run(
            [self._python, str(SHOP / "manage.py"), *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert run.returncode == code, f"{arguments} ended with {run.returncode}:\n{run.stdout}\n{run.stderr}"
        return run.stdout + run.stderr

    def place(self, *articles: str) -> list[dict[str, Any]]:
        """Place orders by the view of the shop; return its answers."""
        found: list[dict[str, Any]] = json.loads(self.manage("place", *articles).splitlines()[-1])
        return found

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program of this interpreter within the block."""
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [self._python, *command], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @property
    def log(self) -> str:
        """What the program of the last block has printed."""
        return (self.folder / "log").read_text()
