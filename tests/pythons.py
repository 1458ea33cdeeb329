"""The quick tests on each other Python that is found, for `make nightly`; `python -m tests.pythons 3.13` names one.

`make test` runs them on the Python of its environment.

Each gets an environment in a cache folder, kept for later runs: `/var/cache/stanchion/pythons` for root, else
`~/.cache/stanchion/pythons`. The output of the tests is in `build/pythons`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
REPORTS = REPOSITORY / "build" / "pythons"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
QUICK = ("-q", "-n", "auto", "--dist", "worksteal", "-m", "not slow and not nightly")
_SHOWN = "import sys; print(*sys.version_info[:3], sep='.')"


def cache() -> Path:
    """Return the folder of the environments."""
    return (Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache") / "stanchion" / "pythons"


def interpreter(version: str) -> Path | None:
    """Return the newest interpreter of a version, from PATH or pyenv; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    places = [shutil.which(f"python{version}"), *pyenv.glob(f"{version}.*/bin/python")]
    found = {Path(place): number for place in places if place is not None and (number := _number(Path(place)))}
    return max(found, key=lambda place: [int(part) for part in found[place].split(".")], default=None)


def _number(python: Path) -> str | None:
    """Return the full version of an interpreter; None if it does not run, as a shim of pyenv may not."""
    run = subprocess.run([python, "-c", _SHOWN], capture_output=True, text=True, check=False)
    return run.stdout.strip() if run.returncode == 0 else None


@contextmanager
def environment(version: str, python: Path) -> Iterator[Path]:
    """Lend the interpreter of an environment with this code and the packages that its tests need."""
    place = cache() / version
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(f"{place.suffix}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(place, python)
        yield place / "bin" / "python"


def _install(place: Path, python: Path) -> None:
    """Install what has changed since the last run: everything, or the place of this code."""
    projects = [REPOSITORY, REPOSITORY / "conformance"]
    editable = [part for project in projects for part in ("--editable", str(project))]
    needed = b"".join((project / "pyproject.toml").read_bytes() for project in projects)
    wanted = [_number(python), hashlib.sha256(needed).hexdigest(), str(REPOSITORY)]
    mark = place / "installed"
    found = mark.read_text().split("\n") if mark.exists() else []
    if found == wanted:
        return
    pip: list[str | Path] = [place / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    mark.unlink(missing_ok=True)
    if found[:2] == wanted[:2]:
        _run([*pip, "--no-deps", *editable])
    else:
        if found[:1] != wanted[:1]:
            _run([python, "-m", "venv", "--clear", place])
            _run([*pip, "--upgrade", "pip>=25.1"])
        _run([*pip, *editable, "--group", f"{REPOSITORY / 'pyproject.toml'}:dev"])
    mark.write_text("\n".join(map(str, wanted)))


def _run(command: Sequence[str | Path]) -> None:
    subprocess.run(command, check=True, cwd=REPOSITORY, env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"})


def tested(version: str) -> bool:
    """Run the quick tests on a version, and print a line; False if any failed."""
    python = interpreter(version)
    if python is None:
        print(f"Python {version}: not found, so not tested", flush=True)
        return True
    REPORTS.mkdir(parents=True, exist_ok=True)
    report = REPORTS / f"{version}.txt"
    with environment(version, python) as installed, report.open("w") as output:
        command: list[str | Path] = [installed, "-m", "pytest", *QUICK]
        code = subprocess.run(command, cwd=REPOSITORY, stdout=output, stderr=output, check=False).returncode
    lines = report.read_text().splitlines() or [""]
    summary = lines[-1].strip("= ")
    print(f"Python {_number(python)}: {summary}", flush=True)
    if code:
        print(*[line for line in lines if re.match(r"(FAILED|ERROR) ", line)], f"see {report}", sep="\n", flush=True)
    return code == 0


def main(versions: Sequence[str]) -> int:
    """Test on these versions, or on all others than this one; return 1 if a test failed."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    passed = [tested(version) for version in versions or [one for one in VERSIONS if one != own]]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
