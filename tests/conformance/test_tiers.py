"""Each case that rotates runs in one night, and the nights have about the same number."""

from tests.conformance.tiers import NIGHTS, is_of_another_night


def test_each_case_of_a_variant_has_one_night() -> None:
    names = [f"TestPush::test_case[{number}]" for number in range(1000)]
    nights = [
        [night for night in range(NIGHTS) if not is_of_another_night("test_redis_cluster", name, night)]
        for name in names
    ]
    assert all(len(own) == 1 for own in nights)
    for night in range(NIGHTS):
        assert 150 < nights.count([night]) < 350


def test_other_stores_run_whole_each_night() -> None:
    assert not any(is_of_another_night("test_mongo", "TestPush::test_case", night) for night in range(NIGHTS))
