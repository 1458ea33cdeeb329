"""The Compose file is valid, and its services start the commands that they should."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from stanchion.ops.deployment.rendering import compose
from stanchion.ops.deployment.settings import Deployment
from tests.deployment.given import PLAIN, STRANGE, parsed

compose_spec = pytest.importorskip("compose_spec")

PARTS = ("setup", "worker", "page", "manager")
COMMANDS = {"setup": "setup", "worker": "worker", "page": "web", "manager": "manager"}


def services(deployment: Deployment, *parts: str) -> dict[str, dict[str, Any]]:
    """Return the services, after a check of the whole file by the specification."""
    (file,) = compose(deployment, parts)
    found = yaml.safe_load(file.text)
    checked = {key: value for key, value in found.items() if not key.startswith("x-")}
    compose_spec.PyCompose.from_json(json.dumps(checked)).validate()
    assert found["name"] == deployment.name
    return dict(found["services"])


@pytest.mark.parametrize("deployment", [PLAIN, STRANGE], ids=["plain", "strange"])
def test_the_file_is_valid_and_starts_our_commands(deployment: Deployment) -> None:
    found = services(deployment, *PARTS)
    assert set(found) == set(PARTS)
    for name, service in found.items():
        assert (service["image"], service["read_only"]) == (deployment.image, True)
        given = parsed([re.sub(r"\$(\$|.*)", _expanded, arg) for arg in service["command"]])
        assert given["command"] == COMMANDS[name]
        if name == "worker":
            assert (given["target"], given["queues"]) == (deployment.app, [",".join(deployment.queues)])


def _expanded(found: re.Match[str]) -> str:
    return "$" if found[1] == "$" else "a variable"


def test_others_wait_for_the_setup() -> None:
    found = services(PLAIN, *PARTS)
    assert "depends_on" not in found["setup"]
    assert all(found[name]["depends_on"]["setup"]["condition"].endswith("successfully") for name in PARTS[1:])
    assert "depends_on" not in services(PLAIN, "worker")["worker"]


def test_health_checks_ask_the_port_that_is_served() -> None:
    found = services(PLAIN, *PARTS)
    for name in PARTS[1:]:
        given = parsed(found[name]["command"])
        port = given["listen"].partition(":")[2] if name == "page" else given["health_port"]
        assert f"127.0.0.1:{port}/livez" in found[name]["healthcheck"]["test"][-1]
        compile(found[name]["healthcheck"]["test"][-1], name, "exec")


def test_variables_are_in_the_file_of_secrets() -> None:
    text = compose(PLAIN, PARTS)[0].text
    (secrets,) = compose(Deployment(url="redis://:a$b@cache"), ["secrets"])
    assert (secrets.name, secrets.private) == (".env", True)
    assert "STANCHION_URL='redis://:a$b@cache'\n" in secrets.text
    assert set(re.findall(r"\$\{(\w+):\?", text)) == set(re.findall(r"^(\w+)='", secrets.text, re.MULTILINE))


def test_a_stop_waits_longer_than_the_grace() -> None:
    worker = services(Deployment(grace=120, replicas=2), "worker")["worker"]
    assert worker["stop_grace_period"] == "150s"
    assert worker["deploy"]["replicas"] == 2
