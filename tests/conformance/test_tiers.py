"""Each case that rotates runs in one night, and the nights have about the same number."""

from tests.conformance.tiers import NIGHTS, is_named, is_of_another_night


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


def test_cases_that_a_run_names_are_made_and_others_are_not() -> None:
    for keyword in ("TestPush", "testpu or TestPush", "TestPush and twice", "TestNo or TestPush and twice", ""):
        assert is_named("TestPushSignal", keyword), keyword
    for keyword in ("test_push", "not TestOther", "TestOther or test_push", "TestOther and (a or b)"):
        assert is_named("TestPushSignal", keyword), keyword
    for keyword in ("TestOther", "TestOther or TestMore", "TestOther and test_push"):
        assert not is_named("TestPushSignal", keyword), keyword
