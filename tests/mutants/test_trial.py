"""Trials say whether tests notice a fault."""

import json
import subprocess
import sys

import pytest

from tests.mutants.mutant import REPOSITORY

SCRIPT = """
import json, sys
from tests.mutants.__main__ import verdicts
from tests.mutants.mutant import Mutant
from tests.mutants.trial import import_libraries

import_libraries()
faults = [Mutant(*fault) for fault in json.loads(sys.argv[1])]
print(json.dumps({mutant.name: told for mutant, told in verdicts(faults, "all", 1)}))
"""
FILE, TESTS = "tests/conformance/tiers.py", "tests/conformance/test_tiers.py"


@pytest.mark.nightly
def test_what_each_says() -> None:
    faults = [
        ("noticed", FILE, "NIGHTS = 4\n", "NIGHTS = 1\n", TESTS),
        ("harmless", FILE, "NIGHTS = 4\n", "NIGHTS = 2 + 2\n", TESTS),
        ("no test", FILE, "NIGHTS = 4\n", "NIGHTS = 1\n", f"{TESTS} -k nothing_like_that"),
        ("no place", FILE, "NIGHTS = 5\n", "NIGHTS = 1\n", TESTS),
        ("no module", FILE, "NIGHTS = 4\n", "NIGHTS = \n", TESTS),
    ]
    command = [sys.executable, "-c", SCRIPT, json.dumps(faults)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=600)
    told = json.loads(done.stdout)
    assert (told["noticed"], told["harmless"]) == ("killed", "survived")
    assert told["no test"] == "no test of this tier is named"
    assert "is found 0 times" in told["no place"]
    assert "pytest ended with" in told["no module"]
