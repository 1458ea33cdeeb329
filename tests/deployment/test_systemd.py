"""Units are valid, locked down, and start the commands that they should."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stanchion.ops.deployment.rendering import systemd
from stanchion.ops.deployment.settings import Deployment
from tests.deployment.given import PLAIN, STRANGE, parsed

PARTS = ("setup", "worker", "page", "manager")
EXPOSURE = 30
"""Largest exposure of a unit in tenths, by systemd's own review."""

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def units(deployment: Deployment) -> dict[str, str]:
    return {file.name: file.text for file in systemd(deployment, PARTS)}


def words(line: str) -> list[str]:
    """Return the arguments of a command line, as systemd reads it."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)
    return [re.sub(r"\\(.)|([%$])(.)", _character, quoted or plain) for quoted, plain in found]


def _character(found: re.Match[str]) -> str:
    """Return an escaped character; one `%` or `$` alone begins a specifier or a variable."""
    if found[1]:
        return found[1]
    return found[2] if found[2] == found[3] else "something else"


@needs_systemd
def test_units_are_valid_and_hardly_exposed(tmp_path: Path) -> None:
    program = tmp_path / "shop" / ".venv" / "bin" / "stanchion"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    paths = []
    for deployment in (PLAIN, STRANGE):
        fields = {name: getattr(deployment, name) for name in ("name", "app", "queues")}
        for name, text in units(Deployment(**fields, directory=str(tmp_path / "shop"))).items():
            paths.append(tmp_path / name)
            paths[-1].write_text(text)
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *map(str, paths)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    complaints = [line for line in verified.stderr.splitlines() if str(tmp_path) in line or "stanchion" in line]
    assert complaints == []
    assert verified.returncode == 0
    reviewed = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}", str(paths[0])],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert reviewed.returncode == 0, reviewed.stdout[-300:]


@pytest.mark.parametrize("deployment", [PLAIN, STRANGE], ids=["plain", "strange"])
def test_units_start_our_commands(deployment: Deployment) -> None:
    for name, text in units(deployment).items():
        (line,) = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
        program, *rest = words(line)
        assert program == "/srv/shop/.venv/bin/stanchion"
        given = parsed(["stanchion", *rest])
        if name.endswith("worker.service"):
            assert (given["target"], given["queues"]) == (deployment.app, [",".join(deployment.queues)])


def test_each_port_belongs_to_one_unit() -> None:
    text = "".join(units(PLAIN).values())
    ports = re.findall(r"(?:--health-port |127\.0\.0\.1:)(\d+)", text)
    assert len(ports) == len(set(ports)) == 4


def test_a_stop_waits_longer_than_the_grace() -> None:
    text = units(Deployment(grace=120))["stanchion-worker.service"]
    assert "--grace 120s" in text
    assert int(re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[0]) > 120
    assert "KillMode=mixed" in text  # only the main process gets SIGTERM


def test_a_program_in_a_home_folder_can_be_read() -> None:
    assert "ProtectHome=read-only" in units(Deployment(directory="/home/shop/app"))["stanchion-page.service"]
    assert "ProtectHome=yes" in units(Deployment(directory="/opt/home"))["stanchion-page.service"]


def test_processes_below_a_supervisor() -> None:
    assert "--processes" not in units(PLAIN)["stanchion-worker.service"]
    assert "--processes 4" in units(Deployment(processes=4))["stanchion-worker.service"]


def test_the_environment_file_keeps_the_url_literally() -> None:
    url = 'postgresql://app:a"$b\\c%20@db/shop'
    (file,) = systemd(Deployment(name="shop", url=url), ["secrets"])
    assert (file.name, file.private) == ("shop.env", True)
    assert f"STANCHION_URL='{url}'\n" in file.text
    assert all("EnvironmentFile=/etc/shop.env" in text for text in units(Deployment(name="shop")).values())
