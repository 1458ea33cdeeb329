"""Keys of one thing are in one slot of a cluster, whatever its name."""

import pytest
from redis.crc import key_slot

from stanchion.stores.redis.client.keys import Keys


@pytest.mark.parametrize("name", ["orders", "", "}", "{", "}{", "{}", "a}b", "%", "%7D", "é"])
def test_keys_of_a_queue_are_in_one_slot(name: str) -> None:
    prefix = Keys("shop").queue(name)
    assert len({key_slot(f"{prefix}{end}".encode()) for end in ("", "ready", "moving", "job:1")}) == 1


def test_names_that_differ_have_different_keys() -> None:
    names = ["", "%", "%25", "}", "%7D", "{", "{}"]
    assert len({Keys("shop").queue(name) for name in names}) == len(names)
