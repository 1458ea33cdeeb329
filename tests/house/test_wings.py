"""The core finds its wings by the table in `stanchion/wings.py`; import-linter checks that it imports none."""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from stanchion import wings
from stanchion.stores.memory import MemoryStore
from stanchion.stores.registry import open_store, store_modules
from tests.wings import ROOT, WINGS, paths_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = [one for one in PROJECT["tool"]["importlinter"]["contracts"] if one["name"].startswith("A wing: ")]


def test_each_module_of_the_table_is_part_of_a_wing() -> None:
    of_wings = tuple(name for contract in CONTRACTS for name in contract["protected_modules"])
    for named in wings.TABLE.values():
        for module in named.values():
            assert any(module == wing or module.startswith(f"{wing}.") for wing in of_wings), module
            import_module(module)


def test_the_modules_of_a_wing_import_each_other() -> None:
    for contract in CONTRACTS:
        assert set(contract["protected_modules"]) <= set(contract["allowed_importers"]), contract["name"]


def test_each_wing_has_its_tests() -> None:
    assert len(WINGS) == len(CONTRACTS)
    for wing, patterns in WINGS.items():
        assert patterns[0] == f"tests/{wing}"
        assert all(any(ROOT.glob(pattern)) for pattern in patterns), wing
        assert {Path(path).suffix for path in paths_of(wing)} <= {"", ".py"}


def test_another_package_adds_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "shop_store-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-store\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[stanchion.stores]\nshop = shop_store\nredis = shop_store\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = ModuleType("shop_store")
    module.open_store = lambda _url: MemoryStore()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_store", module)
    assert isinstance(open_store("shop://here"), MemoryStore)
    assert store_modules()["shop_store"] == ["shop"]  # Stanchion's own schemes stay
