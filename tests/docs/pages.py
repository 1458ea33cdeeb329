"""The fenced blocks of a page of the documentation."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"# (?P<file>[\w/.]+\.(?:py|toml|ini|mako))\n")
_VALUE = re.compile(r"# -> (?P<value>.+)$")


@dataclass(frozen=True)
class Block:
    """One fenced block. `line`: of the page, where its text begins. `reason`: why it is not run, if so."""

    language: str
    text: str
    line: int
    reason: str | None

    @property
    def file(self) -> str | None:
        """The file that the reader is to save it as: the comment in its first line."""
        named = _FILE.match(self.text)
        return named["file"] if named else None


@dataclass(frozen=True)
class Command:
    """A line of a console block that starts with `$`, and the lines it prints."""

    text: str
    output: list[str]
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(found["language"], found["text"], text.count("\n", 0, found.start("text")) + 1, found["reason"])
        for found in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block; a backslash at the end of a line continues it."""
    found: list[Command] = []
    continued = False
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append(Command(line[2:], [], number))
        elif continued:
            found[-1] = Command(f"{found[-1].text}\n{line}", [], found[-1].line)
        else:
            found[-1].output.append(line)
            continue
        continued = line.endswith("\\")
    return found


def value_of(line: str) -> str | None:
    """Return the value that a line of Python claims to have: `1 + 1  # -> 2`."""
    found = _VALUE.search(line)
    return found["value"].strip() if found else None
