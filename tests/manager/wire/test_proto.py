"""The protocol as a file: it is documented, and the code belongs to it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2

from stanchion.stores.wire.messages import pb
from tests.docs.pages import ROOT
from tests.manager.wire import generate

_NAMED = re.compile(
    r"\s*(message \w+|enum \w+|service \w+|rpc \w+|[A-Z_]+ = \d+|(?:optional |repeated )?[\w.<>, ]+ \w+ = \d+)"
)


def test_all_is_documented() -> None:
    lines = generate.PROTO.read_text().splitlines()
    bare = [
        line.strip() for before, line in pairwise(lines) if _NAMED.match(line) and not before.strip().startswith("//")
    ]
    assert not bare


def test_the_code_belongs_to_the_protocol(tmp_path: Path) -> None:
    assert generate.DIGEST.read_text().strip() == generate.digest(), "run `python -m tests.manager.wire.generate`"
    if find_spec("grpc_tools") is not None:  # which only those who change the protocol install
        assert parsed(tmp_path / "set") == committed()


def committed() -> list[Any]:
    found = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(found)
    return contents(found)


def parsed(file: Path) -> list[Any]:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{generate.WIRE / 'proto'}", f"-o{file}"]
    subprocess.run([*command, str(generate.PROTO)], check=True)
    [found] = descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes()).file
    return contents(found)


def contents(of: Any) -> list[Any]:
    """Return all of a description but the names of fields in JSON, which the committed code does not have."""
    return [
        (field.name, [contents(one) for one in value] if field.message_type and field.is_repeated else str(value))
        for field, value in of.ListFields()
        if field.name != "json_name"
    ]


_WITHOUT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("google", "grpc"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import stanchion
import stanchion.ops.cli
from stanchion import MissingExtra, Stanchion
Stanchion("memory://").queue("q").push({})
try:
    import stanchion.stores.wire.calls
except MissingExtra as error:
    print(error)
"""


def test_without_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, cwd=ROOT, check=False)
    assert "pip install 'stanchion[grpc]'" in done.stdout, done.stderr


def test_nothing_else_imports_protobuf() -> None:
    code = "import sys, stanchion, stanchion.ops.cli; assert not {'google.protobuf', 'grpc'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_other_languages_have_packages() -> None:
    options = pb.DESCRIPTOR.GetOptions()
    assert options.go_package.partition(";") == ("stanchion/v1", ";", "stanchionv1")  # the import path, the package
    assert (options.java_package, options.java_multiple_files) == ("stanchion.v1", True)
    assert options.java_outer_classname == "StanchionProto"
    assert (options.csharp_namespace, options.ruby_package) == ("Stanchion.V1", "Stanchion::V1")
