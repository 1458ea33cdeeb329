"""Reference of the Python API, from signatures and docstrings, without importing the package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import griffe
from docs.site.reference.tables import block, prose
from docs.site.staging import ROOT

MODULES: Final = ("alembic", "django", "spark", "testing", "pytest_plugin", "sentry", "opentelemetry", "middleware")
"""Further public modules; those that exist get a page of the names in their `__all__`."""


@cache
def package() -> Any:
    """Return the package as griffe reads it."""
    return griffe.load("stanchion", search_paths=[ROOT / "src"], resolve_aliases=True)


def pages() -> dict[str, str]:
    """Return the text of each page, by path."""
    written = {}
    for title, names in groups().items():
        if title != "Errors":
            found = [package().members[name].final_target for name in names if not name.startswith("_")]
            slug = re.sub(r"[^a-z]+", "-", title.lower()).strip("-")
            written[f"reference/api-{slug}.md"] = _page(f"API: {title[0].lower()}{title[1:]}", "", found)
    for name in MODULES:
        module = package().modules.get(name)
        if module is not None:
            text = prose(module.docstring.value if module.docstring else "")
            written[f"reference/module-{name}.md"] = _page(f"API: stanchion.{name}", text, list(_exports(module)))
    return written


def groups() -> dict[str, list[str]]:
    """Return the names in `stanchion.__all__`, by the comments that head its groups."""
    text = (ROOT / "src" / "stanchion" / "__init__.py").read_text("utf-8")
    found: dict[str, list[str]] = {}
    for line in text.partition("__all__ = [")[2].partition("\n]")[0].splitlines()[1:]:
        if (entry := line.strip()).startswith("#"):
            found[entry.lstrip("# ")] = []
        else:
            next(reversed(found.values())).append(entry.strip('",'))
    return found


def exceptions() -> list[Any]:
    """Return the exceptions that the package exports."""
    return [package().members[name].final_target for name in groups()["Errors"] if not name.startswith("_")]


def _exports(module: Any) -> Iterator[Any]:
    """Yield the public objects of a module: those in its `__all__`, or else those that it defines."""
    for name, member in module.members.items():
        public = str(name) in map(str, module.exports) if module.exports else not member.is_alias
        target = member.final_target if member.is_alias and public else member
        if public and not name.startswith("_") and not target.is_module and (module.exports or target.docstring):
            yield target


def _page(title: str, text: str, objects: list[Any]) -> str:
    parts = [f"# {title}", text, *(part for one in objects for part in described(one))]
    return "\n\n".join(filter(None, parts)) + "\n"


def described(one: Any, title: str | None = None) -> Iterator[str]:
    """Yield the parts of an object's section: heading, signature, docstring, members."""
    yield f"## {title or one.name}"
    if one.is_class:
        yield block(f"class {one.name}({_parameters(one)})")
    elif one.is_function:
        yield block(_signatures(one))
    elif one.is_attribute:
        yield block(f"{one.name} = {one.value}" if one.value else f"{one.name}: {one.annotation}")
    yield _docstring(one)
    if one.is_class:
        for member in _members(one):
            yield f"### {one.name}.{member.name}"
            yield block(_signatures(member) if member.is_function else f"{member.name}: {member.annotation or 'Any'}")
            yield _docstring(member)
            yield _twin(one, member.name)


_FORMS: Final = {"off_loop_each": "async for ... in", "off_loop_block": "async with"}
"""How a twin is called, by the function that makes it; the others are awaited."""


def _twin(one: Any, name: str) -> str:
    """Return a line about the async twin of a method; twins with a docstring have a section of their own."""
    twin = one.all_members.get(f"a{name}")
    if twin is None or twin.docstring is not None:
        return ""
    maker = str(getattr(twin, "value", "")).partition("(")[0]
    return f"Async: `{_FORMS.get(maker, 'await')} a{name}(...)`, with the same parameters."


def _members(one: Any) -> Iterator[Any]:
    """Yield the public members that have docstrings, those of bases in the package included."""
    for name, member in one.all_members.items():
        if name.startswith("_"):
            continue
        target = member.final_target if member.is_alias else member
        if target.docstring is not None and not target.is_class:
            yield target


def _docstring(one: Any) -> str:
    return prose(one.docstring.value) if one.docstring else ""


def _parameters(one: Any) -> str:
    return _listed(one.parameters, annotated=False) if one.parameters else ""


def _signatures(function: Any) -> str:
    forms = function.overloads or [function]
    return "\n".join(_signature(form) for form in forms)


def _signature(function: Any) -> str:
    start = "async def" if "async" in function.labels else "def"
    returned = f" -> {function.returns}" if function.returns is not None else ""
    whole = f"{start} {function.name}({_listed(function.parameters)}){returned}"
    if len(whole) <= 100:
        return whole
    inside = "".join(f"    {one},\n" for one in _each(function.parameters))
    return f"{start} {function.name}(\n{inside}){returned}"


def _listed(parameters: Any, *, annotated: bool = True) -> str:
    return ", ".join(_each(parameters, annotated=annotated))


def _each(parameters: Any, *, annotated: bool = True) -> list[str]:
    shown: list[str] = []
    keyword_only = False
    for one in parameters:
        if one.name in ("self", "cls"):
            continue
        kind = str(one.kind.value) if one.kind else ""
        if kind == "variadic positional":
            keyword_only = True
        elif kind == "keyword-only" and not keyword_only:
            shown.append("*")
            keyword_only = True
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        text = f"{stars}{one.name}"
        if annotated and one.annotation is not None:
            text += f": {one.annotation}"
        if one.default is not None and not stars:
            text += f" = {one.default}" if annotated and one.annotation is not None else f"={one.default}"
        shown.append(text)
    return shown
