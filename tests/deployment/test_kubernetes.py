"""Manifests are valid, and their processes start as they say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import promql_parser
import psycopg
import pytest
import yaml
from jsonschema import Draft202012Validator

from stanchion import Stanchion
from stanchion.ops.deployment.programs import backlog_metric, backlog_query, lag_metric
from stanchion.ops.deployment.rendering import kubernetes
from stanchion.ops.deployment.settings import Deployment
from tests.deployment.given import PLAIN, STRANGE, parsed

PARTS = ("setup", "worker", "page", "manager", "secrets")
SCALED_OBJECT = Path(__file__).with_name("scaledobject.json")
"""The schema of KEDA 2.16, made of its models cloudcoil-models-keda 2.16.1.0: no unknown field, no status."""

COMMANDS = {"setup": "setup", "worker": "worker", "page": "web", "manager": "manager"}


def documents(deployment: Deployment, *parts: str) -> list[dict[str, Any]]:
    return [one for file in kubernetes(deployment, parts) for one in yaml.safe_load_all(file.text)]


def containers(deployment: Deployment, part: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the pod of a part, and its only container."""
    pod = documents(deployment, part)[-1]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    return pod, container


@pytest.mark.parametrize("deployment", [PLAIN, STRANGE], ids=["plain", "strange"])
@pytest.mark.parametrize("part", PARTS)
def test_manifests_are_valid(part: str, deployment: Deployment) -> None:
    for document in documents(deployment, part):
        kubernetes_validate.validate(document, "1.33", strict=True)
        assert document["metadata"].get("namespace") == deployment.namespace
        assert document["metadata"]["name"].startswith((deployment.name, deployment.secret_name))


@pytest.mark.parametrize("scale_by", ["prometheus", "postgresql"])
def test_the_scaler_is_valid(scale_by: str) -> None:
    (document,) = documents(Deployment(scale_by=scale_by), "scaler")
    Draft202012Validator(json.loads(SCALED_OBJECT.read_text("utf-8"))).validate(document)
    assert document["spec"]["scaleTargetRef"]["name"] == documents(PLAIN, "worker")[0]["metadata"]["name"]
    triggers = document["spec"]["triggers"]
    assert all(isinstance(text, str) for trigger in triggers for text in trigger["metadata"].values())


def test_only_the_scaler_sets_the_number_of_workers() -> None:
    assert documents(PLAIN, "worker")[0]["spec"]["replicas"] == PLAIN.replicas
    worker, scaler = documents(PLAIN, "worker", "scaler")
    assert "replicas" not in worker["spec"]
    assert scaler["spec"]["minReplicaCount"] == PLAIN.replicas


@pytest.mark.parametrize("deployment", [PLAIN, STRANGE], ids=["plain", "strange"])
@pytest.mark.parametrize("part", COMMANDS)
def test_commands_are_ours(part: str, deployment: Deployment) -> None:
    _, container = containers(deployment, part)
    given = parsed([_expanded(arg) for arg in container["args"]])
    assert given["command"] == COMMANDS[part]
    if part == "worker":
        assert given["target"] == deployment.app
        assert given["queues"] == [",".join(deployment.queues)]
    elif part != "manager":
        assert given["app"] == deployment.app
    else:
        assert given["advertise"] == f"pod-0.{deployment.name}-manager"


def _expanded(arg: str) -> str:
    """Return an argument as Kubernetes passes it on: `$(NAME)` is a variable, `$$` a dollar sign."""
    values = {"$$": "$", "$(POD)": "pod-0", "$(PATH)": "/usr/bin"}
    return re.sub(r"\$\$|\$\(\w+\)", lambda found: values[found[0]], arg)


@pytest.mark.parametrize("part", ["worker", "manager", "page"])
def test_probes_ask_a_port_that_is_served(part: str) -> None:
    pod, container = containers(PLAIN, part)
    name = "http" if part == "page" else "health"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    given = parsed(container["args"])
    if part == "page":
        assert given["listen"] == f"0.0.0.0:{ports[name]}"
    else:
        assert (given["health_host"], given["health_port"]) == ("0.0.0.0", ports[name])
        assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(ports[name])
    probes = {name: one["httpGet"] for name, one in container.items() if name.endswith("Probe")}
    assert all(probe["port"] == name for probe in probes.values())
    assert probes["livenessProbe"]["path"] == "/livez"
    assert probes["readinessProbe"]["path"] == "/readyz"


@pytest.mark.parametrize("part", COMMANDS)
def test_containers_are_locked_down_and_get_the_secret(part: str) -> None:
    pod, container = containers(STRANGE, part)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["automountServiceAccountToken"] is False
    secrets = [one["valueFrom"]["secretKeyRef"] for one in container["env"] if "secretKeyRef" in one["valueFrom"]]
    keys = documents(STRANGE, "secrets")[0]["stringData"]
    assert secrets
    assert all(one["name"] == "store" and one["key"] in keys for one in secrets)


def test_a_pod_lives_longer_than_the_grace_of_its_jobs() -> None:
    pod, container = containers(Deployment(grace=90), "worker")
    assert parsed(container["args"])["grace"] == "90s"
    assert pod["spec"]["terminationGracePeriodSeconds"] > 90


def test_another_image_gets_another_setup_job() -> None:
    (first,), (same,), (other,) = (
        documents(Deployment(image=image, threads=threads), "setup")
        for image, threads in (("shop:1", 8), ("shop:1", 16), ("shop:2", 8))
    )
    assert first == same  # a second `kubectl apply` changes nothing
    assert first["metadata"]["name"] != other["metadata"]["name"]  # and this one does not change a job
    assert first["metadata"]["labels"] == other["metadata"]["labels"] == {"app": "stanchion-setup"}


def test_secrets_have_the_url_and_tokens_of_their_own() -> None:
    url = 'postgresql://app:p%27"$w@db/shop'
    first, second = (documents(Deployment(url=url), "secrets")[0]["stringData"] for _ in range(2))
    assert first["url"] == url
    assert len({*first.values(), *second.values()}) == 5
    assert all(len(first[key]) >= 32 for key in ("page-token", "manager-token"))


@pytest.mark.parametrize("deployment", [PLAIN, STRANGE, Deployment()], ids=["plain", "strange", "all"])
def test_metrics_of_the_scaler_are_promql(deployment: Deployment) -> None:
    for query in (backlog_metric(deployment), lag_metric(deployment)):
        promql_parser.parse(query)


def test_the_query_of_the_scaler_counts_what_workers_could_run(pg_url: str) -> None:
    app = Stanchion(pg_url)
    app.setup()
    names = ("plain", "it's 50%", "mail.a", "mail.b", "other", "paused")
    for name in names:
        app.queue(name).push_many([{}, {}, {}])
    app.queue("parts", partitions=4).push_many([{"n": n} for n in range(8)])
    app.queue("plain").push({}, delay=3600)
    app.queue("mail.a").reserve(1)
    app.queue("paused").pause()
    queues = (
        (("plain",), 3),
        (("it's 50%",), 3),
        (("mail.*",), 6),
        (("mail.*", "parts"), 14),
        ((), 23),
        (("mail_*",), 0),
    )
    with psycopg.connect(pg_url.replace("+psycopg", "")) as connection:
        for chosen, expected in queues:
            query = backlog_query(Deployment(queues=chosen))
            assert connection.execute(query.encode()).fetchone() == (expected,), chosen
        capped = Deployment(threads=2, replicas=1, max_replicas=3)
        assert connection.execute(backlog_query(capped).encode()).fetchone() == (6,)
    app.close()


def test_no_manifest_is_left_without_a_case() -> None:
    folder = Path(kubernetes.__code__.co_filename).parent / "files" / "kubernetes"
    assert {one.stem for one in folder.glob("*.yaml")} == {*PARTS, "scaler", "locked"}
