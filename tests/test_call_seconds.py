"""The time that a call to a store may take."""

import os
import subprocess
import sys

import pytest

READ = "from stanchion.stores.records.calls import CALL_SECONDS, seconds_for; print(CALL_SECONDS, seconds_for(4000))"


def read(given: str | None) -> "subprocess.CompletedProcess[str]":
    others = {name: value for name, value in os.environ.items() if name != "STANCHION_CALL_SECONDS"}
    environment = others if given is None else {**others, "STANCHION_CALL_SECONDS": given}
    return subprocess.run([sys.executable, "-c", READ], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("given", "printed"), [(None, "10.0 12.0"), ("0.5", "0.5 2.5"), ("60", "60.0 62.0")])
def test_is_ten_seconds_unless_the_environment_sets_another(given: str | None, printed: str) -> None:
    assert read(given).stdout.strip() == printed


@pytest.mark.parametrize("given", ["", "soon", "0", "-1", "nan", "inf"])
def test_must_be_a_number_above_0(given: str) -> None:
    done = read(given)
    assert done.returncode != 0
    assert f"STANCHION_CALL_SECONDS is {given!r}, and must be a number of seconds above 0" in done.stderr
