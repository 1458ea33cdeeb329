"""Node.js with the packages of programs in another language, for tests of what these do."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests.servers.process import ServerMissing

MONGODB = ("mongodb@6.22.0",)
GRPC = ("@grpc/grpc-js@1.13.4", "@grpc/proto-loader@0.7.15")

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
"""The authorities that Debian trusts, also one that an administrator has added; Node knows only its own."""


def npm_environment() -> dict[str, str]:
    """Return the environment for npm."""
    return {"NODE_EXTRA_CA_CERTS": CERTIFICATES, **os.environ}


def node_modules(packages: tuple[str, ...]) -> Path:
    """Return a folder with these packages; they are installed once, and kept for later runs."""
    for program, package in (("node", "nodejs"), ("npm", "npm")):
        if shutil.which(program) is None:
            raise ServerMissing(f"no {program}: install it (Debian: apt-get install {package})")
    cache = Path("/var/cache") if os.geteuid() == 0 else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "stanchion" / "node"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "+".join(packages).replace("/", "_")
        if not done.exists():
            install = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", *packages]
            installed = subprocess.run(
                install, env=npm_environment(), capture_output=True, text=True, timeout=300, check=False
            )
            if installed.returncode:
                raise ServerMissing(f"npm can't install {', '.join(packages)}: {installed.stderr[-500:]}")
            done.touch()
    return folder / "node_modules"
