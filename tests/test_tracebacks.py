"""Tracebacks as Python prints them, formatted once for each place in the code."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stanchion.core.text import tracebacks
from stanchion.core.text.error_texts import MAX_TRACEBACK, bounded_trace
from stanchion.core.text.tracebacks import FRAMES, KNOWN_MAX, trace_of


def printed(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-FRAMES))


def raised(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError


def deep(frames: int, text: str = "no answer") -> None:
    if frames:
        deep(frames - 1, text)
    else:
        raise TimeoutError(text)


def caused() -> None:
    try:
        deep(2)
    except TimeoutError as error:
        raise ValueError("two") from error


def during() -> None:
    try:
        deep(2)
    except TimeoutError:
        raise ValueError("two")  # noqa: B904 - a context


def hidden() -> None:
    try:
        deep(2)
    except TimeoutError:
        raise ValueError("two") from None


def loud() -> None:
    deep(2, "x" * 1_000_000)


def loudly_caused() -> None:
    try:
        loud()
    except TimeoutError as error:
        raise ValueError("y\n" * 1_000_000) from error


@pytest.mark.parametrize("call", [loud, loudly_caused])
def test_a_huge_message_leaves_room_for_the_frames(call: Callable[[], None]) -> None:
    kept = bounded_trace(trace_of(raised(call)))
    assert kept is not None
    assert kept.startswith("Traceback (most recent call last):")
    assert len(kept) <= MAX_TRACEBACK
    assert kept.count("in deep") >= 2
    assert f"in {call.__name__}" in kept
    assert "TimeoutError: xxx" in kept


def noted() -> None:
    error = ValueError("a\nb")
    error.add_note("a note")
    raise error


def several() -> None:
    raise ExceptionGroup("both", [raised(partial(deep, 1)), ValueError("two")])  # type: ignore[type-var]


def either(first: bool) -> None:
    if first:
        raise ValueError("two")
    raise ValueError("two")


def misspelt() -> None:
    printd  # type: ignore[name-defined]  # noqa: B018, F821


def unknown() -> None:
    [].apend(1)  # type: ignore[attr-defined]


def unreadable() -> None:
    exec("a b")  # noqa: S102


CASES: list[Callable[[], Any]] = [
    *(partial(deep, 0), partial(deep, 2), partial(deep, 50)),
    *(caused, during, hidden, noted, several, misspelt, unknown, unreadable),
]


@pytest.mark.parametrize("case", CASES)
def test_they_are_as_python_prints_them(case: Callable[[], Any]) -> None:
    for _ in range(2):
        error = raised(case)
        assert trace_of(error) == printed(error)


def test_places_in_one_function_are_told_apart() -> None:
    for first in (True, False):
        error = raised(partial(either, first))
        assert trace_of(error) == printed(error)


def test_the_message_is_that_of_the_error_and_the_frames_are_formatted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    whole = traceback.format_tb
    monkeypatch.setattr(tracebacks, "_known", {})

    def counted(*args: Any, **more: Any) -> list[str]:
        calls.append(args)
        return whole(*args, **more)

    monkeypatch.setattr(traceback, "format_tb", counted)
    texts = {trace_of(raised(partial(deep, 2, f"no answer {number}"))) for number in range(5)}
    assert len(texts) == 5
    assert len(calls) == 1


def test_code_that_is_reloaded_shows_its_new_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracebacks, "_known", {})
    module = tmp_path / "reloaded.py"
    for number in range(200):
        module.write_text(f"def fail():\n    raise ValueError('the {number}. line', {'0' * number!r})\n")
        names: dict[str, Any] = {}
        exec(compile(module.read_text(), module, "exec"), names)  # noqa: S102
        error = raised(names["fail"])
        assert trace_of(error) == printed(error)
        del error


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[Any, Any] = {}
    monkeypatch.setattr(tracebacks, "_known", known)
    monkeypatch.setattr(tracebacks, "KNOWN_MAX", 3)
    assert KNOWN_MAX > 3
    for frames in range(8):
        trace_of(raised(partial(deep, frames)))
        assert len(known) <= 3


def test_one_that_was_not_raised_has_none() -> None:
    assert trace_of(ValueError("x")) is None
