"""Build the site into build/site/VERSION; `python -m docs.site.build [FOLDER]`.

A version is built into its own folder, next to `versions.json`, which the switcher of each version reads: build
further versions into the same FOLDER. A warning is an error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from docs.site.reference import api, commands, environment, errors, http_api, metrics, settings
from docs.site.staging import ROOT, stage

from stanchion import __version__

VERSION = ".".join(__version__.split(".")[:2])


def reference() -> dict[str, str]:
    """Return the generated pages, by path below docs/, in the order of the navigation."""
    return {
        "reference/settings.md": settings.page(),
        "reference/commands.md": commands.page(),
        "reference/environment.md": environment.page(),
        "reference/metrics.md": metrics.page(),
        "reference/errors.md": errors.page(),
        "reference/http-api.md": http_api.page(),
        **api.pages(),
    }


def build(folder: Path) -> int:
    """Build the site; return Sphinx's exit code."""
    from sphinx.cmd.build import main as sphinx

    source = folder.parent / f"{folder.name}-source"
    stage(source, reference())
    options = ["-c", str(Path(__file__).parent), "-b", "html", "-q", "-E", "-W", "--keep-going"]
    code = sphinx([*options, "-d", str(folder.parent / f"{folder.name}-doctrees"), str(source), str(folder / VERSION)])
    if code == 0:
        _list_version(folder)
    return code


def _list_version(folder: Path) -> None:
    file = folder / "versions.json"
    known = json.loads(file.read_text("utf-8")) if file.exists() else []
    others = [one for one in known if one["version"] != VERSION]
    found = [{"name": VERSION, "version": VERSION, "url": f"../{VERSION}/"}, *others]
    found.sort(key=lambda one: [int(part) for part in one["version"].split(".")], reverse=True)
    file.write_text(json.dumps(found, indent=2), "utf-8")
    newest = found[0]["version"]
    (folder / "index.html").write_text(
        f'<!doctype html><title>Stanchion</title><meta http-equiv="refresh" content="0; url={newest}/index.html">'
        f'<a href="{newest}/index.html">Documentation of Stanchion {newest}</a>\n',
        "utf-8",
    )


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"))
