"""The time that a call to a store may take."""

import runpy
from typing import Any

import pytest

from stanchion.errors import InvalidInput
from stanchion.stores.records import calls

VARIABLE = "STANCHION_CALL_SECONDS"


def read(monkeypatch: pytest.MonkeyPatch, given: str | None) -> dict[str, Any]:
    """Return what the module has when it is imported with this environment."""
    if given is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, given)
    return runpy.run_path(calls.__file__)


@pytest.mark.parametrize(("given", "seconds", "for_many"), [(None, 10.0, 12.0), ("0.5", 0.5, 2.5), ("60", 60.0, 62.0)])
def test_is_ten_seconds_unless_the_environment_sets_another(
    monkeypatch: pytest.MonkeyPatch, given: str | None, seconds: float, for_many: float
) -> None:
    found = read(monkeypatch, given)
    assert (found["CALL_SECONDS"], found["seconds_for"](4000)) == (seconds, for_many)


@pytest.mark.parametrize("given", ["", "soon", "0", "-1", "nan", "inf"])
def test_must_be_a_number_above_0(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    with pytest.raises(InvalidInput, match=f"{VARIABLE} is '{given}', and must be a number of seconds above 0"):
        read(monkeypatch, given)
