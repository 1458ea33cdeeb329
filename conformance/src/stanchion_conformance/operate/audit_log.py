"""The audit log: each process finds what is written, newest first, by who, act and time, as long as it is kept."""

from __future__ import annotations

from functools import partial

import pytest

from stanchion.ops import audit
from stanchion.ops.audit import CHUNK, KEPT, KIND, AuditLog, Entry, Wanted
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion_conformance.harness import StoreClock, all_at_once

DAY = 86_400
WRITERS, EACH = 4, 5


def log_of(store: Store) -> AuditLog:
    """Return the log of a store."""
    return AuditLog(lambda: store)


def write(store: Store, *acts: tuple[str, str, str]) -> None:
    """Write entries of now: who, act, subject."""
    for who, act, subject in acts:
        log_of(store).add(Entry(store.now(), who, act, subject))


def subjects(store: Store, wanted: Wanted = Wanted()) -> list[str]:  # noqa: B008 - it is frozen
    """Return the subjects of the entries that are wanted, newest first."""
    return [entry.subject for entry in log_of(store).walk(store.now(), wanted)]


class TestAuditLog:
    def test_another_process_sees_an_entry_as_it_was_written(self, store: Store, other_store: Store) -> None:
        before = store.now()
        given = Entry(before, "ana", "pause", 'mail «x» " ü', 3, "the provider is down\nuntil 10:00", "10.0.0.1")
        log_of(store).add(given)
        ((entry,), older) = log_of(other_store).newest(10)
        assert entry._replace(id="") == given
        assert (len(entry.id), older) == (8, None)

    def test_entries_are_found_by_who_act_and_time_newest_first(self, store: Store, clock: StoreClock) -> None:
        write(store, ("ana", "pause", "a"), ("ben", "set max_rate", "b"))
        clock.advance(DAY)
        middle = store.now()
        write(store, ("ana", "resume", "c"), ("ben", "set lanes", "d"), ("ben", "settle", "e"))
        assert subjects(store) == ["e", "d", "c", "b", "a"]
        assert subjects(store, Wanted("ana")) == ["c", "a"]
        assert subjects(store, Wanted(act="set")) == ["d", "b"]
        assert subjects(store, Wanted(since=middle)) == ["e", "d", "c"]
        assert subjects(store, Wanted(until=middle)) == ["b", "a"]
        assert subjects(store, Wanted("ben", "set", middle)) == ["d"]

    def test_it_spans_chunks(self, store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(audit, "CHUNK", 3)
        monkeypatch.setattr(audit, "WALKED", 3)
        for number in range(8):
            write((store, other_store)[number % 2], ("ana", "pause", f"{number}"))
        assert subjects(store) == [f"{number}" for number in range(7, -1, -1)]
        assert len(store.values(KIND)) == 4
        page, older = log_of(store).newest(3)
        assert older is not None
        rest, _ = log_of(other_store).newest(CHUNK, older)
        assert [one.subject for one in (*page, *rest)] == subjects(store)

    def test_what_several_write_at_once_is_all_there(self, store: Store, other_store: Store) -> None:
        def writer(on: Store, name: str) -> None:
            for number in range(EACH):
                write(on, (name, "pause", f"{number}"))

        stores = (store, other_store) * (WRITERS // 2)
        all_at_once([partial(writer, on, f"w{place}") for place, on in enumerate(stores)])
        for place in range(WRITERS):
            assert subjects(store, Wanted(f"w{place}")) == [f"{number}" for number in range(EACH - 1, -1, -1)]

    def test_old_entries_are_purged(self, store: Store, clock: StoreClock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(audit, "CHUNK", 2)
        write(store, *(("ana", "pause", f"old {number}") for number in range(4)))
        clock.advance(KEPT / SECOND - DAY)
        write(store, ("ana", "pause", "newer"))
        clock.advance(2 * DAY)
        assert subjects(store) == ["newer"]
        write(store, ("ana", "pause", "new"), ("ana", "pause", "newest"))
        assert subjects(store) == ["newest", "new", "newer"]
        texts = "".join(value.text for value in store.values(KIND))
        assert "old" not in texts
        assert len(store.values(KIND)) == 3
