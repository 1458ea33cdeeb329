"""A client of the API, whose answers are checked against the document."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from starlette.testclient import TestClient

from stanchion import Stanchion
from stanchion.ops.web.api.asgi import COMPONENTS, OPERATIONS
from stanchion.ops.web.api.problems import MEDIA_TYPE
from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.site import Site
from stanchion.stores.registry import open_store
from tests.web.conftest import site_of

REGISTRY: Any = Registry().with_resource(
    "urn:test", DRAFT202012.create_resource({"components": {"schemas": COMPONENTS}})
)


def conforms(value: Any, schema: str) -> None:
    """Fail unless a value fits a schema of the document."""
    _validator(schema).validate(value)


@cache
def _validator(schema: str) -> Any:
    return Draft202012Validator({"$ref": f"urn:test#/components/schemas/{schema}"}, registry=REGISTRY)


RESULTS = {one.id: one for one in OPERATIONS}


class Client(TestClient):
    """A client of the API: paths are below /api/v1."""

    def __init__(self, site: Site, token: str | None = None, client: str = "127.0.0.1") -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        super().__init__(site_app(site), "http://127.0.0.1:7118/api/v1/", headers=headers, client=(client, 50_000))

    def asks(self, operation: str, path: str, body: Any = None, **options: Any) -> Any:
        """Return the answer of an operation, which fits its schema."""
        one = RESULTS[operation]
        answer = self.request(one.method, path, json=body, **options)
        assert answer.status_code in (one.status, 200), answer.text
        conforms(answer.json(), one.dry_result if one.dry_result and answer.status_code == 200 else one.result)
        return answer.json()

    def refused(self, status: int, code: str, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Return the problem with which a request is refused."""
        if body is not None:
            options["json"] = body
        answer = self.request(method, path, **options)
        assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE), answer.text
        problem = answer.json()
        conforms(problem, "Problem")
        assert (problem["status"], problem["code"]) == (status, code), problem
        return {**problem, "headers": answer.headers}


@pytest.fixture
def fresh() -> Iterator[Stanchion]:
    """An app with nothing in its store."""
    app = Stanchion(store=open_store("memory://"))
    yield app
    app.close()


@pytest.fixture
def client(fresh: Stanchion) -> Iterator[Client]:
    """A client of the API of an app with nothing in its store, on the same machine."""
    site = site_of(fresh)
    yield Client(site)
    site.close()


@pytest.fixture
def shop_client(site: Site) -> Client:
    """A client of the API of the shop."""
    return Client(site)
