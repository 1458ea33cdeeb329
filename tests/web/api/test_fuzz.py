"""Requests made from the document by schemathesis, valid ones and others, against the API on real stores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import negative_data_rejection, not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from stanchion.ops.web.api.asgi import OPERATIONS
from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.site import Site
from stanchion.stores.registry import open_store
from tests.web.conftest import OPERATE, site_of
from tests.web.seed import shop

CHECKS: Any = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = int(os.environ.get("STANCHION_FUZZ_EXAMPLES", "8"))
"""Requests of each operation to each server."""

WAIT = 600
"""Seconds: a machine under load is no fault."""

HEADERS = {"Authorization": f"Bearer {OPERATE}"}
URLS = {"postgresql": "pg_url", "mariadb": "mariadb_url", "redis": "redis_url", "mongodb": "mongo_url"}


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from served(f"sqlite:///{tmp_path_factory.mktemp('fuzz') / Path('jobs.db')}")


def served(url: str) -> Iterator[Site]:
    with closing(open_store(url)) as store:
        store.setup()
        app = shop(store)
        site = site_of(app, tokens=True)
        yield site
        site.close()
        app.close()


def fuzz(site: Site, operation: str, examples: int) -> None:
    """Send requests of one operation, valid by the document and not, with names and ids that are known and others."""
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", site_app(site), headers=HEADERS, timeout=WAIT)
    found = schema.find_operation_by_id(operation)
    jobs = site.app.find(limit=30)
    reserved = site.app.queue("limited").find(state="running")
    known = {
        "id": [one.id for one in jobs] + [one.flow for one in jobs if one.flow],
        "queue": ["mail", "orders", "a/b"],
        "name": ["psp", "<b>nightly</b>"],
    }
    tokens = [site.store.fetch([one.id])[one.id].token for one in reserved]

    @settings(
        max_examples=examples,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        valid = data.draw(st.booleans())
        case = data.draw(found.as_strategy(GenerationMode.POSITIVE if valid else GenerationMode.NEGATIVE))
        if isinstance(case.body, dict) and isinstance(case.body.get("wait"), (int, float)):
            case.body["wait"] = 0
        if valid and data.draw(st.booleans()):
            for name in case.path_parameters or {}:
                case.path_parameters[name] = data.draw(st.sampled_from(known.get(name, ["x"])))
            if isinstance(case.body, dict) and "token" in case.body and tokens:
                case.body["token"] = data.draw(st.sampled_from(tokens))
        checks = CHECKS if valid else [*CHECKS, negative_data_rejection]
        case.call_and_validate(headers=HEADERS, checks=checks, timeout=WAIT)

    run()


DAILY = ("pushJobs", "reserveJobs", "rollbackJob", "listJobs", "configureQueue", "beginBulkWork")


@pytest.mark.parametrize(
    "operation", [pytest.param(one.id, marks=[] if one.id in DAILY else [pytest.mark.nightly]) for one in OPERATIONS]
)
def test_no_request_breaks_it(on_sqlite: Site, operation: str) -> None:
    fuzz(on_sqlite, operation, examples=6 if operation in DAILY else 25)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", URLS)
def test_no_request_breaks_it_on_servers(kind: str, request: pytest.FixtureRequest) -> None:
    for site in served(request.getfixturevalue(URLS[kind])):
        for one in OPERATIONS:
            fuzz(site, one.id, EXAMPLES)
