"""What is staged in MongoDB: a document for each job, and one under the name of each write, with when it was used.

A publication that has begun is noted in the document of its value, in the update that writes the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from bson import ObjectId
from pymongo.errors import BulkWriteError, DuplicateKeyError

from stanchion.stores.cas.mixins.outbox import in_hand
from stanchion.stores.cas.mixins.staging import Begun, Piece, Staged, in_pieces, is_strict, job_in, job_text
from stanchion.stores.mongo.client.documents import Document, row_of, up_to
from stanchion.stores.mongo.client.errors import duplicates
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import BULK_SECONDS
from stanchion.stores.mongo.jobs import MongoBase
from stanchion.stores.mongo.values import id_of
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.rules.staging import KEPT_STAGED, WRITE_KIND, WRITES_KEPT, published_at

_PAGE = 200


class Staging(MongoBase):
    """Jobs in hand and jobs laid aside."""

    # -- in hand

    def claim_in_hand(self, claim: Claim) -> Claimed:
        return self.claim_together(claim)

    def ids_in_hand(self, queue: str, token: str) -> list[str]:
        return [one["_id"] for one in self._in_hand(queue, token, {}, {"_id": 1})]

    def reserved(self, queue: str, token: str) -> int:
        return len(self.ids_in_hand(queue, token))

    def in_hand(self, queue: str, token: str, first: str | None = None, last: str | None = None) -> list[JobRow]:
        bounds = {name: bound for name, bound in (("$gte", first), ("$lte", last)) if bound is not None}
        found = self._in_hand(queue, token, {"_id": bounds} if bounds else {}, None)
        return [in_hand(row_of(one)) for one in found]

    def _in_hand(self, queue: str, token: str, such: Document, fields: Any) -> list[Document]:
        in_force = [{"lease_until": None}, {"lease_until": {"$gt": self.now()}}]
        held = {"state": JobState.RUNNING.value, "token": token, "queue": queue, "$or": in_force, **such}
        return self.server.call(lambda on, _again: list(on.jobs.find(held, fields).sort("_id", 1)))

    # -- staged

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        if not jobs:
            return
        self._use(write)
        for piece in in_pieces(jobs):
            documents = [_staged(write, attempt, job) for job in piece]

            def work(on: Place, _again: bool, documents: list[Document] = documents) -> None:
                try:
                    on.stage.insert_many(documents, ordered=False)
                except BulkWriteError as error:
                    duplicates(error)  # they are there already

            self.server.call(work)
        self._use(write)  # again, as somebody may have forgotten it meanwhile

    def _use(self, write: str) -> None:
        used = {"$set": {"used_at": self.now()}}

        def work(on: Place, _again: bool) -> None:
            with suppress(DuplicateKeyError):  # another upsert came first
                on.stage.update_one({"_id": write}, used, upsert=True)

        self.server.call(work)

    def staged(self, write: str) -> dict[str, Staged]:
        used = {"$set": {"used_at": self.now()}}
        stages = (
            {"$match": {"write": write}},
            {"$group": {"_id": "$attempt", "jobs": {"$sum": 1}, "strict": {"$max": "$strict"}}},
        )

        def work(on: Place, _again: bool) -> list[Document]:
            if not on.stage.update_one({"_id": write}, used).matched_count:
                return []
            return on.documents(on.stage, *stages)

        return {one["_id"]: Staged(one["jobs"], one["strict"]) for one in self.server.call(work)}

    def pieces(self, write: str, attempt: str) -> Iterator[Piece]:
        last = ""
        while page := self._page({"write": write, "attempt": attempt, "job": {"$gt": last}}):
            last = page[-1]["job"]
            yield Piece(page[0]["job"], [job_in(one["text"]) for one in page])

    def _page(self, wanted: Document) -> list[Document]:
        return self.server.call(lambda on, _again: list(on.stage.find(wanted).sort("job", 1).limit(_PAGE)))

    def drop_piece(self, begun: Begun, attempt: str, piece: Piece) -> None:
        done = {"_id": {"$in": [_id_of(begun.write, attempt, job) for job in piece.jobs]}}
        going_on = {"_id": id_of(begun.kind, begun.name), "begun.write": begun.write}
        touched = {"$set": {"begun.$.touched_at": self.now()}}

        def work(on: Place, _again: bool) -> None:
            on.stage.delete_many(done)
            on.values.update_one(going_on, touched)

        self.server.call(work)

    def unstage(self, write: str) -> None:
        def work(on: Place, _again: bool) -> None:
            on.stage.delete_one({"_id": write})
            on.stage.delete_many({"write": write})

        self.server.call(work, BULK_SECONDS)

    # -- publications

    def value_version(self, kind: str, name: str) -> int:
        return self._values.version(kind, name)

    def begin(self, begun: Begun, value: ValueChange) -> bool:
        one: Document = {"_id": id_of(value.kind, value.name)}
        stamp = ObjectId()
        record = {
            "write": begun.write,
            "attempts": list(begun.attempts),
            "noted_at": begun.noted_at,
            "touched_at": begun.noted_at,
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
            # A repeat after a lost answer: what stands there as it was to be was written by the first try.
            return again and on.values.find_one({**one, "$or": [{"begun.stamp": stamp}, written]}) is not None

        return self.server.call(work)

    def begun(self, before: int) -> Iterator[Begun]:
        late = {"begun.touched_at": {"$lt": before}}
        for value in self.server.call(lambda on, _again: list(on.values.find(late))):
            yield from (_begun(value, record) for record in value["begun"] if record["touched_at"] < before)

    def begun_with(self, value: ValueChange, write: str) -> Begun | None:
        return next((begun for begun in self._begun_with(value.kind, value.name) if begun.write == write), None)

    def _begun_with(self, kind: str, name: str) -> list[Begun]:
        found = self.server.call(lambda on, _again: on.values.find_one({"_id": id_of(kind, name)}))
        return [_begun(found, record) for record in found.get("begun", ())] if found else []

    def strike_off_begun(self, begun: Begun) -> None:
        ended = {"$pull": {"begun": {"write": begun.write}}}
        self.server.call(lambda on, _again: on.values.update_one({"_id": id_of(begun.kind, begun.name)}, ended))

    # -- versioned values

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        return self._values.values(kind, names)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        if text is None:  # with the value would go what has begun with it; what begins from now on changes its version
            for begun in self._begun_with(kind, name):
                self.go_on(begun)
        return self._values.compare_and_set(kind, name, text, version)

    # -- upkeep

    def forget_stages(self) -> None:
        """Forget what was staged a day ago and not published, and that writes were published a month ago."""
        now = self.now()
        unused = {"used_at": up_to(now - KEPT_STAGED)}
        for one in self.server.call(lambda on, _again: list(on.stage.find(unused, {"_id": 1}))):
            self._forget_stage({**one, **unused})
        for value in self.values(WRITE_KIND):
            if published_at(value) <= now - WRITES_KEPT:
                self.compare_and_set(WRITE_KIND, value.name, None, value.version)

    def _forget_stage(self, unused: Document) -> None:
        going_on = {"begun.write": unused["_id"]}

        def work(on: Place, _again: bool) -> None:
            # Who is about to publish it uses it first, and then finds it whole or not at all.
            if on.values.find_one(going_on, {"_id": 1}) is None and on.stage.delete_one(unused).deleted_count:
                on.stage.delete_many({"write": unused["_id"]})

        self.server.call(work, BULK_SECONDS)


def _staged(write: str, attempt: str, job: NewJob) -> Document:
    staged = {"_id": _id_of(write, attempt, job), "write": write, "attempt": attempt, "job": job.id}
    return {**staged, "strict": is_strict(job), "text": job_text(job)}


def _id_of(write: str, attempt: str, job: NewJob) -> str:
    return "\x1f".join((write, attempt, job.id))


def _begun(value: Document, record: Document) -> Begun:
    return Begun(record["write"], tuple(record["attempts"]), value["kind"], value["name"], record["noted_at"])
