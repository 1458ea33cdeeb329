"""Reading DDL, such as `id bigint not null, city string, tags array<string>`: the part of Spark's that JSON can hold.

    schema   = column {"," column}
    column   = name [":"] type ["not" "null"] ["comment" text]
    name     = letters, digits and _, or any characters in backquotes, a backquote doubled
    type     = one of PLAIN or of _ALSO | "decimal" ["(" digits ["," digits] ")"] | "array" "<" type ">"
             | "map" "<" "string" "," type ">" | "struct" "<" schema ">"

Words have any case; names of fields keep theirs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stanchion.core.checks import brief
from stanchion.errors import InvalidInput
from stanchion.schemas.kinds import MOST_DIGITS, PLAIN, Array, Decimals, Field, Kind, Map, Plain, Struct, quoted

_ALSO = {
    **{"bool": "boolean", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"},
    **{"real": "float", "timestamp_ltz": "timestamp"},
}
"""Synonyms of types."""

MOST_FIELDS = 1000
MOST_NESTED = 20
"""Maximum number of fields of a schema, including nested ones, and of levels of objects, lists and maps."""

_TOKENS = re.compile(r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'[^']*'|\"[^\"]*\")|(?P<word>\w+)|(?P<mark>[<>(),:]))")


class _Token(NamedTuple):
    kind: str
    text: str


def struct_of(text: str) -> Struct:
    """Return the fields of a schema in DDL. Raises InvalidInput."""
    reader = _Reader(text)
    struct = reader.columns(0, "")
    if reader.ahead.kind:
        raise reader.unexpected("a comma, or the end,")
    check_names(struct)
    return struct


class _Reader:
    """Reads DDL from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._place = text, _tokens(text), 0

    @property
    def ahead(self) -> _Token:
        """The token to read next."""
        return self._tokens[self._place]

    def columns(self, depth: int, path: str) -> Struct:
        fields = [self._column(depth, path)]
        while self._takes(","):
            fields.append(self._column(depth, path))
        return Struct(tuple(fields))

    def _column(self, depth: int, path: str) -> Field:
        token = self.ahead
        if token.kind not in ("quoted", "word"):
            raise self.unexpected("the name of a field")
        self._place += 1
        name = token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
        self._takes(":")
        here = f"{path}.{quoted(name)}" if path else quoted(name)
        kind = self._type(depth, here)
        nullable = not self._takes("not")
        if not nullable:
            self._needs("null")
        if self._takes("comment"):
            if self.ahead.kind != "text":
                raise self.unexpected("the text of the comment, in quotes,")
            self._place += 1
        return Field(name, kind, nullable)

    def _type(self, depth: int, path: str) -> Kind:
        if depth > MOST_NESTED:
            raise InvalidInput(f"field {path} of the schema is nested more than {MOST_NESTED} deep; flatten it")
        token = self.ahead
        word = token.text.lower()
        if token.kind != "word":
            raise self.unexpected(f"the type of field {path}")
        self._place += 1
        word = _ALSO.get(word, word)
        if word in PLAIN:
            return Plain(word)
        if word in ("decimal", "dec", "numeric"):
            return self._decimal(path)
        if word in ("array", "map", "struct"):
            self._needs("<")
            kind = self._nested(word, depth + 1, path)
            self._needs(">")
            return kind
        raise InvalidInput(
            f"field {path} of the schema is of type {brief(token.text)}, which is unknown here; known: "
            f"{', '.join(PLAIN)}, decimal(p,s), array<...>, map<string,...>, struct<...>"
        )

    def _nested(self, word: str, depth: int, path: str) -> Kind:
        if word == "array":
            return Array(self._type(depth, f"{path}[]"))
        if word == "struct":
            return self.columns(depth, path)
        if not self._takes("string"):
            raise self.unexpected(f"string, the type of the keys of map {path}, as JSON has no others,")
        self._needs(",")
        return Map(self._type(depth, f"{path}[]"))

    def _decimal(self, path: str) -> Decimals:
        digits = [10, 0]
        if self._takes("("):
            digits[0] = self._digits()
            if self._takes(","):
                digits[1] = self._digits()
            self._needs(")")
        if not 1 <= digits[0] <= MOST_DIGITS or digits[1] > digits[0]:
            raise InvalidInput(
                f"field {path} of the schema is decimal({digits[0]},{digits[1]}): a decimal has 1 to {MOST_DIGITS} "
                f"digits, and no more than these behind its point"
            )
        return Decimals(*digits)

    def _digits(self) -> int:
        text = self.ahead.text
        if not text.isascii() or not text.isdigit() or len(text) > 4:
            raise self.unexpected("a number of digits")
        self._place += 1
        return int(text)

    def _takes(self, text: str) -> bool:
        """Read this word or mark if it is next; return whether it was."""
        found = self.ahead.kind in ("word", "mark") and self.ahead.text.lower() == text
        self._place += found
        return found

    def _needs(self, text: str) -> None:
        if not self._takes(text):
            raise self.unexpected(repr(text))

    def unexpected(self, wanted: str) -> InvalidInput:
        found = brief(self.ahead.text) if self.ahead.kind else "the end"
        return InvalidInput(
            f"a schema is DDL such as 'id bigint not null, city string'; in {brief(self._text)}, {wanted} was "
            f"expected in place of {found}; names with other characters than letters, digits and _ are written "
            f"in backquotes"
        )


def _tokens(text: str) -> list[_Token]:
    tokens, place, end = [], 0, len(text.rstrip())
    while place < end:
        found = _TOKENS.match(text, place)
        tokens.append(_Token(str(found.lastgroup), found[0].strip()) if found else _Token("other", text[place:end]))
        place = found.end() if found else end
    return [*tokens, _Token("", "")]


def check_names(struct: Struct) -> None:
    """Raise InvalidInput for fields that can't be distinguished, and for too many of them."""
    if _checked(struct, "") > MOST_FIELDS:
        raise InvalidInput(f"a schema has at most {MOST_FIELDS} fields; put some into a map<string,...>")


def _checked(kind: Kind, path: str) -> int:
    """Check the names within a type; return the number of its fields."""
    if isinstance(kind, (Array, Map)):
        return _checked(kind.of, f"{path}[]")
    if not isinstance(kind, Struct):
        return 0
    known: dict[str, str] = {}
    for field in kind.fields:
        if not field.name or not field.name.isprintable() or len(field.name) > _LONGEST:
            raise InvalidInput(
                f"a field of the schema is named {brief(field.name)}; a name has 1 to {_LONGEST} printable characters"
            )
        if (other := known.get(field.name.casefold())) is not None:
            raise InvalidInput(
                f"two fields of the schema are named {quoted(other)} and {quoted(field.name)}, which Spark can't "
                f"distinguish; rename one"
            )
        known[field.name.casefold()] = field.name
    return sum(1 + _checked(one.kind, f"{path}.{quoted(one.name)}") for one in kind.fields)


_LONGEST = 200
