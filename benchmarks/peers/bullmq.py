"""Where Node and BullMQ are: beside this interpreter, installed when missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.servers.node import npm_environment

PACKAGES = ("bullmq@6", "ioredis@5")
FOLDER = Path(sys.prefix, "bullmq")
PROGRAM = Path(__file__).with_name("bullmq.js")


def install() -> None:
    """Install BullMQ into the virtual environment, once; ImportError where that can't be."""
    if (FOLDER / "node_modules" / "bullmq").exists():
        return
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise ImportError("BullMQ needs Node and npm: install them (Debian: apt-get install nodejs npm)")
    options = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", FOLDER)
    done = subprocess.run(
        [npm, "install", *options, *PACKAGES], env=npm_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ImportError(f"npm could not install {' and '.join(PACKAGES)}: {done.stderr[-500:]}")


def version() -> str:
    """Return the installed version."""
    if not (package := FOLDER / "node_modules" / "bullmq" / "package.json").exists():
        return "missing"
    return str(json.loads(package.read_text())["version"])


def command(*arguments: str) -> list[str]:
    """Return the command that runs the program."""
    return [shutil.which("node") or "node", str(PROGRAM), *arguments]


def environment() -> dict[str, str]:
    """Return the environment in which the program finds BullMQ."""
    return {**os.environ, "NODE_PATH": str(FOLDER / "node_modules"), "NODE_ENV": "production"}
