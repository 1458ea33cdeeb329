"""The messages of the protocol, and how they become bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from stanchion.errors import InvalidInput, MissingExtra

try:
    from google.protobuf.message import DecodeError, EncodeError, Message

    from stanchion.stores.wire.generated import stanchion_pb2 as pb
except ModuleNotFoundError as missing:
    raise MissingExtra("grpc", "a queue manager, or a client of one,") from missing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["Message", "build", "pb", "read", "written"]

M = TypeVar("M", bound=Message)


def build(kind: type[M], fields: Mapping[str, Any]) -> M:
    """Return a message with these fields, its parts as mappings; a field that is None is left out.

    InvalidInput for values that the field can't have, such as a number of over 64 bits.
    """
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the protocol can't carry this {kind.DESCRIPTOR.name}: {error}") from error


def read(kind: type[M], data: bytes) -> M:
    """Return the message in these bytes; InvalidInput if they are none."""
    try:
        return kind.FromString(data)
    except (DecodeError, ValueError) as error:  # ValueError: texts that are not UTF-8, without the C extension
        raise InvalidInput(f"these {len(data):,} bytes are no {kind.DESCRIPTOR.full_name}: {error}") from error


def written(message: Message) -> bytes:
    """Return a message as bytes; InvalidInput if it is over 2 GiB, or nested too deep."""
    try:
        return message.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise InvalidInput(f"the protocol can't carry this {message.DESCRIPTOR.name}: {error}") from error
