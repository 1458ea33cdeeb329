"""Compare the pages on internals with the code: verbs, tables, indexes, packages, layers and files."""

import re

import pytest

from stanchion.stores.sql.engine.schema import metadata
from tests.docs import internals
from tests.docs.pages import ROOT

TABLES = {table.name: table for table in metadata.sorted_tables}


def test_the_verbs_are_those_of_the_port() -> None:
    told = [name for row in internals.rows_after("# The store port") for name in names(row)]
    assert sorted(told) == sorted(internals.verbs())


def test_each_table_has_its_section() -> None:
    assert sorted(internals.tables_in_pages()) == sorted(TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_the_columns_are_those_of_the_schema(table: str) -> None:
    there = {column.name for column in TABLES[table].columns}
    live = {column.name for column in TABLES["stanchion_jobs"].columns}
    listed = set(internals.columns_in_page(table))
    if table == "stanchion_history":  # the page lists only its differences from live jobs
        assert listed == there - live
        _, _, rest = internals.text().partition("those of a live job, but for\n")
        gone = internals.names_in(rest.partition("\n")[0])
        assert set(gone) == live - there
    elif table == "stanchion_stage":  # has those columns of a live job that a push sets
        assert listed == there - live
    else:
        assert listed == there


def test_the_indexes_are_those_of_the_schema() -> None:
    told = {internals.names_in(row[0])[0]: internals.names_in(row[1]) for row in internals.rows_after("\n## Indexes")}
    assert told == internals.indexes()


def test_the_packages_are_those_there_are() -> None:
    told = {re.sub(r"\.py$|/$", "", name) for row in internals.rows_after("## Architecture") for name in names(row)}
    assert told == internals.packages()
    of_stores = {
        re.sub(r"\.py$|/$", "", name) for row in internals.rows_after("\n### The stores") for name in names(row)
    }
    assert of_stores == internals.packages("stores")


def names(row: list[str]) -> list[str]:
    return internals.names_in(row[0])


def test_the_picture_is_the_contract() -> None:
    assert internals.layers_in_page() == internals.layers()


def test_the_files_that_are_named_are_there() -> None:
    assert [path for path in sorted(internals.paths_in_pages()) if not internals.is_there(path)] == []


def test_maintainers_read_little_to_begin() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 60
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 80
