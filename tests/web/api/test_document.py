"""The document: it is complete, and says what the routes do."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import schemathesis
from jsonschema import Draft202012Validator
from starlette.routing import Mount

from stanchion import Stanchion
from stanchion.ops.web.api.asgi import COMPONENTS, OPERATIONS, api
from stanchion.ops.web.api.document import TAGS
from stanchion.ops.web.api.problems import KINDS
from tests.web.api.conftest import Client
from tests.web.conftest import site_of


@pytest.fixture
def found(client: Client) -> dict[str, Any]:
    answer = client.get("openapi.json")
    assert answer.status_code == 200
    return dict(answer.json())


def test_it_is_valid(found: dict[str, Any]) -> None:
    schemathesis.openapi.from_dict(found).validate()
    assert found["openapi"].startswith("3.1")
    for schema in COMPONENTS.values():
        Draft202012Validator.check_schema(schema)


def test_it_has_all_routes_and_no_others(found: dict[str, Any], fresh: Stanchion) -> None:
    site = site_of(fresh)
    routes = [re.sub(r":path\}", "}", route.path).removeprefix("/v1") for route in api(site).routes]
    assert sorted(routes) == sorted(found["paths"])  # tests/web/test_methods.py compares their methods
    site.close()


def test_each_schema_is_used_and_each_is_there(found: dict[str, Any]) -> None:
    named = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(found)))
    assert named == set(found["components"]["schemas"])


def test_operations_are_told_apart(found: dict[str, Any]) -> None:
    ids = [one.id for one in OPERATIONS]
    assert len(ids) == len(set(ids))
    assert {one.tag for one in OPERATIONS} == set(TAGS)
    for one in OPERATIONS:
        assert (one.run is None) != (one.wait is None), one.id
        shown = found["paths"][one.shown_path][one.method.lower()]
        assert {"401", "403", "422", "429", "500", "503"} <= shown["responses"].keys(), one.id
        assert all("schema" in content for content in shown["responses"][str(one.status)]["content"].values())


def test_it_names_the_path_below_which_it_is_mounted(fresh: Stanchion) -> None:
    from starlette.applications import Starlette
    from starlette.testclient import TestClient

    from stanchion.ops.web.asgi import site_app

    site = site_of(fresh)
    outer = Starlette(routes=[Mount("/ops/jobs", site_app(site))])
    client = TestClient(outer, "http://localhost", client=("127.0.0.1", 1))
    assert client.get("/ops/jobs/api/v1/openapi.json").json()["servers"] == [{"url": "/ops/jobs/api/v1"}]
    problem = client.get("/ops/jobs/api/v1/queues/unheard").json()
    assert problem["type"] == "/ops/jobs/api/v1/problems/not-found"
    assert client.get(problem["type"]).json()["code"] == "not-found"
    site.close()


def test_each_kind_of_problem_has_its_page(client: Client) -> None:
    listed = client.asks("listProblems", "problems")["items"]
    assert [one["code"] for one in listed] == sorted(KINDS)
    for code in KINDS:
        assert client.asks("getProblem", f"problems/{code}")["code"] == code
