"""What the page of internals says of code, and how the code has it.

python -m tests.docs.internals     rewrite the table of verbs
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from itertools import takewhile

from sqlalchemy import Index

from stanchion.stores.protocol import Store
from stanchion.stores.sql.engine.schema import metadata
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "internals.md"
SOURCE = ROOT / "src" / "stanchion"

_VERBS = re.compile(r"(?<=<!-- verbs -->\n).*?(?=<!-- end of verbs -->)", re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")
_PATH = re.compile(r"[\w./{},*-]+\.(?:py|lua|toml)|[\w/]+/")


def verbs() -> dict[str, str]:
    """Return the verbs of the port, as they are called, each with the first sentence of what it says of itself."""
    found = {}
    for name, verb in vars(Store).items():
        if not name.startswith("_") and callable(verb):
            parameters = [str(one).partition(":")[0] for one in inspect.signature(verb).parameters.values()]
            found[f"{name}({', '.join(parameters[1:])})"] = _first_sentence(inspect.getdoc(verb) or "")
    return found


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]


def table_of_verbs() -> str:
    """Return the table of verbs, as it stands in the page."""
    rows = [f"| `{call}` | {meaning.replace('|', chr(92) + '|')} |\n" for call, meaning in verbs().items()]
    return "".join(["| verb | |\n| --- | --- |\n", *rows])


def table_in_page() -> str:
    """Return the table of verbs that the page has."""
    found = _VERBS.search(PAGE.read_text())
    assert found, f"{PAGE.name} has no place for the table of verbs"
    return found[0]


def write() -> None:
    """Write the table of verbs into the page."""
    PAGE.write_text(_VERBS.sub(lambda _: table_of_verbs(), PAGE.read_text()))


# -- tables


def rows_after(text: str) -> Iterator[list[str]]:
    """Yield the rows of the first table after a piece of text, without its head, as texts of cells."""
    _, found, rest = PAGE.read_text().partition(text)
    assert found, f"{PAGE.name} does not have {text!r}"
    lines = iter(rest.splitlines())
    for line in lines:
        if line.startswith("| ---"):
            break
    for line in takewhile(lambda line: line.startswith("|"), lines):
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def names_in(cell: str) -> list[str]:
    """Return what a cell has in backquotes; several names may share a pair of them."""
    return [name.strip() for code in _CODE.findall(cell) for name in code.split(",")]


def tables_in_page() -> list[str]:
    """Return the tables of the database that the page has a section for."""
    return re.findall(r"^\*\*`(stanchion_\w+)`\*\*", PAGE.read_text(), re.MULTILINE)


def columns_in_page(table: str) -> list[str]:
    """Return the columns of a table that the page names."""
    return [name for row in rows_after(f"\n**`{table}`**") for name in names_in(row[0])]


def indexes() -> dict[str, list[str]]:
    """Return the indexes on databases with partial ones, with their columns."""
    found: dict[str, list[str]] = {}
    for table in metadata.sorted_tables:
        for index in table.indexes:
            if index.name is not None and not _is_for_mysql(index):
                found[index.name] = [re.split(r"[ .]", str(one))[-1] for one in _columns(index)]
    return found


def _columns(index: Index) -> list[str]:
    return [str(expression).replace(' COLLATE "C"', "") for expression in index.expressions]


def _is_for_mysql(index: Index) -> bool:
    condition = getattr(index, "_ddl_if", None)
    return condition is not None and condition.dialect == "mysql"


# -- packages and layers


def layers() -> list[set[str]]:
    """Return the layers of the contract, from above; packages that are still to come are left out."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [contract for contract in contracts if contract.get("containers") == ["stanchion"]]
    named = [[name.strip() for name in layer.split("|")] for layer in found["layers"]]
    kept = [{name for name in layer if not name.startswith("(")} for layer in named]
    return [layer for layer in kept if layer]


def layers_in_page() -> list[set[str]]:
    """Return the layers of the picture."""
    _, _, rest = PAGE.read_text().partition("<!-- layers -->\n```text\n")
    picture, _, _ = rest.partition("```")
    lines = [line.strip() for line in picture.splitlines()]
    drawn = [re.split(r"\s{2,}", line)[0] for line in lines if line and line != "▼"]
    return [{name.strip() for name in line.split("|")} for line in drawn]


def packages(of: str = "") -> set[str]:
    """Return the modules and packages of a folder of the package, but for those that say nothing of themselves."""
    return {
        one.stem if one.suffix == ".py" else one.name
        for one in (SOURCE / of).iterdir()
        if one.name not in ("__init__.py", "__main__.py", "__pycache__", "py.typed")
    }


def paths_in_page() -> set[str]:
    """Return all that the page names like a file or a folder of code."""
    return {name for code in _CODE.findall(PAGE.read_text()) for name in [code.strip()] if _PATH.fullmatch(name)}


def is_there(path: str) -> bool:
    """Tell whether the repository or the package has such a file or folder; `*` and `{a,b}` stand for several."""
    choices = re.match(r"(.*)\{([^}]*)\}(.*)", path)
    if choices:
        return all(is_there(f"{choices[1]}{one.strip()}{choices[3]}") for one in choices[2].split(","))
    return any(any(root.glob(path)) for root in (SOURCE, SOURCE / "stores", ROOT))


if __name__ == "__main__":
    write()
