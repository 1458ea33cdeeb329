"""Node.js with MongoDB's driver, for tests of what programs in another language do."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests.servers.process import ServerMissing

_DRIVER = "mongodb@6.22.0"


def node_modules() -> Path:
    """Return a folder with the driver; it is installed once, and kept for later runs."""
    for program, package in (("node", "nodejs"), ("npm", "npm")):
        if shutil.which(program) is None:
            raise ServerMissing(f"no {program}: install it (Debian: apt-get install {package})")
    cache = Path("/var/cache") if os.geteuid() == 0 else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "stanchion" / "node"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / _DRIVER
        if not done.exists():
            install = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", _DRIVER]
            installed = subprocess.run(install, capture_output=True, text=True, timeout=300, check=False)
            if installed.returncode:
                raise ServerMissing(f"npm can't install {_DRIVER}: {installed.stderr[-500:]}")
            done.touch()
    return folder / "node_modules"
