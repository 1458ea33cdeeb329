"""The items of a chunk as Arrow has them, decoded as far as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from stanchion.core.chunks.arrow import counting, pa, pc
from stanchion.core.chunks.columns import REFUSED, columns_of, objects_of
from stanchion.core.chunks.documents import NAME as DOCUMENT
from stanchion.core.chunks.documents import document_at, documents_of, items_of
from stanchion.core.chunks.frames import Frame, Rows, pieces, plain_rows
from stanchion.core.chunks.texts import longest_of, texts_of
from stanchion.core.values.codec import Codec
from stanchion.core.values.plain import ToPlain, plain_model
from stanchion.errors import InvalidInput

Indices: TypeAlias = "Sequence[int] | pa.Array"
"""Places of items, as integers."""

_COMPRESSED_WORST = 64
"""A column that can't be compressed grows by less than this part of it."""
_METADATA_MOST = 4
"""Times the size of the schema that all metadata takes at most."""


class Form(StrEnum):
    """How items are stored."""

    COLUMNS = "columns"
    """A typed column for each field."""
    JSON = "json"
    """One column: the JSON of each item."""


class Content(NamedTuple):
    """The items, and what names them. `positions`: integers of 32 bits, None while they are 0, 1, 2 and so on."""

    form: Form
    table: pa.Table
    root: str | None = None
    positions: pa.Array | None = None

    def items(self) -> list[object]:
        """Return all items."""
        return items_of(self.table) if self.form is Form.JSON else [*objects_of(self.table)]

    def part(self, start: int, stop: int) -> Content:
        """Return the content of neighbouring items, without copying it."""
        number = max(stop - start, 0)
        if self.positions is None:
            positions = counting(start, start + number) if start else None
        else:
            positions = self.positions.slice(start, number)
        return Content(self.form, self.table.slice(start, number), self.root, positions)

    def take(self, indices: Indices) -> Content:
        """Return the content of these items, in this order."""
        chosen = _integers(indices, pa.int64())
        return Content(self.form, self.table.take(chosen), self.root, _unless_counting(self.positions_at(chosen)))

    def positions_at(self, chosen: pa.Array) -> pa.Array:
        """Return the positions of these items, given as an array of integers: as integers of 32 bits."""
        return chosen.cast(pa.int32()) if self.positions is None else self.positions.take(chosen)

    def text_at(self, index: int) -> str:
        """Return the JSON of an item."""
        if self.form is Form.JSON:
            return document_at(self.table, index)
        return Codec().plain(self.part(index, index + 1).items()[0], "payload")

    def bound(self) -> int:
        """Return a number of bytes that the encoded content does not exceed."""
        columns: int = self.table.nbytes + (0 if self.positions is None else self.positions.nbytes)
        metadata: int = self.table.schema.serialize().size + 1024
        return columns + columns // _COMPRESSED_WORST + _METADATA_MOST * metadata

    def settled(self) -> Content:
        """Return the content as decoding leaves it: each column in one piece."""
        return self._replace(table=self.table.combine_chunks())

    def longest(self, most: int) -> int:
        """Return the bytes of the longest JSON of an item; a greater number may stand for it, up to `most`."""
        if self.form is Form.COLUMNS and (bound := longest_of(self.table)) is not None and bound <= most:
            return bound
        return pc.max(pc.binary_length(self.texts())).as_py() or 0

    def columns(self) -> pa.Table | None:
        """Return the typed columns; None if there are none."""
        return self.table if self.form is Form.COLUMNS else None

    def texts(self) -> pa.Array:
        """Return the JSON of each item."""
        return self.table.column(0).combine_chunks() if self.form is Form.JSON else texts_of(self.table)

    def named(self, root: str | None, positions: Indices | None) -> Content:
        """Return the same items under other names."""
        if positions is None:
            return Content(self.form, self.table, root)
        if len(positions) != self.table.num_rows:
            raise InvalidInput(f"{len(positions):,} positions for {self.table.num_rows:,} items; give one for each")
        return Content(self.form, self.table, root, _unless_counting(_integers(positions, pa.int32())))

    def all_positions(self) -> pa.Array:
        """Return the positions of all items, as integers of 32 bits."""
        return counting(0, self.table.num_rows) if self.positions is None else self.positions

    def as_table(self) -> pa.Table:
        """Return the items as a table: fields that an item lacks are null. Raises InvalidInput if they fit no table."""
        if self.form is Form.COLUMNS:
            return self.table
        items = self.items()
        objects = [item for item in items if isinstance(item, dict)]
        if len(objects) < len(items):
            raise InvalidInput("an item of the chunk is no object, so it has no columns; take the items one by one")
        names = list(dict.fromkeys(name for one in objects for name in one))
        columns = {}
        for name in names:
            try:
                columns[name] = pa.array([one.get(name) for one in objects])
            except REFUSED as error:
                raise InvalidInput(
                    f"the field {name!r} of the items has values of no common type ({error}); take the items one by one"
                ) from None
        return pa.table(columns)


def content_of(items: Sequence[object], what: str = "payload", to_plain: ToPlain = plain_model) -> Content:
    """Return the content of items. Raises InvalidInput if JSON can't hold one. For the others, see `documents_of`."""
    table = columns_of(items)
    if table is not None:
        return Content(Form.COLUMNS, table)
    return Content(Form.JSON, documents_of(items, what, to_plain))


def content_of_table(table: Frame) -> Content:
    """Return the content of a table's rows. Raises InvalidInput if JSON can't hold a value."""
    return _content_of_rows(plain_rows(table))


def content_of_documents(documents: pa.Array) -> Content:
    """Return the content of items that are given as their compact JSON."""
    return Content(Form.JSON, pa.table({DOCUMENT: documents}))


def contents_of_table(table: Frame, size: int) -> Iterator[Content]:
    """Yield the rows of a table in contents of at most `size` items. Raises InvalidInput if JSON can't hold a value."""
    yield from map(_content_of_rows, pieces(table, size))


def _content_of_rows(rows: Rows) -> Content:
    return content_of(rows) if isinstance(rows, list) else Content(Form.COLUMNS, rows)


def join(contents: Sequence[Content]) -> Content:
    """Return the items of all contents, under their names if all have the same root, else numbered anew."""
    first = contents[0]
    forms = {content.form for content in contents}
    table = _concatenated([content.table for content in contents]) if len(forms) == 1 else None
    if table is None:
        items = [item for content in contents for item in content.items()]
        joined = Content(Form.JSON, documents_of(items))
    else:
        joined = Content(first.form, table)
    if first.root is None or {content.root for content in contents} != {first.root}:
        return joined
    return _named_as(joined, contents)


def join_alike(contents: Sequence[Content]) -> Content | None:
    """Return the items of all contents, under their names; None if they differ in root, form, fields or types."""
    (form, _, root, _), *others = contents
    if root is None or any((other.form, other.root) != (form, root) for other in others):
        return None
    table = _concatenated([content.table for content in contents])
    if table is None:
        return None
    return _named_as(Content(form, table), contents)


def _named_as(joined: Content, contents: Sequence[Content]) -> Content:
    """Return joined items under their names: all contents have the same root."""
    return joined.named(contents[0].root, pa.concat_arrays([content.all_positions() for content in contents]))


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table | None:
    """Return the rows of all tables; None if they differ in fields or types, as items would get nulls or other numbers.

    A column of nulls alone goes with any type.
    """
    names = {*tables[0].schema.names}
    if any({*table.schema.names} != names for table in tables):
        return None
    if any(len({table.schema.field(name).type for table in tables} - {pa.null()}) > 1 for name in names):
        return None  # structs of other fields would be merged
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException:
        return None


def _integers(numbers: Indices, kind: pa.DataType) -> pa.Array:
    if isinstance(numbers, pa.ChunkedArray):
        numbers = numbers.combine_chunks()
    return numbers.cast(kind) if isinstance(numbers, pa.Array) else pa.array(numbers, kind)


def _unless_counting(positions: pa.Array) -> pa.Array | None:
    """Return positions; None if they are 0, 1, 2 and so on."""
    return None if positions.equals(counting(0, len(positions))) else positions
