"""`stanchion deploy` prints or writes files."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import yaml

from stanchion.ops.deployment.rendering import grafana
from tests.cli.conftest import Run


def test_the_dashboard_is_printed_as_it_is(run: Run) -> None:
    answer = run("deploy", "grafana")
    assert (answer.code, answer.out) == (0, grafana().text)


def test_rules_name_your_runbook(run: Run) -> None:
    answer = run("deploy", "prometheus", "--runbook", "https://wiki.example.com/ops")
    assert "https://wiki.example.com/ops#store" in answer.out
    assert yaml.safe_load(answer.out)["groups"]


@pytest.mark.parametrize("runbook", ["docs/alerts.md", "javascript:alert(1)", 'https://a"b', "https://a {{ b }}"])
def test_a_runbook_is_an_address(run: Run, runbook: str) -> None:
    answer = run("deploy", "prometheus", "--runbook", runbook)
    assert answer.code == 2
    assert "--runbook must be an address" in answer.error


def test_manifests_are_one_stream_without_secrets(run: Run) -> None:
    answer = run("deploy", "kubernetes", "--app", "shop:app", "--queues", "mail,orders", "--namespace", "shop")
    kinds = [one["kind"] for one in yaml.safe_load_all(answer.out)]
    assert kinds == ["Job", "Deployment", "Service", "Deployment"]
    assert answer.err == ""
    assert "--queues" in answer.out


def test_parts_come_in_one_order(run: Run) -> None:
    answer = run("deploy", "kubernetes", "scaler", "worker", "--app", "shop:app")
    assert [one["kind"] for one in yaml.safe_load_all(answer.out)] == ["Deployment", "ScaledObject"]


def test_the_example_app_is_named(run: Run) -> None:
    assert "give yours with --app" in run("deploy", "compose").err


def test_credentials_come_from_the_option_only(run: Run) -> None:
    answer = run("deploy", "kubernetes", "secrets", STANCHION_URL="postgresql://app:hidden@db/shop")
    assert "hidden" not in answer.out
    answer = run("deploy", "kubernetes", "secrets", "--url", "postgresql://app:shown@db/shop")
    assert yaml.safe_load(answer.out)["stringData"]["url"] == "postgresql://app:shown@db/shop"


def test_files_are_written_together_or_not_at_all(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "units"
    answer = run("deploy", "systemd", "setup", "worker", "secrets", "--app", "shop:app", "--output", str(folder))
    assert answer.code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        *("stanchion-setup.service", "stanchion-worker.service", "stanchion.env"),
    ]
    assert stat.S_IMODE((folder / "stanchion.env").stat().st_mode) == 0o600
    before = {path: path.read_text() for path in folder.iterdir()}
    answer = run("deploy", "systemd", "page", "secrets", "--app", "shop:app", "--output", str(folder))
    assert answer.code == 2
    assert "--force overwrites" in answer.error
    assert {path: path.read_text() for path in folder.iterdir()} == before


def test_force_makes_a_readable_file_of_secrets_private(run: Run, tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("OLD=1\n")
    file.chmod(0o644)
    answer = run("deploy", "compose", "secrets", "--output", str(tmp_path), "--force", "--json")
    assert answer.json == [str(file)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "OLD" not in file.read_text()


def test_an_unwritable_folder_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = run("deploy", "grafana", "--output", str(tmp_path / "file"))
    assert answer.code == 2
    assert f"cannot write to {tmp_path / 'file'}" in answer.error


@pytest.mark.parametrize("args", [
    ("kubernetes", "--name", "Shop"),
    ("kubernetes", "--namespace", "a b"),
    ("kubernetes", "--secret", "-x"),
    ("kubernetes", "--image", "a\nb"),
    ("kubernetes", "--replicas", "-1"),
    ("kubernetes", "--replicas", "5", "--max-replicas", "4"),
    ("kubernetes", "--scale-by", "cron"),
    ("kubernetes", "--scale-by", "postgresql", "--url", "postgresql://app@db/shop?sslmode=require&schema=queues"),
    ("kubernetes", "--scale-by", "postgresql", "--url", "postgresql://app@db/shop?pool_size=5"),
    ("kubernetes", "--url", "sqlite:///jobs.db"),
    ("kubernetes", "pods"),
    ("compose", "scaler"),
    ("compose", "worker", "secrets"),
    ("compose", "--threads", "0"),
    ("systemd", "--directory", "shop"),
    ("systemd", "--app", "shop:app\nExecStartPre=/bin/sh"),
    ("systemd", "--url", "redis://:it's@cache"),
    ("systemd", "--grace", "soon"),
])  # fmt: skip
def test_bad_input_prints_no_file(run: Run, args: tuple[str, ...]) -> None:
    answer = run("deploy", *args)
    assert (answer.code, answer.out) == (2, "")


def test_json_has_each_file(run: Run) -> None:
    files = json.loads(run("deploy", "systemd", "worker", "page", "--json", "--app", "shop:app").out)
    assert set(files) == {"stanchion-worker.service", "stanchion-page.service"}
