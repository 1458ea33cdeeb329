"""Runs Django's tests of tasks and prints the results as JSON: `run.py FOLDER WORKDIR own|stanchion`.

With `stanchion`, this package's backend takes the place of the dummy and the immediate backend, by `adapters`. Where
Django has no tasks, on 5.2, the package django-tasks takes the place of `django.tasks`.
"""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path
from typing import Any

ADAPTERS = "tests.django.suite.adapters"
BACKENDS = "django.tasks.backends"


class Results(unittest.TextTestResult):
    """Counts a test with failed parts once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ran: list[str] = []

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - of unittest
        self.ran.append(test.id())
        super().startTest(test)


def copied(folder: Path, to: Path, kind: str, *, backport: bool) -> None:
    """Copy the tests; with other backends, if wanted."""
    (to / "tasks").mkdir(parents=True)
    for file in folder.glob("*.py"):
        text = file.read_text()
        if kind == "stanchion":
            for name in ("dummy", "immediate"):
                text = text.replace(f"{BACKENDS}.{name}", f"{ADAPTERS}.{name}")
        if backport:  # modules are replaced below; these are names in texts
            text = text.replace(f'"{BACKENDS}', '"django_tasks.backends').replace(
                'Logs("django.tasks"', 'Logs("django_tasks"'
            )
        (to / "tasks" / file.name).write_text(text)


def configure(workdir: Path) -> None:
    """Configure Django with databases in files."""
    import django
    from django.conf import settings

    def database(name: str) -> dict[str, Any]:
        place = str(workdir / f"{name}.db")
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": place, "TEST": {"NAME": place}}

    databases = {"default": database("default"), "other": database("other")}
    settings.configure(DATABASES=databases, INSTALLED_APPS=["stanchion.django"], USE_TZ=False)
    django.setup()


def use_backport() -> None:
    """Let the package django-tasks be `django.tasks`."""
    import django
    import django_tasks
    from django_tasks import base, exceptions, signals
    from django_tasks.backends import base as backends_base
    from django_tasks.backends import dummy, immediate

    exceptions.InvalidTask = exceptions.InvalidTaskError  # type: ignore[attr-defined]
    exceptions.InvalidTaskBackend = exceptions.InvalidTaskBackendError  # type: ignore[attr-defined]
    django_tasks.Task = base.Task  # type: ignore[attr-defined]
    django.tasks = django_tasks
    sys.modules |= {
        "django.tasks": django_tasks,
        "django.tasks.base": base,
        "django.tasks.exceptions": exceptions,
        "django.tasks.signals": signals,
        BACKENDS: sys.modules["django_tasks.backends"],
        f"{BACKENDS}.base": backends_base,
        f"{BACKENDS}.dummy": dummy,
        f"{BACKENDS}.immediate": immediate,
    }


def main(folder: Path, workdir: Path, kind: str) -> None:
    """Run the tests."""
    configure(workdir)
    try:
        import django.tasks as _  # noqa: F401
    except ModuleNotFoundError:
        import stanchion.django  # noqa: F401 - before django.tasks is there

        use_backport()
        backport = True
    else:
        backport = False
    copied(folder, workdir, kind, backport=backport)
    sys.path.insert(0, str(workdir))
    from django.test.utils import setup_databases, setup_test_environment

    setup_test_environment()
    suite = unittest.defaultTestLoader.discover(str(workdir / "tasks"), top_level_dir=str(workdir))
    setup_databases(verbosity=0, interactive=False)
    if kind == "stanchion":
        from stanchion import Stanchion

        with Stanchion(f"sqlite:///{workdir / 'default.db'}") as app:
            app.setup()
    results: Any = unittest.TextTestRunner(resultclass=Results, verbosity=0).run(suite)
    found = [*results.failures, *results.errors]
    failed = {getattr(test, "test_case", test).id(): trace.strip().rpartition("\n")[2] for test, trace in found}
    print(json.dumps({"ran": results.ran, "failed": failed}))


main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
