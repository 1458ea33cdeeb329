"""Reference of the Python API, from signatures and docstrings, without importing the package."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import griffe
from docs.site.reference.tables import block, prose
from docs.site.staging import ROOT

GROUPS: Final = {
    "app": "The app",
    "tasks": "Tasks",
    "jobs": "Jobs",
    "queues": "Queues",
    "core": "Retries and helpers",
    "flows": "Flows",
    "cron": "Schedules",
    "topics": "Topics",
    "feed": "Feed",
    "worker": "Workers",
    "pipelines": "Pipelines",
}
"""Title of the names that `stanchion` exports, by the package that defines them; others get their package's name."""

MODULES: Final = ("alembic", "django", "spark", "testing", "pytest_plugin", "sentry", "opentelemetry", "middleware")
"""Further public modules; those that exist get a page of the names in their `__all__`."""


@cache
def package() -> Any:
    """Return the package as griffe reads it."""
    return griffe.load("stanchion", search_paths=[ROOT / "src"], resolve_aliases=True)


def pages() -> dict[str, str]:
    """Return the text of each page, by path."""
    found: dict[str, list[Any]] = {}
    for exported in _exports(package()):
        where = exported.path.split(".")[1]
        if where != "errors" and not exported.name.startswith("_"):
            found.setdefault(where, []).append(exported)
    order = [*GROUPS, *(name for name in found if name not in GROUPS)]
    written = {
        f"reference/api-{name}.md": _page(f"API: {GROUPS.get(name, name).lower()}", "", found[name])
        for name in order
        if name in found
    }
    for name in MODULES:
        module = package().modules.get(name)
        if module is not None and module.exports:
            text = prose(module.docstring.value if module.docstring else "")
            written[f"reference/module-{name}.md"] = _page(f"API: stanchion.{name}", text, list(_exports(module)))
    return written


def exceptions() -> list[Any]:
    """Return the exceptions that the package exports."""
    return [one for one in _exports(package()) if one.path.split(".")[1] == "errors"]


def _exports(module: Any) -> Iterator[Any]:
    for name in module.exports or ():
        member = module.members.get(str(name))
        if member is not None and not str(name).startswith("_"):
            yield member.final_target if member.is_alias else member


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
