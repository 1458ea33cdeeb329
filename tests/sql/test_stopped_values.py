"""A process that stops amid a compare-and-set keeps no other one from it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest

from stanchion.stores.registry import open_store

KIND, NAME = "manager.slice", "orders/0"

STOPPING = """
import json, os, signal, sys
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.runner import CursorRunner

url, text, version, lost = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
store = open_store(url)
store.now()
real = CursorRunner.execute

def execute(self, *given):
    global lost
    if lost:
        lost -= 1
        raise errors.InterfaceError(0, "the connection is lost")
    real(self, *given)
    print("carried out", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

if url.startswith("postgresql"):
    import psycopg as errors
else:
    import pymysql.err as errors
CursorRunner.execute = execute
store.compare_and_set("manager.slice", "orders/0", text, version)
"""


@pytest.mark.one_in_each("before", "url", "lost")
@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("lost", [0, 1], ids=["first", "repeat"])
@pytest.mark.parametrize(
    ("before", "text", "then"), [(0, '"theirs"', 1), (1, '"theirs"', 2), (1, "null", 0)], ids=["new", "changed", "gone"]
)
def test_the_next_one_goes_on(url: str, before: int, text: str, then: int, lost: int) -> None:
    with closing(open_store(url)) as store:
        for version in range(before):
            assert store.compare_and_set(KIND, NAME, "before", version)
        command = [sys.executable, "-c", STOPPING, url, text, str(before), str(lost)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "carried out\n"
            assert store.compare_and_set(KIND, NAME, "mine", then)
            assert [(one.text, one.version) for one in store.values(KIND)] == [("mine", then + 1)]
        finally:
            process.kill()
            process.wait()
