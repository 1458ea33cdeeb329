"""The value of a stream, as other releases write it."""

import json
from dataclasses import replace

from stanchion.stores.records.values import VersionedValue
from stanchion.streams.state import Run, StreamState


def test_one_of_the_release_before_is_understood() -> None:
    fields = {"id": "i", "queue": "q", "driver": "d", "epoch": 2, "acked": 3, "reserved": 4, "holder": 2}
    text = json.dumps({**fields, "replays": 0, "published": 0, "run": ["run", 4, 10]})
    state = StreamState.of(VersionedValue("etl", text, 7))
    assert (state.run, state.begun, state.past, state.again) == (Run("run", 4, 10), None, (), 0)
    assert StreamState.of(VersionedValue("etl", state.text, 7)) == state


def test_what_a_later_release_adds_is_passed_over() -> None:
    state = StreamState("i", "q", "d", run=Run("run", 1, 2, "a", "b"), past=("one", "two"), failure="x", version=1)
    text = json.dumps({**json.loads(state.text), "new": 1})
    assert StreamState.of(VersionedValue("etl", text, 1)) == state


def test_each_driver_claims_a_batch_under_a_token_of_its_own() -> None:
    state = StreamState("01a20000-0000-7000-8000-000000000000", "q", "d", epoch=1, reserved=3)
    after = replace(state, epoch=2)
    assert state.next_token != after.next_token
    assert after.next_token == replace(after).next_token
    assert state.token != state.next_token
