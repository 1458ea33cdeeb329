"""The data source `stanchion`: Spark reads and writes jobs, as a batch or as a stream.

Spark creates these objects and their results in several processes. They hold options but no connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StanchionSource(DataSource):
    """Jobs as rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "stanchion"

    def schema(self) -> str:
        """Return the columns for the options; a stream has the columns of live jobs."""
        from stanchion.spark.datasource.reading.read import schema_of

        return schema_of(self._given)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        from stanchion.spark.datasource.reading.read import reader_of

        return reader_of(self._given, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch."""
        from stanchion.spark.datasource.writing.write import writer_of

        return writer_of(self._given, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        if self._given.get("of", "jobs").lower() == "history":
            from stanchion.spark.datasource.reading.history_feed import history_feed

            return history_feed(self._given, schema)
        from stanchion.spark.datasource.reading.stream_read import stream_reader

        return stream_reader(self._given, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Return the writer of a stream."""
        from stanchion.spark.datasource.writing.stream_write import stream_writer

        return stream_writer(self._given, schema, overwrite)

    @property
    def _given(self) -> dict[str, str]:
        return dict(self.options)
