"""The page names its store in a few words."""

from contextlib import closing

import pytest

from stanchion import Stanchion
from stanchion.ops.web.access.callers import Tokens
from stanchion.ops.web.site import Site


@pytest.mark.parametrize(
    ("options", "schema"),
    [("", ""), ("?connect_timeout=9", ""), ("?connect_timeout=9&schema=queues", ".queues")],
)
def test_the_label_has_database_and_schema(pg_url: str, options: str, schema: str) -> None:
    with closing(Stanchion(pg_url + options)) as app:
        app.setup()
        assert Site(app, Tokens([])).label == f"{pg_url.rpartition('/')[2]}{schema} · postgresql"
