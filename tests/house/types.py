"""Counts of what type checkers can't check, and of the parameters of constructors."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache

from tests.house.named_fields import SOURCE, files

PARAMETERS = 8
"""Parameters that a constructor may have, without `self`."""


@cache
def trees() -> list[tuple[str, str, ast.Module]]:
    """Return each Python file: its name, its text, its tree."""
    texts = {str(path.relative_to(SOURCE)): path.read_text() for path in files() if path.suffix == ".py"}
    return [(name, text, ast.parse(text)) for name, text in texts.items()]


def unchecked() -> dict[str, int]:
    """Return how often the package names `Any`, casts a value, and silences the type checker."""
    found = Counter[str]()
    for _, text, tree in trees():
        found["type: ignore"] += text.count("# type: ignore")
        for node in ast.walk(tree):
            found["Any"] += isinstance(node, ast.Name) and node.id == "Any"
            found["cast"] += isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast"
    return dict(found)


def constructors() -> dict[str, int]:
    """Return the constructors with many parameters. Fields of dataclasses and named tuples are no parameters here."""
    return {
        f"{path}:{one.name}": parameters
        for path, _, tree in trees()
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef)
        for function in one.body
        if isinstance(function, ast.FunctionDef) and function.name == "__init__"
        if (parameters := _parameters(function.args)) > PARAMETERS
    }


def _parameters(given: ast.arguments) -> int:
    return len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - 1
