"""The methods of the protocol, for clients and servers that send and take bytes."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from stanchion.stores.wire.messages import Message, pb

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


def _method(service: str, found: Any) -> Method:
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
