"""What is staged in MongoDB: a document for each job, and one under the name of each write, with when it was used.

A publication that has begun is noted in the document of its note, in the update that writes the note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from bson import ObjectId
from pymongo.errors import BulkWriteError, DuplicateKeyError

from stanchion.stores.cas.outbox import in_hand
from stanchion.stores.cas.staging import Begun, Piece, Staged, in_pieces, is_strict, job_in, job_text
from stanchion.stores.mongo.client.documents import Document, row_of, up_to
from stanchion.stores.mongo.client.errors import duplicates
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import BULK_SECONDS
from stanchion.stores.mongo.values import Noting
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.values import NoteChange
from stanchion.stores.rules.staging import KEPT_STAGED, OWN_NOTES, WRITES_KEPT, published_at

_PAGE = 200


class Staging(Noting):
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
        going_on = {"_id": f"{begun.kind}:{begun.name}", "begun.write": begun.write}
        touched = {"$set": {"begun.$.touched_at": self.now()}}

        def work(on: Place, _again: bool) -> None:
            on.stage.delete_many(done)
            on.notes.update_one(going_on, touched)

        self.server.call(work)

    def unstage(self, write: str) -> None:
        def work(on: Place, _again: bool) -> None:
            on.stage.delete_one({"_id": write})
            on.stage.delete_many({"write": write})

        self.server.call(work, BULK_SECONDS)

    # -- publications

    def note_version(self, kind: str, name: str) -> int:
        found = self.server.call(lambda on, _again: on.notes.find_one({"_id": f"{kind}:{name}"}, {"version": 1}))
        return found["version"] if found else 0

    def begin(self, begun: Begun, note: NoteChange) -> bool:
        one: Document = {"_id": f"{note.kind}:{note.name}"}
        stamp = ObjectId()
        record = {
            "write": begun.write,
            "attempts": list(begun.attempts),
            "noted_at": begun.noted_at,
            "touched_at": begun.noted_at,
            "stamp": stamp,
        }
        written: Document = {"text": note.text, "version": note.version + 1}
        fresh = {**one, "kind": note.kind, "name": note.name, **written, "begun": [record]}
        seen = {**one, "version": note.version, "begun.write": {"$ne": begun.write}}

        def work(on: Place, again: bool) -> bool:
            if note.version:
                update = {"$set": written, "$push": {"begun": record}}
                if on.notes.update_one(seen, update).matched_count:
                    return True
            else:
                with suppress(DuplicateKeyError):  # it is there
                    on.notes.insert_one(fresh)
                    return True
            # A repeat after a lost answer: what stands there as it was to be was written by the first try.
            return again and on.notes.find_one({**one, "$or": [{"begun.stamp": stamp}, written]}) is not None

        return self.server.call(work)

    def begun(self, before: int) -> Iterator[Begun]:
        late = {"begun.touched_at": {"$lt": before}}
        for note in self.server.call(lambda on, _again: list(on.notes.find(late))):
            yield from (_begun(note, record) for record in note["begun"] if record["touched_at"] < before)

    def begun_with(self, note: NoteChange, write: str) -> Begun | None:
        return next((begun for begun in self._begun_with(note.kind, note.name) if begun.write == write), None)

    def _begun_with(self, kind: str, name: str) -> list[Begun]:
        found = self.server.call(lambda on, _again: on.notes.find_one({"_id": f"{kind}:{name}"}))
        return [_begun(found, record) for record in found.get("begun", ())] if found else []

    def strike_off_begun(self, begun: Begun) -> None:
        ended = {"$pull": {"begun": {"write": begun.write}}}
        self.server.call(lambda on, _again: on.notes.update_one({"_id": f"{begun.kind}:{begun.name}"}, ended))

    def set_note(self, kind: str, name: str, text: str | None, version: int) -> bool:
        if text is None:  # with the note would go what has begun with it; what begins from now on changes its version
            for begun in self._begun_with(kind, name):
                self.go_on(begun)
        return super().set_note(kind, name, text, version)

    # -- upkeep

    def forget_stages(self) -> None:
        """Forget what was staged a day ago and not published, and that writes were published a month ago."""
        now = self.now()
        unused = {"used_at": up_to(now - KEPT_STAGED)}
        for one in self.server.call(lambda on, _again: list(on.stage.find(unused, {"_id": 1}))):
            self._forget_stage({**one, **unused})
        for note in self.notes(OWN_NOTES):
            if published_at(note) <= now - WRITES_KEPT:
                self.set_note(OWN_NOTES, note.name, None, note.version)

    def _forget_stage(self, unused: Document) -> None:
        going_on = {"begun.write": unused["_id"]}

        def work(on: Place, _again: bool) -> None:
            # Who is about to publish it uses it first, and then finds it whole or not at all.
            if on.notes.find_one(going_on, {"_id": 1}) is None and on.stage.delete_one(unused).deleted_count:
                on.stage.delete_many({"write": unused["_id"]})

        self.server.call(work, BULK_SECONDS)


def _staged(write: str, attempt: str, job: NewJob) -> Document:
    staged = {"_id": _id_of(write, attempt, job), "write": write, "attempt": attempt, "job": job.id}
    return {**staged, "strict": is_strict(job), "text": job_text(job)}


def _id_of(write: str, attempt: str, job: NewJob) -> str:
    return "\x1f".join((write, attempt, job.id))


def _begun(note: Document, record: Document) -> Begun:
    return Begun(record["write"], tuple(record["attempts"]), note["kind"], note["name"], record["noted_at"])
