"""The nodes of flows in Redis, as they are stored: hashes, and how they are looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stanchion.stores.cas.mixins.jobs import Seen
from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Find
from stanchion.stores.redis.client.rows import FIELD
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.jobs import RedisBase, portions
from stanchion.stores.rules.query import matches

_AT_ONCE = 500


class Nodes(RedisBase):
    """Looking at nodes, at how their members have ended, and at the jobs of a flow."""

    def flow_nodes(self, root: str) -> list[FlowNode]:
        """Return the nodes of a flow, in the order of their ids; none when it is unknown, or ended long ago."""
        found = self.server.command("SMEMBERS", self.flow_key(root) + "nodes")
        return self.nodes_of(sorted(node.decode() for node in found))

    def nodes_of(self, ids: Sequence[str]) -> list[FlowNode]:
        return [node_in(node, fields) for node, fields in zip(ids, self.stored(ids), strict=True) if fields]

    def stored(self, ids: Sequence[str]) -> list[list[bytes] | dict[bytes, bytes]]:
        return [
            fields
            for part in portions(ids, _AT_ONCE)
            for fields in self.server.all([Call(("HGETALL", self.flow_key(node) + "node")) for node in part])
        ]

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        """Return how members of a node have ended, by their places, from behind the place `after` on."""
        key = self.flow_key(node) + "ends"
        found = self.server.command("ZRANGEBYSCORE", key, f"({after}", "+inf", "LIMIT", 0, limit)
        return [_end(node, text.decode()) for text in found]

    def find_in_flow(self, query: Find) -> Iterator[JobRow]:
        """Yield the jobs of a flow that are searched for, newest id first."""
        key = self.flow_key(query.flow or "") + "jobs"
        below, last = "+" if query.after is None else f"({query.after}", ""
        while members := self.server.command("ZREVRANGEBYLEX", key, below, "-", "LIMIT", 0, _AT_ONCE):
            places = [member.decode().split(FIELD) for member in members]
            by_queue: dict[str, list[str]] = {}
            for job_id, queue in places:
                by_queue.setdefault(queue, []).append(job_id)
            now, seen = 0, dict[str, Seen]()
            for queue, ids in by_queue.items():
                now = self.look_in(queue, ids, seen)
            for job_id in dict.fromkeys(job_id for job_id, _ in places if job_id in seen and job_id != last):
                row, last = seen[job_id].row, job_id
                if query.queue in (None, row.queue) and matches(row, query, now):
                    yield row
            below = f"({members[-1].decode()}"


def fields_of(node: FlowNode) -> Iterable[str | int]:
    for name, value in node._asdict().items():
        if name not in ("id", "created_at") and value is not None:
            yield name
            yield "1" if value is True else "" if value is False else value


def node_in(node_id: str, stored: Sequence[bytes] | Mapping[bytes, bytes]) -> FlowNode:
    pairs = stored.items() if isinstance(stored, Mapping) else zip(stored[::2], stored[1::2], strict=True)
    fields = {name.decode(): text.decode() for name, text in pairs}
    return FlowNode(
        id=node_id,
        root=fields["root"],
        kind=fields["kind"],
        parent=fields.get("parent"),
        size=int(fields["size"]),
        closed=fields["closed"] == "1",
        ended=int(fields["ended"]),
        state=fields["state"],
        created_at=int(fields["created_at"]),
        finished_at=int(fields["finished_at"]) if "finished_at" in fields else None,
        handler=fields.get("handler"),
        definition=fields.get("definition"),
    )


def _end(node: str, text: str) -> MemberEnd:
    place, state, job, child, result = text.split(FIELD)
    return MemberEnd(node, int(place), state, job or None, child or None, result or None)
