"""Files and functions stay short enough to be read in one go."""

import ast
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FILE_LINES, FUNCTION_LINES = 400, 60


def sources() -> Iterator[Path]:
    for folder in ("src", "conformance/src", "examples", "benchmarks"):
        yield from (file for file in (REPOSITORY / folder).rglob("*.py") if "generated" not in file.parts)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node, but no expressions, which are most of what there is."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for below in getattr(node, name, ()):
            yield below
            yield from statements(below)


def test_no_file_is_long() -> None:
    lengths = {str(file.relative_to(REPOSITORY)): len(file.read_text().splitlines()) for file in sources()}
    assert len(lengths) > 400
    assert {name: length for name, length in lengths.items() if length > FILE_LINES} == {}


def test_no_function_is_long() -> None:
    long = {}
    for file in sources():
        for node in statements(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES:
                    long[f"{file.relative_to(REPOSITORY)}: {node.name}"] = length
    assert long == {}
