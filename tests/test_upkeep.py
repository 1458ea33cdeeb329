"""The time that upkeep takes."""

from stanchion.stores.rules.upkeep import Budget, purge_each


def test_each_queue_gets_a_portion_however_little_time_there_is():
    asked = []

    def purge(queue: str) -> int:
        asked.append(queue)
        return 10 if queue != "b" else 9

    assert purge_each(purge, ["a", "b", "c"], 10, Budget(0)) == ["a", "c"]
    assert asked == ["a", "b", "c"]


def test_with_time_left_all_are_purged_in_turn():
    asked, left = [], {"a": [10, 10, 3], "b": [10, 0]}

    def purge(queue: str) -> int:
        asked.append(queue)
        return left[queue].pop(0)

    assert purge_each(purge, ["a", "b"], 10, Budget(60)) == []
    assert asked == ["a", "b", "a", "b", "a"]
