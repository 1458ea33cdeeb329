"""Without an optional dependency: one sentence that names the extra, wherever it is needed."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

DRIVERS = (
    "psycopg",
    "pymysql",
    "redis",
    "pymongo",
    "cryptography",
    "pyspark",
    "pyarrow",
    "deltalake",
    "numpy",
    "pandas",
)

URLS = {
    "postgres": ["postgresql://h/x", "postgres://h/x", "postgresql://"],
    "mysql": ["mysql://h/x", "mariadb://h/x"],
    "redis": ["redis://h", "rediss://h", "valkey://h/0", "valkeys://h", "redis+cluster://h", "redis+sentinel://h/x"],
    "mongo": ["mongodb://h/x", "mongodb+srv://h/x"],
}

EXTRAS = {"mariadb": "mysql", "mongodb": "mongo", "postgresql": "postgres", "redis": "redis"}

ALWAYS = ("memory", "sqlite")

PROGRAM = f"""
import json
from stanchion import MissingExtra, Stanchion

for extra, urls in {URLS!r}.items():
    for url in urls:
        for use in (lambda app: app.queue("mail").push(1), lambda app: app.setup(), lambda app: app.workers()):
            try:
                use(Stanchion(url))
            except MissingExtra as error:
                assert error.extra == extra, (url, error)
                assert f"pip install 'stanchion[{{extra}}]'" in str(error), error
            else:
                raise AssertionError(url)
try:
    Stanchion("memory://", keys=["x"])
except MissingExtra as error:
    assert error.extra == "crypto"
app = Stanchion("memory://")
app.queue("mail").push(1)
assert app.queue("mail").pop().payload == 1
"""


class Core:
    """A Python with the core of the package alone, and the command line there."""

    def __init__(self, python: Path, **env: str) -> None:
        self.python, self.env = str(python), {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **env}

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.python, *args], env=self.env, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def blocked(tmp_path_factory: pytest.TempPathFactory) -> Core:
    """This Python, in which the drivers can't be found."""
    folder = tmp_path_factory.mktemp("blocked")
    (folder / "sitecustomize.py").write_text(f"import sys\n\nsys.modules.update(dict.fromkeys({DRIVERS!r}))\n")
    return Core(
        Path(sys.executable), PYTHONPATH=os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Core:
    """A fresh environment with this checkout and what it must have, and nothing else."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder, with_pip=True)
    core = Core(folder / "bin" / "python")
    done = core.run("-m", "pip", "install", "--quiet", str(ROOT))
    if done.returncode:
        pytest.skip(f"the registry of packages does not answer: {done.stderr[-300:]}")
    return core


def check_program(core: Core) -> None:
    done = core.run("-c", PROGRAM)
    assert (done.returncode, done.stderr) == (0, "")


def check(core: Core) -> None:
    check_program(core)
    shown = core.run("-c", "from stanchion.ops.cli import main; main()", "stores", "--json")
    assert shown.returncode == 0, shown.stderr
    for name in (*EXTRAS, *ALWAYS):
        extra = EXTRAS.get(name)
        (line,) = [line for line in shown.stdout.split('"name"') if line.startswith(f': "{name}"')]
        assert f'"installed": {"true" if extra is None else "false"}' in line
        assert extra is None or f"stanchion[{extra}]" in line
    for urls in URLS.values():
        answer = core.run("-c", "from stanchion.ops.cli import main; main()", "jobs", "--url", urls[0])
        assert answer.returncode == 1
        assert answer.stderr.startswith("error: ")
        assert "pip install 'stanchion[" in answer.stderr


def test_a_program_where_the_drivers_are_not_found(blocked: Core) -> None:
    check_program(blocked)


@pytest.mark.nightly
def test_where_the_drivers_are_not_found(blocked: Core) -> None:
    check(blocked)


@pytest.mark.slow
@pytest.mark.nightly
def test_with_the_core_only(installed: Core) -> None:
    check(installed)


@pytest.mark.slow
@pytest.mark.nightly
def test_the_demonstration_ends_in_its_page_with_the_core_only(installed: Core, tmp_path: Path) -> None:
    installed.env |= {"TMPDIR": str(tmp_path)}
    installed.env.pop("PYTHONPATH", None)
    done = installed.run("-c", "from stanchion.ops.cli import main; main()", "demo", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert (made["ok"], made["engine"], made["total"]["flights"]) == (True, "workers", 5000)
    page = Path(made["page"]).read_text(encoding="utf-8")
    assert "5,000 made-up flights that left New York in January 2013" in page
    assert "demo.enriched" in page


def test_the_command_line_needs_no_starlette() -> None:
    loaded = "import sys, stanchion.ops.cli; print({'starlette', 'jinja2', 'uvicorn'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
