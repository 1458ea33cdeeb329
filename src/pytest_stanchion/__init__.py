"""Fixtures of pytest for apps of Stanchion; pytest loads them by itself where the package is installed.

Nothing of Stanchion is imported before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from stanchion import Job, Stanchion, Task
    from stanchion.app.testing import Clock

__all__ = ["AssertEnqueued", "assert_enqueued", "stanchion_app", "stanchion_clock", "stanchion_project"]

_OPTION = "stanchion_app"
_MARK = "stanchion"


class AssertEnqueued(Protocol):
    """The type of the fixture `assert_enqueued`."""

    def __call__(
        self,
        task: Task[..., object] | str,
        /,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        times: int | None = None,
    ) -> list[Job]:
        """Return the jobs that call the task with these arguments; see `Stanchion.assert_enqueued`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting that names the app."""
    parser.addini(_OPTION, "The app of the fixture stanchion_app, as module:attribute, such as shop.jobs:app.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark with the options of `app.testing()`."""
    config.addinivalue_line("markers", f"{_MARK}(at, run, url): options of app.testing() for the fixture stanchion_app")


@pytest.fixture(scope="session")
def stanchion_project(pytestconfig: pytest.Config) -> Stanchion:
    """The app under test: the one that the setting stanchion_app names. Override this fixture to make it otherwise."""
    path = pytestconfig.getini(_OPTION)
    if not path:
        raise pytest.UsageError(
            "the fixtures of Stanchion don't know the app: set stanchion_app = shop.jobs:app in the configuration of "
            "pytest, or return the app from a fixture stanchion_project in conftest.py"
        )
    from stanchion.service.loading import load

    return load(path)


@pytest.fixture
def stanchion_clock(request: pytest.FixtureRequest, stanchion_project: Stanchion) -> Iterator[Clock]:
    """The clock of `app.testing()`, with the options of the mark `stanchion`; the closest mark wins."""
    options: dict[str, Any] = {}
    for mark in request.node.iter_markers(_MARK):
        if mark.args:
            raise pytest.UsageError(f"pytest.mark.{_MARK} takes keyword arguments only, as app.testing() does")
        options = {**mark.kwargs, **options}
    with stanchion_project.testing(**options) as clock:
        yield clock


@pytest.fixture
def stanchion_app(stanchion_project: Stanchion, stanchion_clock: Clock) -> Stanchion:  # noqa: ARG001 - its block
    """The app under test, within `app.testing()`."""
    return stanchion_project


@pytest.fixture
def assert_enqueued(stanchion_app: Stanchion) -> AssertEnqueued:
    """The method `assert_enqueued` of the app under test."""
    return stanchion_app.assert_enqueued
