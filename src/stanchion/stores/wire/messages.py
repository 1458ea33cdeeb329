"""The messages and methods of the protocol, and how messages become bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from stanchion.errors import InvalidInput, MissingExtra

try:
    from google.protobuf.message import DecodeError, EncodeError, Message

    from stanchion.stores.wire.generated import stanchion_pb2 as pb
except ModuleNotFoundError as missing:
    raise MissingExtra("grpc", "a queue manager, or a client of one,") from missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor import MethodDescriptor

__all__ = ["Message", "build", "pb", "read", "written"]

M = TypeVar("M", bound=Message)


def build(kind: type[M], fields: Mapping[str, object]) -> M:
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


PACKAGE: Final = "stanchion.v1"


class Method(NamedTuple):
    """A method: its name, such as `Queues.Push`, its messages, and which of them are streams."""

    name: str
    request: type[Message]
    reply: type[Message]
    requests: bool
    replies: bool

    @property
    def service(self) -> str:
        """The full name of its service."""
        return f"{PACKAGE}.{self.name.partition('.')[0]}"

    @property
    def path(self) -> str:
        """The name by which a channel calls it."""
        return f"/{PACKAGE}.{self.name.replace('.', '/')}"


def _method(service: str, found: MethodDescriptor) -> Method:
    return Method(
        f"{service}.{found.name}",
        getattr(pb, found.input_type.name),
        getattr(pb, found.output_type.name),
        found.client_streaming,
        found.server_streaming,
    )


METHODS: Final[dict[str, Method]] = {
    method.name: method
    for service, found in pb.DESCRIPTOR.services_by_name.items()
    for method in (_method(service, one) for one in found.methods)
}
"""All methods, by name."""

SERVICES: Final[tuple[str, ...]] = tuple(one.full_name for one in pb.DESCRIPTOR.services_by_name.values())
"""The full names of the services, for reflection and health."""
