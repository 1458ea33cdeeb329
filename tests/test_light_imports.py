"""A program loads only what it uses: modules are counted, as time depends on the machine."""

import ast
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src/stanchion"

REPORT = "import json, sys; print(json.dumps(sorted(sys.modules)))"

DECLARES = """
from stanchion import Stanchion

app = Stanchion("sqlite:///jobs.db")


@app.task
def add(one: int, two: int) -> int:
    return one + two
"""

PUSHES = """
from stanchion import Stanchion

orders = Stanchion("sqlite:///jobs.db").queue("orders")
orders.push(1)
"""

DECLARES_MORE = """
from stanchion import Stanchion

app = Stanchion("sqlite:///jobs.db")
orders = app.queue("orders", max_rate=5, dead_letter="dead")


@app.task(queue="mail", rate=3)
def mail(to: str) -> None: ...


@app.task
def add(one: int, two: int) -> int:
    return one + two


orders.push(1)
add.enqueue(1, 2)
"""

HEAVY = {
    *("asyncio", "ssl", "email", "http", "concurrent.futures", "difflib", "html", "importlib.metadata", "subprocess"),
    *("sqlalchemy", "typer", "rich", "jinja2", "pydantic"),
}
"""Modules that a program does not load to declare tasks."""

LATER = {"alerts", "copying", "feed", "manager", "ops", "pipelines", "reporting", "spark", "topics", "worker", "waits"}
"""Packages of Stanchion that a program does not load to push a job."""


OWN_OF_APP, OWN_OF_PUSH = 120, 200
"""Maximum number of Stanchion's own modules for an app with its tasks, and for the first push to SQLite."""


SPLIT = 3 * max(0, sys.version_info.minor - 11)
"""Modules of the standard library that newer Pythons divide, such as pathlib's."""


def loaded(program: str, folder: Path) -> set[str]:
    """Return the names of the modules that a program has loaded at its end."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{program}\n{REPORT}"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout.splitlines()[-1]))


def own(found: set[str]) -> int:
    """Return how many of the modules are Stanchion's."""
    return sum(name.partition(".")[0] == "stanchion" for name in found)


@pytest.mark.parametrize(("program", "most"), [("import stanchion", 80), (DECLARES, 200)])
def test_a_declaration_loads_few_modules(tmp_path: Path, program: str, most: int) -> None:
    found = loaded(program, tmp_path)
    assert not found & HEAVY
    assert len(found) <= most + SPLIT
    assert own(found) <= (1 if program == "import stanchion" else OWN_OF_APP)


@pytest.mark.parametrize(
    ("program", "most", "used"),
    [
        (f"{DECLARES}\nadd.enqueue(1, 2)", 250, set()),
        (PUSHES, 310, {"waits"}),  # a queue can be reserved from
        (f"{PUSHES}\norders.push_many([2, 3])", 310, {"waits"}),
    ],
)
def test_a_first_push_to_sqlite_loads_what_it_needs(tmp_path: Path, program: str, most: int, used: set[str]) -> None:
    for _ in ("a new file", "an old one"):
        found = loaded(program, tmp_path)
        parts = {name.split(".")[1] for name in found if name.startswith("stanchion.")}
        assert not parts & (LATER - used)
        assert not found & {*HEAVY, "socket", "greenlet", "logging.handlers"}
        assert len(found) <= most + SPLIT
        assert own(found) <= OWN_OF_PUSH
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        ((stored,),) = connection.execute("SELECT count(*) FROM stanchion_jobs")
    assert stored == 2 * (3 if "many" in program else 1)


def test_declarations_that_are_stored_already_load_no_more(tmp_path: Path) -> None:
    assert "sqlalchemy" in loaded(DECLARES_MORE, tmp_path)
    assert not loaded(DECLARES_MORE, tmp_path) & HEAVY


def test_sqlalchemy_is_imported_as_a_whole_first() -> None:
    """`from sqlalchemy.engine import ...` fails while another thread imports sqlalchemy: each waits for the other."""
    partly = [path for path in SOURCES.rglob("*.py") if not imports_whole(path.read_text("utf-8"))]
    assert partly == []


def imports_whole(source: str) -> bool:
    """Return whether what is imported first, in the module or else in each function, is sqlalchemy itself."""
    if "sqlalchemy" not in source:
        return True
    module = ast.parse(source)
    functions = [node.body for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    first = [names[0] for body in (module.body, *functions) if (names := [one for node in body for one in parts(node)])]
    return set(first[:1] if any(map(parts, module.body)) else first) <= {"sqlalchemy"}


def parts(node: ast.stmt) -> list[str]:
    """Return the modules of SQLAlchemy that a statement imports."""
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return [name for name in names if name.split(".")[0] == "sqlalchemy"]
