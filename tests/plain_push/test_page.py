"""The SQL on the page works on its database."""

import re
from pathlib import Path

import pytest

from stanchion import Stanchion
from tests.plain_push.conftest import SQL_WAYS
from tests.plain_push.ways import SqlWay, Way

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
HEADINGS = {"postgresql": "PostgreSQL", "mariadb": "MariaDB and MySQL", "sqlite": "SQLite"}
JOBS = {"postgresql": 4, "mariadb": 3, "sqlite": 4}


@pytest.mark.parametrize("kind", SQL_WAYS, indirect=True)
def test_the_sql_of_the_page_runs(kind: str, way: SqlWay, app: Stanchion, url: str) -> None:
    _, _, section = PAGE.partition(f"\n## {HEADINGS[kind]}\n")
    blocks = re.findall(r"^```sql\n(.*?)^```$", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    if kind == "mariadb":  # a user for all databases: see test_differences
        blocks = [block for block in blocks if not block.startswith("GRANT")]
    role = f"role_{url.rpartition('/')[2]}"
    way.run([block.replace("shop_site", role) for block in blocks])
    if kind == "postgresql":
        way.run([f"DROP OWNED BY {role}; DROP ROLE {role};"])
    assert app.queue("mail").size().total == JOBS[kind]
    assert app.queue("orders").size().ready == 1
    (welcome,) = app.queue("mail").find(task="shop.welcome")
    assert (welcome.payload, welcome.key) == ({"args": [42]}, "welcome-42")


@pytest.mark.parametrize("kind", ["redis"], indirect=True)
def test_the_calls_of_the_page_run(way: Way, app: Stanchion) -> None:
    _, _, section = PAGE.partition("\n## Redis\n")
    (block,) = re.findall(r"^```redis\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert len(way.run([block])) == 4
    assert app.queue("mail").size().total == 3
    (order,) = app.queue("orders").reserve()
    assert (order.payload, order.tenant, order.headers) == ({"id": 1}, "acme", {"origin": "shop"})
    (welcome,) = app.queue("mail").find(task="shop.welcome")
    assert (welcome.payload, welcome.key) == ({"args": [42]}, "welcome-42")
