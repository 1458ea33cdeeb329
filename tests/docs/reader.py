"""A reader who types in a page, block after block, in a folder of its own."""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT, Block, Command, blocks, commands, value_of

_SETS = re.compile(r"(?:export )?(?P<name>[A-Za-z_]+)=(?P<value>\S+|\$\((?P<command>.*)\))", re.DOTALL)
_EXAMPLE = re.compile(r"\]\((?:\.\./)+(examples/[\w/]+\.\w+)\)")
_PROCESSES = re.compile(r"--processes (\d+)")
_ALERTS = re.compile(r"\bstanchion alerts(?= --|$)")
_EXIT = re.compile(r"\s+# exit code (?P<code>\d+).*$")
_CHANGING = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*"), "TIME"),
    (re.compile(r"\d[\d,.]* (ms|s|min|h|d)\b"), "SPAN"),
    (re.compile(r"[\w.-]+:\d{2,}\b"), "HOST:PID"),
    (re.compile(r"\s+"), " "),
]

TIMEOUT_SECONDS = 120.0
"""Seconds in which what is started comes up, and what is stopped ends, on the slowest machine."""


class Reader:
    """Runs the blocks of one page in `folder`."""

    def __init__(self, folder: Path, replaced: dict[str, str]) -> None:
        self.folder, self._replaced = folder, replaced
        self.namespace = types.ModuleType("page")
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "COLUMNS": "120",
            "PYTEST_PLUGINS": "pytest_stanchion",  # as if installed
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'conformance' / 'src'}",
        }
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def read(self, page: Path) -> None:
        """Run all blocks of the page, beside the examples that it links; raise where one fails."""
        for example in _EXAMPLE.findall(page.read_text()):
            shutil.copy(ROOT / example, self.folder)
        for block in blocks(page):
            if block.reason is not None:
                continue
            self.run(page, block)

    def run(self, page: Path, block: Block) -> None:
        """Run a block of the page, also one that is marked as not to be run."""
        try:
            if block.file is not None:
                self._save(block.file, block)
            elif block.language == "python":
                self._python(block)
            elif block.language == "console":
                for command in commands(block):
                    self._type(command)
        except BaseException as error:
            error.add_note(f"{page.relative_to(ROOT)}, block at line {block.line}:\n{block.text}")
            raise

    def close(self) -> None:
        """Stop what runs, as Ctrl-C does; it must end well."""
        for process, _ in self._running:
            process.send_signal(signal.SIGINT)
        for process, printed in self._running:
            assert process.wait(TIMEOUT_SECONDS) == 0, printed.read_text()

    # -- Python

    def _save(self, name: str, block: Block) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._fill(block.text))

    def _python(self, block: Block) -> None:
        text = self._fill(block.text)
        lines = text.splitlines()
        for statement in ast.parse(text).body:
            assert statement.end_lineno is not None
            claimed = value_of(lines[statement.end_lineno - 1])
            source = ast.get_source_segment(text, statement) or ""
            if claimed is not None and isinstance(statement, ast.Expr):
                value = eval(source, self.namespace.__dict__)
                assert _steady(repr(value)) == _steady(claimed), f"{source} is {value!r}, not {claimed}"
            else:
                module = ast.Module([statement], type_ignores=[])
                exec(compile(module, "page", "exec"), self.namespace.__dict__)

    # -- shell

    def _type(self, command: Command) -> None:
        text = self._fill(command.text)
        expected = 0
        if found := _EXIT.search(text):
            expected, text = int(found["code"]), text[: found.start()]
        text = _ALERTS.sub("stanchion alerts --limit store=600", text)  # a loaded machine may take longer than a second
        if assigned := _SETS.fullmatch(text):
            inner = assigned["command"]
            self._environment[assigned["name"]] = self._run(inner, 0) if inner else assigned["value"].strip("'\"")
        elif re.match(r"stanchion (worker\b(?!.*--until-empty)|top\b(?!.*--once))", text):
            self._start(text)
        elif re.search(r"\b(stanchion|python)\b", text):
            self._compare(command, self._run(text, expected))

    def _run(self, text: str, expected: int) -> str:
        run = subprocess.run(
            ["bash", "-o", "pipefail", "-c", text],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert run.returncode == expected, f"$ {text}\n{run.stdout}{run.stderr}\nexit code {run.returncode}"
        return (run.stdout + run.stderr).strip()

    def _start(self, text: str) -> None:
        """Start what runs on, as the reader does in another terminal, and give it time to come up."""
        printed = self.folder / f"printed-{len(self._running)}"
        with printed.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {text}"], cwd=self.folder, env=self._environment, stdout=output, stderr=output
            )
        self._running.append((process, printed))
        processes = _PROCESSES.search(text)
        ready, times = (" runs ", int(processes[1]) if processes else 1) if "stanchion worker" in text else ("", 1)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (found := printed.read_text()) or found.count(ready) < times:
            assert process.poll() is None, found
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        time.sleep(1.0)  # it has said that it begins

    def _compare(self, command: Command, output: str) -> None:
        """See that the lines shown are printed, in their order; `...` stands for any lines."""
        printed = iter([_steady(line) for line in output.splitlines()])
        for line in command.output:
            if line.strip() in ("", "..."):
                continue
            wanted = _steady(self._fill(line))
            assert any(wanted == found for found in printed), (
                f"$ {command.text}\nshows this line, which was not printed:\n{line}\nbut\n{output}"
            )

    def _fill(self, text: str) -> str:
        for shown, real in self._replaced.items():
            text = text.replace(shown, real)
        return text


def forget_modules(folder: Path) -> None:
    """Forget what a page's blocks imported from their folder."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)


def _steady(text: Any) -> str:
    """Return text without what differs from run to run."""
    steady = str(text).strip()
    for pattern, name in _CHANGING:
        steady = pattern.sub(name, steady)
    return steady
