"""Makes the Python code of the protocol; needs grpcio-tools 1.76.0, the oldest that the extra `grpc` allows.

    python -m tests.manager.wire.generate

Newer tools make code that refuses the older protobuf that the extra allows.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.docs.pages import ROOT

WIRE = ROOT / "src" / "stanchion" / "stores" / "wire"
PROTO = WIRE / "proto" / "stanchion" / "v1" / "stanchion.proto"
GENERATED = WIRE / "generated"
DIGEST = GENERATED / "digest.txt"

TOOLS = "1.76.0"
"""The release of grpcio-tools that makes the committed code."""


def digest() -> str:
    """Return the digest of the protocol as it is now."""
    return hashlib.sha256(PROTO.read_bytes()).hexdigest()


def generate(folder: Path) -> None:
    """Write the code of the protocol to a folder."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{WIRE / 'proto'}"]
    command += [f"--python_out={folder}", f"--pyi_out={folder}", str(PROTO)]
    subprocess.run(command, check=True)
    for file in (folder / "stanchion" / "v1").iterdir():
        file.rename(folder / file.name)


def main() -> None:
    """Replace the committed code."""
    with TemporaryDirectory() as folder:
        generate(Path(folder))
        for name in ("stanchion_pb2.py", "stanchion_pb2.pyi"):
            (GENERATED / name).write_text((Path(folder) / name).read_text())
    DIGEST.write_text(digest() + "\n")


if __name__ == "__main__":
    main()
