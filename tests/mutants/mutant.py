"""A fault: what is replaced in a file, and which tests must notice."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault, read from a `[[mutant]]` of a file in this folder.

    `old` is found once in `file`, and replaced by `new`. `tests`: arguments of pytest, as in a shell.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str

    def applied_to(self, text: str) -> str:
        """Return the text of the file with the fault; ValueError where `old` is not found once."""
        if (times := text.count(self.old)) != 1:
            raise ValueError(f"mutant {self.name!r}: its text is found {times} times in {self.file}, not once")
        return text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    """Return all mutants, by the names of their files."""
    return [
        Mutant(**{**one, "name": f"{path.stem}: {one['name']}"})
        for path in sorted(FOLDER.glob("*.toml"))
        for one in tomllib.loads(path.read_text())["mutant"]
    ]
