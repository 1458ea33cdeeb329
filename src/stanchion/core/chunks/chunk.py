"""`Chunk`: the items of a job that carries many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from stanchion.core.values.framing import body_of, chunk_with, items_in
from stanchion.core.values.plain import ToPlain, plain_model

if TYPE_CHECKING:
    import pyarrow as pa

    from stanchion.core.chunks.content import Content, Indices

SHOWN = 20
"""Items that `to_dict` shows."""


class Chunk(Sequence[object]):
    """A sequence of JSON values that are stored together. It never changes, and decodes items when they are needed.

    An item is named by the id of the job that was pushed, the root, and its position there. Parts keep these names.
    """

    __slots__ = ("_content", "_encoded", "_size", "_values", "held")

    def __init__(self, size: int, content: Content | None = None, encoded: bytes | None = None) -> None:
        self._size, self._content, self._encoded = size, content, encoded
        self._values: list[object] | None = None
        self.held: bytes | None = None
        """The content that it was opened from in memory."""

    @classmethod
    def of(cls, items: Sequence[object], what: str = "payload", to_plain: ToPlain = plain_model) -> Chunk:
        """Return the chunk of items. Raises InvalidInput if JSON can't hold one of them.

        `what`: what an item is, for errors. `to_plain`: returns the plain values of models.
        """
        from stanchion.core.chunks.content import content_of

        return cls(len(items), content_of(items, what, to_plain))

    @classmethod
    def of_table(cls, table: object) -> Chunk:
        """Return the chunk of the rows of a table: of pyarrow, pandas, polars, or one with `__arrow_c_stream__`.

        Dates and times become ISO text. Raises InvalidInput if JSON can't hold a value.
        """
        from stanchion.core.chunks.content import content_of_table

        return cls._with(content_of_table(table))

    @classmethod
    def of_rows(cls, table: object, size: int) -> Iterator[Chunk]:
        """Return the chunks of at most `size` rows of a table, which is read as they are asked for."""
        from stanchion.core.chunks.content import contents_of_table

        return map(cls._with, contents_of_table(table, size))

    @classmethod
    def of_documents(cls, documents: pa.Array) -> Chunk:
        """Return the chunk of items that are given as their compact JSON, texts of pyarrow."""
        from stanchion.core.chunks.content import content_of_documents

        return cls._with(content_of_documents(documents))

    @classmethod
    def decoded(cls, chunk: bytes) -> Chunk:
        """Return the chunk that `encoded` has made bytes of. Its content is decoded later, and may raise NotAChunk."""
        return cls(items_in(chunk) or 0, encoded=chunk)

    @classmethod
    def joined(cls, chunks: Sequence[Chunk]) -> Chunk:
        """Return the items of all chunks; there must be one. Parts of the same root keep their names.

        Others are numbered anew, as items of a job of their own.
        """
        from stanchion.core.chunks.content import join

        return cls._with(join([chunk.content() for chunk in chunks]))

    @classmethod
    def gathered(cls, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Return the items of all chunks in one, under their names, if it has their root and columns; else as they are.

        A function that was called for halves of a chunk returns a chunk for each.
        """
        from stanchion.core.chunks.content import join_alike

        joined = join_alike([chunk.content() for chunk in chunks]) if len(chunks) > 1 else None
        return [*chunks] if joined is None else [cls._with(joined)]

    @classmethod
    def _with(cls, content: Content) -> Chunk:
        return cls(content.table.num_rows, content)

    def content(self) -> Content:
        """Return the content in Arrow's form, decoded once."""
        if self._content is None:
            from stanchion.core.chunks.encoding import decode

            assert self._encoded is not None  # noqa: S101 - one of both is given
            self._content = decode(body_of(self._encoded), self._size)
        return self._content

    def encoded(self) -> bytes:
        """Return the bytes to store: of a chunk that was decoded, the same object."""
        if self._encoded is None:
            from stanchion.core.chunks.encoding import encode

            self._encoded = chunk_with(self._size, encode(self.content()))
        return self._encoded

    @property
    def is_encoded(self) -> bool:
        """Whether `encoded` costs nothing."""
        return self._encoded is not None

    def fits(self, max_bytes: int) -> bool:
        """Return whether it takes at most so many bytes; it is encoded only if its columns don't tell."""
        return (not self.is_encoded and self.content().bound() <= max_bytes) or len(self.encoded()) <= max_bytes

    def reopened(self, held: bytes) -> Chunk:
        """Return the chunk as if it were decoded: its items are none that a function has changed. `held`: for it."""
        made = self._with(self.content().settled())
        made.held = held
        return made

    @property
    def values(self) -> list[object]:
        """The items, decoded once: each call returns the same objects."""
        if self._values is None:
            self._values = self.content().items()
        return self._values

    def table(self) -> pa.Table:
        """Return the items as a table of pyarrow; fields that an item lacks are null.

        Raises InvalidInput if they are no objects, or the values of a field have no common type.
        """
        return self.content().as_table()

    def text(self, index: int) -> str:
        """Return the JSON of an item: what is stored in place of a chunk of one."""
        return self.content().text_at(range(self._size)[index])

    def columns(self) -> pa.Table | None:
        """Return the typed columns with a value for each item; None if the items are stored as JSON."""
        return self.content().columns()

    def texts(self) -> pa.Array:
        """Return the JSON of all items, as texts of pyarrow."""
        return self.content().texts()

    @property
    def root(self) -> str | None:
        """The id of the job that was pushed with these items; None: the job that has the chunk."""
        return self.content().root

    @property
    def positions(self) -> Sequence[int]:
        """The place of each item among those of the root."""
        found = self.content().positions
        if found is None:
            return range(self._size)
        listed: list[int] = found.to_pylist()
        return listed

    def names(self, job: str) -> list[str]:
        """Return the name of each item, `<root>/<position>`. `job`: the id of the job that has the chunk."""
        root = self.root or job
        return [f"{root}/{position}" for position in self.positions]

    def named(self, root: str | None, positions: Indices | None = None) -> Chunk:
        """Return the same items under other names: of this root, at these positions; without, 0 and up."""
        return self._with(self.content().named(root, positions))

    def rooted(self, job: str) -> Chunk:
        """Return the chunk with this job as its root, unless it has one: what parts are made of keeps names."""
        content = self.content()
        return self if content.root is not None else self._with(content._replace(root=job))

    def take(self, indices: Indices) -> Chunk:
        """Return the chunk of the items at these indices, in this order. Raises IndexError."""
        return self._with(self.content().take(indices))

    @overload
    def __getitem__(self, index: int) -> object: ...
    @overload
    def __getitem__(self, index: slice) -> Chunk: ...
    def __getitem__(self, index: int | slice) -> object:
        places = range(self._size)[index]
        if isinstance(places, range):
            if places.step == 1:
                return self._with(self.content().part(places.start, places.stop))
            return self.take(places)
        if self._values is not None:
            return self._values[places]
        return self.content().part(places, places + 1).items()[0]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[object]:
        return iter(self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chunk):
            return NotImplemented
        return len(self) == len(other) and self.values == other.values

    def __repr__(self) -> str:
        return f"<Chunk of {self._size:,} items>"

    def __reduce__(self) -> tuple[object, ...]:
        return Chunk.decoded, (self.encoded(),)

    def to_dict(self, first: int = SHOWN) -> dict[str, object]:
        """Return what people see in place of the items: their number, and the first ones."""
        return {"items": self._size, "first": self[:first].values}
