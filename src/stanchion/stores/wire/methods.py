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
        """What a channel calls it by."""
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

VERBS: Final[dict[str, Method]] = {
    verb: METHODS[name]
    for verb, name in {
        "push": "Queues.Push",
        "claim": "Queues.Reserve",
        "settle": "Queues.Finish",
        "fetch": "Query.Fetch",
        "select": "Query.Select",
        "partition": "Query.Partition",
        "stats": "Query.Stats",
        "lane_depths": "Query.LaneDepths",
        "queues": "Query.Queues",
        "semaphores": "Query.Semaphores",
        "flow_nodes": "Query.FlowNodes",
        "flow_ends": "Query.FlowEnds",
        "workers": "Query.Workers",
        "now": "Query.Now",
        "check": "Query.Check",
        "values": "Query.Values",
        "configure": "Control.Configure",
        "drop_queue": "Control.DropQueue",
        "cancel": "Control.Cancel",
        "retry": "Control.Retry",
        "delete": "Control.Delete",
        "adopt": "Control.Adopt",
        "maintain": "Control.Maintain",
        "recover": "Control.Recover",
        "set_semaphore": "Control.SetSemaphore",
        "setup": "Control.Setup",
        "change_flows": "Write.ChangeFlows",
        "stage": "Write.Stage",
        "publish": "Write.Publish",
        "unstage": "Write.Unstage",
        "compare_and_set": "Write.CompareAndSet",
        "beat": "Worker.Beat",
        "leave": "Worker.Leave",
    }.items()
}
"""The unary method of each verb of the port; all but `listen` and `close`."""
