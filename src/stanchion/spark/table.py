"""Jobs and history as a DataFrame: by Spark's own JDBC reader where that can be had, else by the data source.

The JDBC reader stays in the JVM, and a query reads only the columns that it uses. Python processes take part in
neither planning nor reading.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import URL, make_url

from stanchion.errors import MissingExtra
from stanchion.spark.compared_times import compare_times
from stanchion.spark.datasource.options import KEYS, Place, checked_options, place_of
from stanchion.spark.jvm import java_error, jvm_of
from stanchion.stores.ports import SelectText
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.records.query import Condition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER = "org.postgresql.Driver"
FETCHED = "10000"
"""Number of rows that the driver fetches together."""

_SCHEMES = ("postgresql", "postgres")
_PROPERTIES = {
    "application_name": "ApplicationName",
    "channel_binding": "channelBinding",
    "connect_timeout": "connectTimeout",
    "options": "options",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
}
"""The parameters of a URL that the JDBC driver has too, with its names. URLs with others go to the data source."""

_OF_PARTS = "stored_{}"
"""The stored name of the field that divides jobs into parts, so that an index finds them."""

_CONVERTED = {
    "string": "{}::text",
    "int": "{}::int",
    "double": "{}::double precision",
    "boolean": "{}::boolean",
    "timestamp": "{}",
}
"""SQL of each column type, from the stored value; times stay microseconds until they are in Spark."""

_SHOWN = {"timestamp": "timestamp_micros({0}) AS {0}"}
"""Columns as Spark shows them. A time that travels as text costs the server and Spark much more."""


_CHUNKS = {
    "jobs": "SELECT 1 AS one FROM ({}) AS stored WHERE stored.items IS NOT NULL LIMIT 1",
    "history": "SELECT 1 AS one FROM pg_stats"
    " WHERE tablename = 'stanchion_history' AND attname = 'items' AND null_frac < 1 LIMIT 1",
}
"""What shows that jobs carry chunks: of live ones an index. History has none, but the statistics of the server."""

_GUARD = """CASE WHEN stored.items IS NULL THEN TRUE ELSE CAST(
    'job ' || stored.id || ' carries many items, which JDBC does not read: read by spark.read.format("stanchion")'
    AS boolean) END"""
"""A condition that raises an error for a job that was not there, or not known, when the read was planned."""


def jobs(
    spark: SparkSession,
    url: str | None = None,
    *,
    of: str = "jobs",
    queue: str | None = None,
    partitions: int = 4,
    by: str = "id",
    keys: str | None = None,
) -> DataFrame:
    """Return live jobs, or with `of="history"` finished ones, as a DataFrame, as `format("stanchion")` does.

    PostgreSQL is read by Spark's JDBC reader if its driver is on the class path (`spark.jars.packages`,
    `org.postgresql:postgresql`), all else by the data source: other stores, jobs that carry many items, encrypted
    payloads with keys, Spark Connect, and URLs with parameters that the JDBC driver does not have.

    The parameters are the options of the data source: `url` (by default STANCHION_URL), `queue` (by default all),
    `partitions` (tasks that read), `by` (`id` or `lane`), `keys` (of encrypted payloads, by default STANCHION_KEYS).
    Raises InvalidInput for wrong ones, StoreUnavailable, MissingExtra without PySpark.
    """
    given = {"url": url, "of": of, "queue": queue, "partitions": str(partitions), "by": by, "keys": keys}
    options = {name: text for name, text in given.items() if text is not None}
    try:
        found = _by_jdbc(spark, checked_options(options, "read"))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow"):
            raise
        raise MissingExtra("spark", "Spark") from None
    return spark.read.format("stanchion").options(**options).load() if found is None else found


def _by_jdbc(spark: SparkSession, options: dict[str, Any]) -> DataFrame | None:
    """Return the jobs by Spark's JDBC reader; None if it can't read them as the data source does."""
    from stanchion.spark.datasource.reading.read import divided, query_of, queue_of
    from stanchion.spark.datasource.reading.schema import COLUMNS, ITEM, stored_fields

    place, columns = place_of(options), COLUMNS[options["of"]]
    connection = _connection(spark, place)
    if connection is None:
        return None
    query = replace(query_of(options["of"], *queue_of(options)), columns=stored_fields(tuple(columns)))
    with place.app() as app:
        readable = app.store.extension(SelectText)
        if readable is None or (text := readable.select_text(query)) is None:
            return None
        parts = divided(app, query, options["partitions"], by_lane=options["by"] == "lane")
    if _queried(spark, connection, _CHUNKS[options["of"]].format(text)).head(1):
        return None
    found = spark.read.jdbc(
        properties=connection,
        url=connection["url"],
        table=f"(SELECT {_columns(columns, query.columns)} FROM ({text}) AS stored WHERE {_GUARD}) AS jobs",  # noqa: S608 - constants are escaped
        predicates=[_predicate(part.where[len(query.where) :]) for part in parts],
    )
    compare_times(spark)
    shown = (_SHOWN.get(kind, "{}").format(name) for name, kind in columns.items())
    return found.selectExpr(*shown, f"CAST(NULL AS int) AS {ITEM}")


def _queried(spark: SparkSession, connection: dict[str, str], text: str) -> DataFrame:
    """Return the rows of a query."""
    return spark.read.jdbc(connection["url"], f"({text}) AS found", properties=connection)


def _connection(spark: SparkSession, place: Place) -> dict[str, str] | None:
    """Return the JDBC reader's connection options; None if it can't read this place as the data source does."""
    url = make_url(place.url)
    if (
        url.drivername.partition("+")[0] not in _SCHEMES
        or place.keys
        or os.environ.get(KEYS)
        or not (url.host and url.database and url.query.keys() <= _PROPERTIES.keys())
        or not all(isinstance(value, str) for value in url.query.values())
        or not _has_driver(spark)
    ):
        return None
    return {
        **{_PROPERTIES[name]: str(value) for name, value in url.query.items()},
        **({"user": url.username} if url.username else {}),
        **({"password": str(url.password)} if url.password else {}),
        "url": _address(url),
        "driver": DRIVER,
        "fetchsize": FETCHED,
    }


def _address(url: URL) -> str:
    host = f"[{url.host}]" if url.host and ":" in url.host else url.host
    return f"jdbc:postgresql://{host}:{url.port or 5432}/{quote(url.database or '', safe='')}"


def _has_driver(spark: SparkSession) -> bool:
    java = jvm_of(spark)
    if java is None:
        return False
    try:
        java.org.apache.spark.util.Utils.getContextOrSparkClassLoader().loadClass(DRIVER)
    except java_error():
        return False
    return True


def _columns(columns: Mapping[str, str], fields: Sequence[str]) -> str:
    """Return the selection of columns from the stored fields, and the fields that divide jobs into parts."""
    shown = {"lane": f"NULLIF(lane, {UNLANED})"}
    converted = (
        f"{_CONVERTED[kind].format(shown.get(field, field))} AS {name}"
        for (name, kind), field in zip(columns.items(), fields, strict=True)
    )
    return ", ".join((*converted, *(f"{field} AS {_OF_PARTS.format(field)}" for field in ("id", "lane"))))


def _predicate(where: Sequence[Condition]) -> str:
    """Return the conditions of a part, on ids or lanes, in SQL."""
    return " AND ".join(f"{_OF_PARTS.format(one.field)} {one.op} '{one.value}'" for one in where) or "TRUE"
