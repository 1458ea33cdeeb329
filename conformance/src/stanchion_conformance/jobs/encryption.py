"""Payloads and results encrypted under keys of the app: the store has no plain text."""

from __future__ import annotations

import pytest

from stanchion import Queue, Stanchion
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.errors import StanchionError
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE, row_of

SECRET = "s3cr3t-of-the-payload"


@pytest.fixture
def key() -> str:
    """A key."""
    return new_key()


def new_key() -> str:
    """Make a key; skip without the library for it."""
    fernet = pytest.importorskip("cryptography.fernet")
    text: bytes = fernet.Fernet.generate_key()
    return text.decode()


@pytest.fixture
def sealed(store: Store, key: str) -> Queue:
    """A queue of an app with one key."""
    return Stanchion(store=store, keys=[key]).queue(QUEUE)


class TestEncryption:
    def test_payload_and_result_come_out_as_they_went_in(self, sealed: Queue) -> None:
        pushed = sealed.push({"secret": SECRET})
        assert pushed.payload == {"secret": SECRET}
        (job,) = sealed.reserve()
        assert job.payload == {"secret": SECRET}
        job.commit([SECRET])
        done = sealed.get(job.id)
        assert done is not None
        assert (done.payload, done.result) == ({"secret": SECRET}, [SECRET])

    def test_the_store_holds_neither(self, sealed: Queue, store: Store) -> None:
        pushed = sealed.push({"secret": SECRET})
        assert SECRET not in repr(row_of(store, pushed.id))
        (job,) = sealed.reserve()
        job.commit(SECRET, payload=[SECRET])
        assert SECRET not in repr(row_of(store, pushed.id))
        done = sealed.get(pushed.id)
        assert done is not None
        assert done.payload == [SECRET]

    def test_a_moved_payload_is_sealed(self, sealed: Queue, store: Store) -> None:
        pushed = sealed.push(1)
        sealed.reserve()[0].move("next", payload=SECRET)
        assert SECRET not in repr(row_of(store, pushed.id))
        assert app_of(context_of(sealed)).queue("next").reserve()[0].payload == SECRET

    def test_the_same_payload_looks_different_each_time(self, sealed: Queue, store: Store) -> None:
        one, two = sealed.push_many([SECRET, SECRET])
        assert row_of(store, one.id).payload != row_of(store, two.id).payload

    def test_a_key_is_rotated(self, sealed: Queue, store: Store, key: str) -> None:
        newer = new_key()
        old = sealed.push("old")
        rotated = Stanchion(store=store, keys=[newer, key]).queue(QUEUE)
        new = rotated.push("new")
        assert [job.payload for job in rotated.reserve(2)] == ["old", "new"]
        only_new = Stanchion(store=store, keys=[newer])
        job = only_new.get(new.id)
        assert job is not None
        assert job.payload == "new"
        job = only_new.get(old.id)
        assert job is not None
        with pytest.raises(StanchionError, match="key"):
            _ = job.payload

    def test_without_the_key_the_job_is_seen_and_its_payload_is_not(self, sealed: Queue, app: Stanchion) -> None:
        pushed = sealed.push(SECRET, headers={"trace": "t"})
        job = app.get(pushed.id)
        assert job is not None
        with pytest.raises(StanchionError, match="keys"):
            _ = job.payload

    def test_what_was_stored_before_stays_readable(self, q: Queue, sealed: Queue) -> None:
        pushed = q.push("plain")
        job = sealed.get(pushed.id)
        assert job is not None
        assert job.payload == "plain"

    def test_a_retried_and_a_replayed_job_can_be_read(self, sealed: Queue) -> None:
        pushed = sealed.push(SECRET)
        sealed.reserve()[0].bury("bad")
        sealed.replay([pushed.id])
        sealed.retry(pushed.id)
        assert [job.payload for job in sealed.reserve(2)] == [SECRET, SECRET]

    def test_a_dead_letter_can_be_read(self, sealed: Queue) -> None:
        sealed.configure(dead_letter="letters")
        sealed.push(SECRET, headers={"trace": "t"})
        sealed.reserve()[0].bury("bad")
        (letter,) = app_of(context_of(sealed)).queue("letters").reserve()
        assert (letter.payload, letter.headers["trace"]) == (SECRET, "t")
