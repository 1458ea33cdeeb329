"""A driver that buries misfits dies between any two calls of its store: each job ends once, and the brake holds."""

from typing import Any

import pytest

from stanchion.stores.memory.store import MemoryStore
from stanchion.streams import state
from stanchion_conformance.streams.stream_driver import Died, Log, Mortal
from tests.spark.misfits import MODES, WAYS, Orders, TypedDriver


def case(way: str, mode: str) -> Any:
    """Return a case for each call; a quicker one leaves out most of them."""
    return pytest.param(way, mode, 1, marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    ("way", "mode", "every"),
    [
        ("misfits", "move", 7),
        ("all that is taken out", "append", 5),
        *(case(way, mode) for way in WAYS for mode in MODES),
    ],
)
def test_each_job_ends_once_and_the_brake_holds(
    monkeypatch: pytest.MonkeyPatch, way: str, mode: str, every: int
) -> None:
    monkeypatch.setattr(state, "PORTION", 3)  # outcomes in one call, so that death comes between them
    dies_at, survived = 1 - every, False
    while not survived:
        dies_at += every
        store, log = MemoryStore(), Log()
        orders = Orders(store, log, mode, way)
        try:
            TypedDriver(Mortal(store, dies_at, after=True), log, mode, way).stops()
            survived = True
        except Died:
            TypedDriver(store, log, mode, way).stops()
        orders.check_stopped()
        TypedDriver(store, log, mode, way, percent=100).work()
        orders.check_ended()
    assert dies_at > 30
