"""What steps leave to be done at gates and in flows, noted in the jobs' documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pymongo import UpdateOne

from stanchion.stores.cas.mixins.jobs import Duty
from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.jobs import MongoBase

_PAGE = 200


class Dutiful(MongoBase):
    """Reads duties and strikes them off."""

    def duties(self, before: int) -> Iterator[Duty]:
        last = ""
        while page := self._with_duties({"_id": {"$gt": last}, "duties.noted_at": {"$lt": before}}):
            yield from (duty for job in page for duty in _duties_in(job) if duty.noted_at < before)
            last = page[-1]["_id"]

    def duties_of(self, jobs: Iterable[str]) -> list[Duty]:
        """Return the duties that are noted with these jobs."""
        ids = sorted(jobs)
        pages = (ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE))
        found = (self._with_duties({"_id": {"$in": page}, "duties.mark": {"$exists": True}}) for page in pages)
        return [duty for page in found for job in page for duty in _duties_in(job)]

    def strike_off(self, duties: Sequence[Duty]) -> None:
        marks: dict[str, list[str]] = {}
        for duty in duties:
            marks.setdefault(duty.job, []).append(duty.mark)
        writes = [
            UpdateOne({"_id": job}, {"$pull": {"duties": {"mark": {"$in": of_job}}}}) for job, of_job in marks.items()
        ]
        self.server.call(lambda on, _again: on.jobs.bulk_write(writes, ordered=False, session=on.session))

    def _with_duties(self, wanted: Document) -> list[Document]:
        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.jobs.find(wanted, {"duties": 1}).sort("_id", 1).limit(_PAGE))

        return self.server.call(work)


def _duties_in(job: Document) -> list[Duty]:
    return [Duty(one["mark"], one["noted_at"], one["queue"], job["_id"], one["text"]) for one in job["duties"]]
