"""JSON in and out of the store, with optional encryption."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stanchion.core.checks import several, whole
from stanchion.core.values.framing import Content, body_of, chunk_with, items_in
from stanchion.core.values.plain import ToPlain, plain_model, unknown_kind
from stanchion.errors import InvalidInput, MissingExtra, StanchionError

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

MAX_PAYLOAD = 1024 * 1024
_SEALED = "enc:"


@lru_cache(maxsize=16)
def _encoder(models: ToPlain) -> Callable[[Any], str]:
    return json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=models).encode


def decoder(
    parse_constant: Callable[[str], object] | None = None, parse_float: Callable[[str], object] | None = None
) -> Callable[[str], object]:
    """Return a function that decodes JSON, and raises ValueError for other text.

    It is fast for encoder output, one value without surrounding spaces; the ordinary decoder handles the rest.
    """
    ordinary = json.JSONDecoder(parse_constant=parse_constant, parse_float=parse_float)
    scan: Callable[[str, int], tuple[object, int]] = getattr(ordinary, "scan_once")  # noqa: B009 - no type stub has it

    def decode(text: str) -> object:
        try:
            value, end = scan(text, 0)
        except StopIteration:
            end = -1
        return value if end == len(text) else ordinary.decode(text)

    return decode


_decode = decoder()


class NotJson(StanchionError, ValueError):
    """A stored text is not JSON."""


@dataclass(frozen=True)
class _WithOwn:
    """Returns the plain values of models, and of types that only the program knows."""

    models: ToPlain
    own: ToPlain

    def __call__(self, value: object) -> object:
        try:
            return self.models(value)
        except TypeError:
            found = self.own(value)
        if found is NotImplemented:
            raise TypeError(unknown_kind(value))
        return found


class Codec:
    """Encodes values as the stored text, and decodes them.

    `keys`: Fernet keys, newest first. The first encrypts, all decrypt, so that keys can be rotated.
    `max_payload`: the largest encoded value, in bytes. `own`: returns the plain value of an instance of the program's
    own types, NotImplemented for any other.
    """

    def __init__(
        self, keys: Sequence[str | bytes] = (), max_payload: int = MAX_PAYLOAD, own: ToPlain | None = None
    ) -> None:
        self.max_payload = whole(max_payload, "max_payload")
        self._own = own
        given = list(several(keys, "keys", "[new, old]"))
        self._box = _box(given) if given else None

    def encode(self, value: object, what: str = "payload", models: ToPlain = plain_model) -> str:
        """Return the stored text of `value`. Raises InvalidInput if JSON can't hold it or it is too large.

        `models`: returns the plain values of the models in it.
        """
        text = self.plain(value, what, models)
        return text if self._box is None else self._sealed(text)

    def to_plain(self, models: ToPlain) -> ToPlain:
        """Return what makes plain values of models, and of the program's own types."""
        return models if self._own is None else _WithOwn(models, self._own)

    def encode_json(self, text: str, what: str = "payload") -> str:
        """Return the stored text of a value whose JSON is `text`. Raises InvalidInput if it is too large."""
        size = size_of(text)
        if size > self.max_payload:
            raise too_large(size, self.max_payload, what)
        return text if self._box is None else self._sealed(text)

    def _sealed(self, text: str) -> str:
        assert self._box is not None  # noqa: S101 - asked by the caller
        return _SEALED + self._box.encrypt(text.encode()).decode()

    def plain(self, value: object, what: str, models: ToPlain = plain_model) -> str:
        """Return `value` as JSON, under the same checks as `encode`, never encrypted."""
        try:
            if isinstance(value, _CONTAINERS):
                check_keys(value, what)
            text = _encoder(self.to_plain(models))(value)
            size = size_of(text)
        except InvalidInput:  # of a model
            raise
        except (TypeError, ValueError, RecursionError) as error:
            raise not_json(what, error) from error
        if size > self.max_payload:
            raise too_large(size, self.max_payload, what)
        return text

    def decode(self, text: Content | None) -> Any:
        """Return the value of a stored content. Raises NotJson for one that something else has stored."""
        if text is None:
            return None
        if isinstance(text, bytes):
            raise NotJson("the content is a chunk")
        opened = self._open(text) if text.startswith(_SEALED) else text
        try:
            return _decode(opened)
        except (ValueError, RecursionError) as error:
            raise NotJson(f"the stored text is not JSON, so another program has written it: {error}") from None

    def sealed_chunk(self, chunk: bytes) -> bytes:
        """Return a chunk as it is stored: its body is encrypted if there are keys."""
        if self._box is None:
            return chunk
        return chunk_with(items_in(chunk) or 0, _SEALED.encode() + self._box.encrypt(bytes(body_of(chunk))))

    def opened_chunk(self, stored: bytes) -> bytes:
        """Return a chunk from its stored form."""
        if not is_sealed_chunk(stored):
            return stored
        return chunk_with(items_in(stored) or 0, self._decrypted(bytes(body_of(stored)[len(_SEALED) :])))

    @property
    def has_keys(self) -> bool:
        """True if it encrypts."""
        return self._box is not None

    def opened(self, text: str) -> str:
        """Return the JSON of a stored text."""
        return self._open(text) if text.startswith(_SEALED) else text

    def _open(self, text: str) -> str:
        return self._decrypted(text[len(_SEALED) :].encode()).decode()

    def _decrypted(self, token: bytes) -> bytes:
        if self._box is None:
            raise StanchionError("the payload is encrypted, and this app has no keys; pass Stanchion(..., keys=[...])")
        from cryptography.fernet import InvalidToken

        try:
            return self._box.decrypt(token)
        except InvalidToken:
            raise StanchionError(
                "the payload is encrypted under a key that this app does not have; add the old key to keys=[new, old]"
            ) from None


def not_json(what: str, error: Exception) -> InvalidInput:
    """Return the error for a value that JSON can't hold."""
    return InvalidInput(
        f"the {what} can't be encoded as JSON ({error}); pass numbers, strings, booleans, None, lists and dicts with "
        f"string keys, or an id to look the rest up by"
    )


def too_large(size: int, most: int, what: str) -> InvalidInput:
    """Return the error for a value whose JSON takes more bytes than `most`."""
    return InvalidInput(
        f"the {what} takes {size:,} bytes, more than the limit of {most:,}; store it elsewhere and pass a reference, "
        f"or raise max_payload"
    )


def is_sealed(text: str) -> bool:
    """Return whether a stored text is encrypted."""
    return text.startswith(_SEALED)


def is_sealed_chunk(stored: bytes) -> bool:
    """Return whether a stored chunk is encrypted."""
    return body_of(stored)[: len(_SEALED)] == _SEALED.encode()


def size_of(text: str) -> int:
    """Return the size of a text in bytes."""
    return len(text) if text.isascii() else len(text.encode())


_CONTAINERS = (dict, list, tuple)


def check_keys(value: Any, what: str) -> None:
    """Refuse keys that JSON would silently turn into strings; `value`: a container."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} in the {what} is not a string")
        value = value.values()
    for one in value:
        if isinstance(one, _CONTAINERS):
            check_keys(one, what)


def _box(keys: Sequence[str | bytes]) -> MultiFernet:
    try:
        from cryptography.fernet import Fernet, MultiFernet
    except ImportError:
        raise MissingExtra("crypto", "encrypting payloads") from None
    try:
        return MultiFernet([Fernet(key) for key in keys])
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput(
            "keys must be Fernet keys (32 bytes, url-safe base64); make one with "
            "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"
        ) from None
