"""Read the facts that the pages on internals state about the code, and the same facts from the code."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import takewhile

from sqlalchemy import Index

from stanchion.stores.protocol import Store
from stanchion.stores.sql.engine.schema import metadata
from tests.docs.pages import ROOT

PAGES = [ROOT / "docs" / "internals.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "inside").glob("*.md"))]
SOURCE = ROOT / "src" / "stanchion"

_CODE = re.compile(r"`([^`]+)`")
_PATH = re.compile(r"[\w./{},*-]+\.(?:py|lua|toml)|[\w/]+/")


def verbs() -> list[str]:
    """Return the names of the verbs of the port."""
    named = [name for name, verb in vars(Store).items() if not name.startswith("_") and callable(verb)]
    return [name for name in named if name != "extension"]


def text() -> str:
    """Return the text of all pages."""
    return "\n".join(page.read_text() for page in PAGES)


# -- tables


def rows_after(heading: str) -> Iterator[list[str]]:
    """Yield the rows of the first table after a text, without its head, as lists of cells."""
    _, found, rest = text().partition(heading)
    assert found, f"no page has {heading!r}"
    lines = iter(rest.splitlines())
    for line in lines:
        if line.startswith("| ---"):
            break
    for line in takewhile(lambda line: line.startswith("|"), lines):
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def names_in(cell: str) -> list[str]:
    """Return the names in backquotes in a cell; several names may share a pair of backquotes."""
    return [name.strip() for code in _CODE.findall(cell) for name in code.split(",")]


def tables_in_pages() -> list[str]:
    """Return the tables of the database that have a section."""
    return re.findall(r"^\*\*`(stanchion_\w+)`\*\*", text(), re.MULTILINE)


def columns_in_page(table: str) -> list[str]:
    """Return the columns of a table as its section lists them."""
    return [name for row in rows_after(f"\n**`{table}`**") for name in names_in(row[0])]


def indexes() -> dict[str, list[str]]:
    """Return the indexes on databases with partial ones, with their columns; without those of PostgreSQL only."""
    found: dict[str, list[str]] = {}
    for table in metadata.sorted_tables:
        for index in table.indexes:
            if index.name is not None and not _is_for_others(index):
                found[index.name] = [re.split(r"[ .]", str(one))[-1] for one in _columns(index)]
    return found


def _columns(index: Index) -> list[str]:
    return [str(expression).replace(' COLLATE "C"', "") for expression in index.expressions]


def _is_for_others(index: Index) -> bool:
    condition = getattr(index, "_ddl_if", None)
    return condition is not None and condition.dialect in {"mysql", "postgresql"}


# -- packages and layers


def layers() -> list[set[str]]:
    """Return the layers of the contract from the top; leave out packages that do not exist yet."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [contract for contract in contracts if contract.get("containers") == ["stanchion"]]
    named = [[name.strip() for name in layer.split("|")] for layer in found["layers"]]
    kept = [{name for name in layer if not name.startswith("(")} for layer in named]
    return [layer for layer in kept if layer]


def layers_in_page() -> list[set[str]]:
    """Return the layers of the diagram."""
    _, _, rest = text().partition("<!-- layers -->\n```text\n")
    picture, _, _ = rest.partition("```")
    lines = [line.strip() for line in picture.splitlines()]
    drawn = [re.split(r"\s{2,}", line)[0] for line in lines if line and line != "▼"]
    return [{name.strip() for name in line.split("|")} for line in drawn]


def packages(of: str = "") -> set[str]:
    """Return the names of modules and packages in a folder of the package, except `__init__` and the like."""
    return {
        one.stem if one.suffix == ".py" else one.name
        for one in (SOURCE / of).iterdir()
        if one.name not in ("__init__.py", "__main__.py", "__pycache__", "py.typed")
    }


def paths_in_pages() -> set[str]:
    """Return every name of a code file or folder on the pages."""
    return {name for code in _CODE.findall(text()) for name in [code.strip()] if _PATH.fullmatch(name)}


def is_there(path: str) -> bool:
    """Return whether the repository or the package has this file or folder; `*` and `{a,b}` match several."""
    choices = re.match(r"(.*)\{([^}]*)\}(.*)", path)
    if choices:
        return all(is_there(f"{choices[1]}{one.strip()}{choices[3]}") for one in choices[2].split(","))
    return any(any(root.glob(path)) for root in (SOURCE, SOURCE / "stores", ROOT))
