"""Staged jobs: a document per job, or per portion of prepared jobs, and one per write, with the time of its last use.

The update that writes the value of a publication also records, in the same document, that it has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from stanchion.stores.cas.entries import STALE, is_stale
from stanchion.stores.cas.staging import Begun, Piece, Staged, Staging, in_pieces, is_strict, job_in, job_text
from stanchion.stores.mongo.client.documents import Document, overdue, refuse_large_chunk, up_to
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import BULK_SECONDS, Access
from stanchion.stores.mongo.values import Values, id_of
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.prepared import Prepared
from stanchion.stores.records.values import ValueChange
from stanchion.stores.rules.staging import KEPT_STAGED, WRITE_KIND, WRITES_KEPT, published_at

_PAGE = 200
_PAGE_BYTES = 8 << 20
"""Bytes of chunks from which a page takes no further job: a reply of the server has up to twice as many."""


class Stage:
    """Staged jobs, and begun publications."""

    def __init__(
        self,
        server: Access,
        values: Values,
        ids_reserved: Callable[[str, str], list[str]],
        refuse_duplicates: Callable[[Sequence[NewJob]], None],
    ) -> None:
        self._server, self._values = server, values
        self.ids_reserved, self.refuse_duplicates = ids_reserved, refuse_duplicates
        self.now = server.now

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Store jobs under a write and an attempt; a job whose id is staged already is not added again."""
        if not jobs:
            return
        self._use(write)
        for piece in in_pieces(jobs):
            documents = [_staged(write, attempt, job) for job in piece]
            self._server.call(lambda on, _again: on.insert(on.stage, documents))  # noqa: B023
        self._use(write)  # again, because upkeep may have deleted it meanwhile

    def stage_prepared(self, write: str, attempt: str, prepared: Sequence[Prepared]) -> None:
        """Store prepared jobs under a write and an attempt, in a document for each portion."""
        if not prepared:
            return
        self._use(write)
        for one in prepared:
            document = _portion(write, attempt, one)
            self._server.call(lambda on, _again: on.insert(on.stage, [document]))  # noqa: B023
        self._use(write)

    def _use(self, write: str) -> None:
        used = {"$set": {"used_at": self._server.now()}}

        def work(on: Place, _again: bool) -> None:
            with suppress(DuplicateKeyError):  # another upsert came first
                on.stage.update_one({"_id": write}, used, upsert=True)

        self._server.call(work)

    def staged(self, write: str) -> dict[str, Staged]:
        """Return what each attempt has staged, and keep it for another day."""
        used = {"$set": {"used_at": self._server.now()}}
        stages = (
            {"$match": {"write": write}},
            {"$group": {"_id": "$attempt", "jobs": {"$sum": {"$ifNull": ["$jobs", 1]}}, "strict": {"$max": "$strict"}}},
        )

        def work(on: Place, _again: bool) -> list[Document]:
            if not on.stage.update_one({"_id": write}, used).matched_count:
                return []
            return on.documents(on.stage, *stages)

        return {one["_id"]: Staged(one["jobs"], one["strict"]) for one in self._server.call(work)}

    def pieces(self, write: str, attempt: str) -> Iterator[Piece]:
        """Yield the pieces of an attempt, a page at a time."""
        last = ""
        while page := self._page({"write": write, "attempt": attempt, "job": {"$gt": last}, "rows": None}):
            last = page[-1]["job"]
            yield Piece(page[0]["job"], [_staged_job(one) for one in page])

    def prepared(self, write: str, attempt: str) -> Iterator[Prepared]:
        """Yield the prepared jobs of an attempt, a portion at a time."""
        last = ""
        while page := self._page(
            {"write": write, "attempt": attempt, "job": {"$gt": last}, "rows": {"$exists": True}}, 1
        ):
            (one,) = page
            last = one["job"]
            yield Prepared(one["queue"], one["jobs"], last, one["rows"])

    def _page(self, wanted: Document, limit: int = _PAGE) -> list[Document]:
        def work(on: Place, _again: bool) -> list[Document]:
            page, size = list[Document](), 0
            for one in on.stage.find(wanted).sort("job", 1).limit(limit):
                page.append(one)
                size += len(one.get("payload", ""))
                if size > _PAGE_BYTES:
                    break
            return page

        return self._server.call(work)

    def drop_piece(self, begun: Begun, attempt: str, piece: Piece) -> None:
        """Delete a pushed piece, and record that the publication continues."""
        self._drop(begun, [_id_of(begun.write, attempt, job.id) for job in piece.jobs])

    def drop_prepared(self, begun: Begun, attempt: str, prepared: Prepared) -> None:
        """Delete pushed prepared jobs, and record that the publication continues."""
        self._drop(begun, [_id_of(begun.write, attempt, prepared.first)])

    def _drop(self, begun: Begun, ids: list[str]) -> None:
        done = {"_id": {"$in": ids}}
        going_on = {"_id": id_of(begun.kind, begun.name), "begun.write": begun.write}
        touched = {"$set": {"begun.$.touched_at": self._server.now()}}

        def work(on: Place, _again: bool) -> None:
            on.stage.delete_many(done)
            on.values.update_one(going_on, touched)

        self._server.call(work)

    def unstage(self, write: str) -> None:
        """Delete the staged jobs of a write."""

        def work(on: Place, _again: bool) -> None:
            on.stage.delete_one({"_id": write})
            on.stage.delete_many({"write": write})

        self._server.call(work, BULK_SECONDS)

    # -- publications

    def version(self, kind: str, name: str) -> int:
        """Return the version of a value, 0 if it is absent."""
        return self._values.version(kind, name)

    def begin(self, begun: Begun, value: ValueChange) -> bool:
        """Write a value by compare-and-set, with a record of the begun publication; False: another was faster."""
        one: Document = {"_id": id_of(value.kind, value.name)}
        stamp = ObjectId()
        record = {
            "write": begun.write,
            "attempts": list(begun.attempts),
            "begun_at": begun.begun_at,
            "touched_at": begun.begun_at,
            "stamp": stamp,
        }
        written: Document = {"text": value.text, "version": value.version + 1}
        fresh = {**one, "kind": value.kind, "name": value.name, **written, "begun": [record]}
        seen = {**one, "version": value.version, "begun.write": {"$ne": begun.write}}

        def work(on: Place, again: bool) -> bool:
            if value.version:
                update = {"$set": written, "$push": {"begun": record}}
                if on.values.update_one(seen, update).matched_count:
                    return True
            else:
                with suppress(DuplicateKeyError):  # it is there
                    on.values.insert_one(fresh)
                    return True
            # A repeat after a lost reply: if the value is the one to write, the first try wrote it.
            return again and on.values.find_one({**one, "$or": [{"begun.stamp": stamp}, written]}) is not None

        return self._server.call(work)

    def begun(self, before: int) -> Iterator[Begun]:
        """Return the publications that have begun and had no progress since this time."""
        late = overdue("begun.touched_at", before + STALE, STALE)
        for value in self._server.call(lambda on, _again: list(on.values.find(late))):
            yield from (_begun(value, record) for record in value["begun"] if is_stale(record["touched_at"], before))

    def begun_with(self, value: ValueChange, write: str) -> Begun | None:
        """Return the unfinished publication of a write that has begun with this value."""
        return next((begun for begun in self.all_begun_with(value.kind, value.name) if begun.write == write), None)

    def all_begun_with(self, kind: str, name: str) -> list[Begun]:
        """Return the unfinished publications that have begun with a value."""
        found = self._server.call(lambda on, _again: on.values.find_one({"_id": id_of(kind, name)}))
        return [_begun(found, record) for record in found.get("begun", ())] if found else []

    def delete_begun(self, begun: Begun) -> None:
        """Delete the record of a finished publication."""
        ended = {"$pull": {"begun": {"write": begun.write}}}
        self._server.call(lambda on, _again: on.values.update_one({"_id": id_of(begun.kind, begun.name)}, ended))

    # -- upkeep

    def forget_unused(self, now: int) -> None:
        """Delete stages unpublished for a day."""
        unused = {"used_at": up_to(now - KEPT_STAGED)}
        for one in self._server.call(lambda on, _again: list(on.stage.find(unused, {"_id": 1}))):
            self._forget_stage({**one, **unused})

    def _forget_stage(self, unused: Document) -> None:
        going_on = {"begun.write": unused["_id"]}

        def work(on: Place, _again: bool) -> None:
            # A publisher records its use first, and then finds the stage complete or not at all.
            if on.values.find_one(going_on, {"_id": 1}) is None and on.stage.delete_one(unused).deleted_count:
                on.stage.delete_many({"write": unused["_id"]})

        self._server.call(work, BULK_SECONDS)


class Publications:
    """Values and stages, as far as publications involve both."""

    def __init__(self, server: Access, values: Values, stage: Stage, staging: Staging) -> None:
        self._server, self._values, self._stage, self._staging = server, values, stage, staging

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write a value, or delete it if `text` is None, if its version is still `version`; 0: it is absent."""
        if text is None:  # the value may hold begun publications; a later one changes its version
            for begun in self._stage.all_begun_with(kind, name):
                self._staging.go_on(begun)
        return self._values.compare_and_set(kind, name, text, version)

    def forget(self) -> None:
        """Delete stages unpublished for a day, and the values of writes published a month ago."""
        now = self._server.now()
        self._stage.forget_unused(now)
        for value in self._values.values(WRITE_KIND):
            if published_at(value) <= now - WRITES_KEPT:
                self.compare_and_set(WRITE_KIND, value.name, None, value.version)


def _staged(write: str, attempt: str, job: NewJob) -> Document:
    document = {**_place(write, attempt, job.id), "strict": is_strict(job)}
    if isinstance(job.payload, bytes):
        refuse_large_chunk(job.payload)
        return {**document, "text": job_text(job._replace(payload="")), "payload": job.payload}
    return {**document, "text": job_text(job)}


def _staged_job(document: Document) -> NewJob:
    job = job_in(document["text"])
    return job._replace(payload=document["payload"]) if "payload" in document else job


def _portion(write: str, attempt: str, prepared: Prepared) -> Document:
    fields = {"queue": prepared.queue, "jobs": prepared.jobs, "rows": prepared.rows}
    return {**_place(write, attempt, prepared.first), "strict": False, **fields}


def _place(write: str, attempt: str, job: str) -> Document:
    return {"_id": _id_of(write, attempt, job), "write": write, "attempt": attempt, "job": job}


def _id_of(write: str, attempt: str, job: str) -> str:
    return "\x1f".join((write, attempt, job))


def _begun(value: Document, record: Document) -> Begun:
    return Begun(record["write"], tuple(record["attempts"]), value["kind"], value["name"], record["begun_at"])
