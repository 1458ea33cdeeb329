"""A receiver in another language, examples/receiver.mjs, with the protocol loaded at run time."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.stores.memory import MemoryStore
from tests.docs.pages import ROOT
from tests.servers.manager import ManagerThread
from tests.servers.node import GRPC, node_modules

pytestmark = pytest.mark.slow


@pytest.fixture
def manager() -> Iterator[ManagerThread]:
    with ManagerThread(MemoryStore()) as manager:
        yield manager


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program, beside the protocol and its imports."""
    shutil.copy(ROOT / "examples" / "receiver.mjs", tmp_path)
    proto = files("stanchion.stores.wire") / "proto" / "stanchion" / "v1" / "stanchion.proto"
    (tmp_path / "stanchion.proto").write_text(proto.read_text())
    (tmp_path / "node_modules").symlink_to(node_modules(GRPC))
    return tmp_path / "receiver.mjs"


def test_it_receives_works_and_acknowledges(manager: ManagerThread, program: Path) -> None:
    with closing(Stanchion(manager.url)) as app:
        ids = [one.id for one in app.queue("thumbnails").push_many([{"number": number} for number in range(30)])]
        running = subprocess.run(
            ["node", str(program), manager.address, "thumbnails", "30"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert running.returncode == 0, running.stderr
        assert "30 jobs done, 30 newly" in running.stdout
        assert [done.result for one in ids if (done := app.get(one))] == [
            {"doubled": 2 * number} for number in range(30)
        ]
        assert app.queue("thumbnails").size().total == 0
