"""Sizes, counts and searches."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Job, JobState, Push, Queue, Stanchion
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.core.times import moment
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Counts, QueueStats, Sizes
from stanchion_conformance.harness import QUEUE, StoreClock, claim, due_of, find_jobs, payloads


class TestSizes:
    def test_of_an_empty_queue(self, q: Queue) -> None:
        assert q.size() == Sizes(0, 0, 0, 0, 0)

    def test_follow_the_jobs(self, q: Queue, other_q: Queue, clock: StoreClock) -> None:
        q.push_many([1, 2, 3, Push(4, delay=60), Push(5, delay=600)])
        assert other_q.size() == Sizes(total=5, ready=3, scheduled=2)
        one, two = q.reserve(2, lease=100)
        assert other_q.size() == Sizes(total=5, ready=1, scheduled=2, running=2)
        clock.advance(61)
        assert q.size() == Sizes(total=5, ready=2, scheduled=1, running=2)
        one.commit()
        two.rollback(delay=600)
        assert q.size() == Sizes(total=4, ready=2, scheduled=2)
        q.pop()
        assert q.size() == Sizes(total=3, ready=1, scheduled=2)

    def test_count_live_jobs_of_one_queue_only(self, app: Stanchion, q: Queue) -> None:
        app.queue("other").push(1)
        q.push(1)
        q.reserve()[0].bury()
        assert q.size() == Sizes()


class TestCounts:
    def test_of_an_empty_queue(self, q: Queue) -> None:
        assert q.counts() == Counts()

    def test_tell_what_happened(self, q: Queue, store: Store, other_q: Queue, clock: StoreClock) -> None:
        q.push_many([Push(number, key=str(number)) for number in range(10)])
        q.push("duplicate", key="0")
        q.pop()
        one, two, three, four, five = q.reserve(5)
        one.commit()
        two.rollback(delay=600)
        three.move("next")
        four.bury()
        five.abandon()
        q.cancel(two.id)
        q.reserve(lease=10)
        clock.advance(11)
        store.recover()
        expected = Counts(
            pushed=10,
            popped=1,
            reserved=6,
            committed=1,
            rolled_back=1,
            moved=1,
            buried=1,
            cancelled=2,
            expired=1,
        )
        assert q.counts() == expected
        assert other_q.counts() == expected
        store.maintain()
        assert q.counts() == expected
        assert app_of(context_of(q)).queue("next").counts() == Counts()

    def test_go_on_after_maintenance(self, q: Queue, store: Store) -> None:
        for round_ in range(1, 4):
            q.push_many([1, 2])
            q.pop()
            store.maintain()
            assert (q.counts().pushed, q.counts().popped) == (2 * round_, round_)

    def test_do_not_count_what_was_refused(self, q: Queue, clock: StoreClock) -> None:
        q.push({})
        (late,) = q.reserve(lease=10)
        clock.advance(11)
        q.reserve()
        with pytest.raises(Exception, match="no longer reserved"):
            late.commit()
        assert q.counts().committed == 0

    def test_outlive_the_history(self, q: Queue) -> None:
        q.push({})
        q.pop()
        q.purge_history(older_than=0)
        assert q.counts() == Counts(pushed=1, popped=1)


class TestStats:
    """The port's verb itself; its fields one by one are tested above, and by TestNextDue."""

    def test_of_several_queues_known_or_not(self, q: Queue, store: Store) -> None:
        other = app_of(context_of(q)).queue("other")
        q.push_many([1, 2])
        other.push(3, delay=60)
        (job,) = q.reserve()
        job.commit()
        found = store.stats([q.name, "other", "nowhere"], ["states", "totals", "next_due"])
        assert list(found) == [q.name, "other", "nowhere"]
        assert found[q.name] == QueueStats(q.size(), q.counts(), due_of(store, q.name))
        assert found["other"].states == Sizes(total=1, scheduled=1)
        assert found["other"].totals == Counts(pushed=1)
        assert found["other"].next_due == due_of(store, "other")
        assert found["nowhere"] == QueueStats()
        assert store.stats([], ["states", "totals", "next_due"]) == {}

    def test_only_the_fields_named_are_read(self, q: Queue, store: Store) -> None:
        q.push(1)
        whole = store.stats([q.name], ["states", "totals", "next_due"])[q.name]
        assert store.stats([q.name], ["states"]) == {q.name: QueueStats(states=whole.states)}
        assert store.stats([q.name], ["totals"]) == {q.name: QueueStats(totals=whole.totals)}
        assert store.stats([q.name], ["next_due"]) == {q.name: QueueStats(next_due=whole.next_due)}
        assert store.stats([q.name], []) == {q.name: QueueStats()}

    def test_what_hinders_a_claim_does_not_hide_what_is_due(self, q: Queue, store: Store) -> None:
        q.push(1)
        before = due_of(store, q.name)
        q.configure(paused=True, max_rate=1, max_running=1)
        assert due_of(store, q.name) == before


class TestFind:
    @pytest.fixture
    def jobs(self, app: Stanchion, q: Queue) -> dict[str, Job]:
        """Jobs in every state, by name."""
        names = ("done", "dead", "cancelled", "running")
        jobs = {name: q.push({"name": name}, tenant="acme") for name in names}
        done, dead, cancelled, _running = q.reserve(4)
        done.commit()
        dead.bury("disk full")
        cancelled.abandon()
        jobs["ready"] = q.push({"name": "ready"}, tenant="zeta")
        jobs["scheduled"] = q.push({"name": "scheduled"}, delay=600)
        jobs["task"] = app.using("mail.send", queue="mail").enqueue("who").job()
        return jobs

    def search(self, store: Store, jobs: dict[str, Job], **query: Any) -> list[str]:
        """Return the names of what is found, in order."""
        names = {job.id: name for name, job in jobs.items()}
        return [names[row.id] for row in find_jobs(store, **query)]

    def test_everything_newest_first(self, store: Store, jobs: dict[str, Job]) -> None:
        assert self.search(store, jobs) == list(reversed(jobs))

    @pytest.mark.parametrize("state", ["done", "dead", "cancelled", "running", "scheduled"])
    def test_by_state(self, q: Queue, jobs: dict[str, Job], state: str) -> None:
        (job,) = q.find(state=state)
        assert (job.id, job.state) == (jobs[state].id, state)

    def test_by_several_states(self, store: Store, jobs: dict[str, Job], clock: StoreClock) -> None:
        live = tuple(state for state in JobState if not state.final)
        assert self.search(store, jobs, states=live) == ["task", "scheduled", "ready", "running"]
        assert self.search(store, jobs, states=(JobState.DONE, JobState.READY)) == ["task", "ready", "done"]
        assert self.search(store, jobs, states=(JobState.WAITING,)) == []
        clock.advance(601)
        assert self.search(store, jobs, states=(JobState.READY,)) == ["task", "scheduled", "ready"]

    def test_by_queue_task_and_tenant(self, store: Store, jobs: dict[str, Job]) -> None:
        assert self.search(store, jobs, queue="mail") == ["task"]
        assert self.search(store, jobs, queue="nowhere") == []
        assert self.search(store, jobs, task="mail.send") == ["task"]
        assert self.search(store, jobs, tenant="acme") == ["running", "cancelled", "dead", "done"]
        assert self.search(store, jobs, tenant="acme", states=(JobState.DEAD,), queue=QUEUE) == ["dead"]
        assert self.search(store, jobs, tenant="acme", queue="mail") == []

    def test_by_text_in_payload_or_errors(self, store: Store, jobs: dict[str, Job]) -> None:
        assert self.search(store, jobs, text='"name":"done"') == ["done"]
        assert self.search(store, jobs, text="disk full") == ["dead"]
        assert self.search(store, jobs, text="who") == ["task"]
        assert self.search(store, jobs, text="nothing") == []

    @pytest.mark.parametrize(
        ("payload", "text"),
        [
            ("<%>", "<%>"),
            ("<_>", "<_>"),
            ("<100%>", "<100%"),
            ("<it's>", "it's"),
            ("<a\\b>", r"a\\b"),
            ("<?:x>", "?:x"),
        ],
    )
    def test_text_is_taken_literally(self, q: Queue, payload: str, text: str) -> None:
        q.push_many(["<z>", "<100z>", "<its>", "<ab>", "<x>"])
        wanted = q.push(payload)
        assert [job.id for job in q.find(text=text)] == [wanted.id]

    def test_text_is_found_as_it_is_written(self, q: Queue) -> None:
        long = "ab" * 20_000
        jobs = {name: q.push(name).id for name in ("Zoë", "zoë", "Zoe", f"<{long}>")}
        (failed, *_) = q.reserve(1)
        failed.rollback(delay=100, error="Disk FULL")
        for text in ("Zo", "Zoë", "zoë", "zo", "ZOË", "Zoë ", long, long + "c"):
            assert [job.id for job in q.find(text=text)] == [jobs[name] for name in reversed(jobs) if text in name]
        assert [job.id for job in q.find(text="Disk FULL")] == [failed.id]
        assert q.find(text="disk full") == []

    def test_by_time_of_the_enqueue(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push("old")
        clock.advance(100)
        q.push("middle")
        q.pop()
        clock.advance(100)
        q.push("new")
        now = store.now()
        early, late = moment(now - 150 * SECOND), moment(now - 50 * SECOND)
        assert payloads(q.find(since=late)) == ["new"]
        assert payloads(q.find(until=early)) == ["old"]
        assert payloads(q.find(since=early)) == ["new", "middle"]
        assert payloads(q.find(since=early, until=late)) == ["middle"]
        (newest,) = q.find(since=late)
        assert payloads(q.find(since=newest.enqueued_at)) == ["new"]
        assert payloads(q.find(until=newest.enqueued_at)) == ["middle", "old"]

    def test_page_by_page(self, q: Queue) -> None:
        ids = [job.id for job in q.push_many(range(25))]
        for _ in range(10):
            q.pop()
        found: list[str] = []
        while page := q.find(limit=10, after=found[-1] if found else None):
            found += [job.id for job in page]
        assert found == list(reversed(ids))

    def test_fetch_finds_live_and_finished_jobs(self, q: Queue, store: Store) -> None:
        done, live = q.push_many([1, 2])
        q.pop()
        rows = store.fetch([live.id, done.id, "01890000-0000-7000-8000-000000000000"])
        assert {job_id: row.state for job_id, row in rows.items()} == {live.id: "queued", done.id: "done"}

    def test_another_queue_does_not_know_the_job(self, app: Stanchion, q: Queue) -> None:
        pushed = q.push(1)
        assert app.queue("other").get(pushed.id) is None
        assert q.get("no such id") is None

    def test_a_running_job_shows_its_holder(self, q: Queue, store: Store) -> None:
        q.push(1)
        claim(store, worker="w1")
        (job,) = q.find(state="running")
        assert (job.worker, job.attempts) == ("w1", 1)
        assert job.started_at is not None
