"""The nodes of flows in Redis: one hash per node; the keys of the root also list all nodes and jobs.

The end of a node: (1) a list names it as one that may end, (2) it ends, (3) its consequences are applied, (4) it is
marked as followed, (5) the list drops it. After a death past (2), outbox recovery continues with (3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stanchion.core.values.framing import as_content, as_text
from stanchion.stores.cas.chunks import chunks
from stanchion.stores.cas.entries import STALE
from stanchion.stores.cas.jobs import Seen
from stanchion.stores.records.flows import FlowNode, MemberEnd, NodeState
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.redis.client.layout import FIELD
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.redis.slots import SlotRows
from stanchion.stores.rules.capacity.slots import node_slot
from stanchion.stores.rules.set_back import is_overdue

_AT_ONCE = 500
_LISTED_MICROS = 3600 * SECOND
"""Microseconds after which a process does not resume between listing and ending a node."""


class Nodes:
    """Nodes, their member ends, and the jobs of a flow."""

    def __init__(self, jobs: Jobs, slots: SlotRows) -> None:
        self._jobs, self._server, self._keys = jobs, jobs.server, jobs.server.keys
        self.waiting_at = slots.waiting_at

    # -- reading

    def flow_nodes(self, root: str) -> list[FlowNode]:
        """Return the nodes of a flow, by id; none if it is unknown, or ended long ago."""
        found = self._server.command("SMEMBERS", self._keys.flow(root) + "nodes")
        return self.nodes_of(sorted(node.decode() for node in found))

    def nodes_of(self, ids: Sequence[str]) -> list[FlowNode]:
        """Return the known ones of these nodes."""
        return [node_in(node, fields) for node, fields in zip(ids, self._stored(ids), strict=True) if fields]

    def _stored(self, ids: Sequence[str]) -> list[list[bytes] | dict[bytes, bytes]]:
        return [
            fields
            for part in chunks(ids, _AT_ONCE)
            for fields in self._server.all([Call(("HGETALL", self._keys.flow(node) + "node")) for node in part])
        ]

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        """Return up to `limit` member ends of a node, by index, those after the index `after`."""
        key = self._keys.flow(node) + "ends"
        found = self._server.command("ZRANGEBYSCORE", key, f"({after}", "+inf", "LIMIT", 0, limit)
        return [_end(node, text.decode()) for text in found]

    def jobs_of_flow(
        self, root: str, low: str = "-", high: str = "+", *, newest: bool = True
    ) -> Iterator[tuple[int, list[JobRow]]]:
        """Yield the clock, and the next jobs of a flow with ids between these bounds, in either direction."""
        key = self._keys.flow(root) + "jobs"
        # An entry is id, FIELD and queue. FIELD sorts before a space, so an id with a space is above all its entries.
        low, high = (f"{low} " if low[0] == "(" else low), (f"({high[1:]} " if high[0] == "[" else high)
        command, begin, end = ("ZREVRANGEBYLEX", high, low) if newest else ("ZRANGEBYLEX", low, high)
        last = ""
        while members := self._server.command(command, key, begin, end, "LIMIT", 0, _AT_ONCE):
            places = [member.decode().split(FIELD) for member in members]
            by_queue: dict[str, list[str]] = {}
            for job_id, queue in places:
                by_queue.setdefault(queue, []).append(job_id)
            now, seen = 0, dict[str, Seen]()
            for queue, ids in by_queue.items():
                now = self._jobs.read_in(queue, ids, seen)
            known = dict.fromkeys(job_id for job_id, _ in places if job_id in seen)
            yield now, [seen[job_id].row for job_id in known if job_id != last]
            last = next(reversed(known), last)
            begin = f"({members[-1].decode()}"

    # -- ending

    def end_members(self, node: str, ends: Sequence[MemberEnd]) -> FlowNode | None:
        """Record member ends of a node, each once; return the node if this call has ended it."""
        finished = None
        for part in chunks(ends, _AT_ONCE):
            finished = self.end(node, part) or finished
        return finished

    def end(self, node: str, ends: Sequence[MemberEnd] = (), *, close: bool = False) -> FlowNode | None:
        """Record member ends, and return the node if this call has ended it."""
        key = self._keys.flow(node)
        texts = [
            text
            for end in ends
            for text in (end.index, end.state, FIELD.join((end.job or "", end.child or "", as_text(end.result or ""))))
        ]
        flags = ("1" if close else "",)

        def run(listed: str) -> Any:
            return self._server.call(
                lambda again: self._server.run("end", key, listed, *flags, "1" if again else "", *texts)
            )

        answer = run("")
        if answer[0] == b"unlisted":
            self._server.all([self._server.enlist("ending", node)])
            answer = run("1")
        return node_in(node, answer[1]) if answer[0] == b"ended" else None

    def followed(self, node: FlowNode) -> None:
        """Mark a node as followed: all consequences of its end are done."""
        self._server.all([self._server.script("followed", self._keys.flow(node.id))])
        if node.id == node.root:
            self.forget_after(node)
        self._server.command("UNLINK", self._keys.slot(node_slot(node.id)) + "queues")
        self._server.command("ZREM", self._keys.own("ending"), node.id)

    def unfollowed(self) -> Iterator[FlowNode]:
        """Return the nodes that ended some seconds ago and are not marked as followed."""
        now, ending = self._server.now(), self._keys.own("ending")
        listed = self._server.overdue("ending", now, STALE)
        long_ago = {found for found, at in listed.items() if at <= now - _LISTED_MICROS}
        for part in chunks(listed, _AT_ONCE):
            for found, fields in zip(part, self._stored([node.decode() for node in part]), strict=True):
                node = node_in(found.decode(), fields) if fields else None
                if node is None or b"followed" in fields or (_running(node) and found in long_ago):
                    self._server.command("ZREM", ending, found)
                elif not _running(node) and is_overdue(node.finished_at or 0, now, STALE):
                    yield node

    def forget_after(self, root: FlowNode) -> None:
        """List when the flow of a root has ended, from which its retention counts."""
        self._server.all([self._server.enlist("flows", root.id, at=root.finished_at, known=True)])


def fields_of(node: FlowNode) -> Iterable[str | int]:
    """Return the fields of a node, names and values alternating, as the script `node` takes them."""
    for name, value in node._asdict().items():
        if name not in ("id", "created_at") and value is not None:
            yield name
            yield "1" if value is True else "" if value is False else value


def node_in(node_id: str, stored: Sequence[bytes] | Mapping[bytes, bytes]) -> FlowNode:
    """Return a node from its stored form."""
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
        on_failure=fields.get("on_failure"),
        definition=fields.get("definition"),
    )


def _end(node: str, text: str) -> MemberEnd:
    index, state, job, child, result = text.split(FIELD)
    return MemberEnd(node, int(index), state, job or None, child or None, as_content(result) if result else None)


def _running(node: FlowNode) -> bool:
    return node.state == NodeState.RUNNING
