"""Metadata that the build makes: the project's addresses, and the README with absolute links for PyPI."""

from __future__ import annotations

import re
import runpy
from pathlib import Path, PurePosixPath
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).parent

_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<before>\]\(|^\[[^\]\n]+\]: +|(?:src|href)=\")(?P<target>[^)\s\"]+)", re.MULTILINE)
_PICTURES = frozenset({".gif", ".jpg", ".jpeg", ".png", ".svg", ".webp"})


class ProjectMetadata(MetadataHookInterface):
    """Fill in the dynamic fields `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields."""
        home = runpy.run_path(str(ROOT / "src" / "stanchion" / "core" / "project.py"))
        readme = absolute((ROOT / "README.md").read_text("utf-8"), home["FILES"], home["PICTURES"])
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
        metadata["urls"] = {
            "Homepage": home["HOME"],
            "Documentation": f"{home['FILES']}/docs/index.md",
            "Source": home["HOME"],
            "Issues": f"{home['HOME']}/issues",
            "Changelog": f"{home['FILES']}/CHANGELOG.md",
        }


def absolute(text: str, files: str, pictures: str) -> str:
    """Return Markdown with absolute addresses. `files`, `pictures`: starts of those of the repository's files."""

    def linked(found: re.Match[str]) -> str:
        target = found["target"]
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            return found[0]
        path = f"README.md{target}" if target.startswith("#") else target.removeprefix("./")
        start = pictures if PurePosixPath(path.partition("#")[0]).suffix in _PICTURES else files
        return f"{found['before']}{start}/{path}"

    parts = _CODE.split(text)  # the parts at odd places are code
    return "".join(part if place % 2 else _LINK.sub(linked, part) for place, part in enumerate(parts))
