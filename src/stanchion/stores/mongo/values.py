"""Notes as documents."""

from __future__ import annotations

from contextlib import suppress

from pymongo.errors import DuplicateKeyError

from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.jobs import MongoBase
from stanchion.stores.records.values import Note


class Noting(MongoBase):
    """Small texts under a name, changed by compare-and-set."""

    def notes(self, kind: str) -> list[Note]:
        found = self.server.call(lambda on, _again: list(on.notes.find({"kind": kind})))
        return sorted(Note(one["name"], one["text"], one["version"]) for one in found)

    def set_note(self, kind: str, name: str, text: str | None, version: int) -> bool:
        one: Document = {"_id": f"{kind}:{name}"}
        seen = {**one, "version": version}

        def work(on: Place, again: bool) -> bool:
            if text is None:
                if version:
                    on.notes.delete_one(seen)
                return on.notes.find_one(one) is None
            if version:
                if on.notes.update_one(seen, {"$set": {"text": text, "version": version + 1}}).matched_count:
                    return True
            else:
                with suppress(DuplicateKeyError):  # it is there
                    on.notes.insert_one({**one, "kind": kind, "name": name, "text": text, "version": 1})
                    return True
            # A repeat after a lost answer: what stands there as it was to be written was written by the first try.
            return again and on.notes.find_one({**one, "text": text, "version": version + 1}) is not None

        return self.server.call(work)
