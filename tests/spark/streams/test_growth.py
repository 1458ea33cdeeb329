"""How large a batch may be after the ones before it."""

from stanchion.streams.sizing import QUICK_SECONDS, Growth


def test_quick_full_batches_double_the_next_one() -> None:
    growth = Growth(75)
    found = [growth.of(10)]
    for _ in range(4):
        growth.ended(1.0, full=True)
        found.append(growth.of(10))
    assert found == [10, 20, 40, 75, 75]


def test_slow_ones_keep_their_size() -> None:
    growth = Growth(100)
    growth.ended(1.0, full=True)
    growth.ended(QUICK_SECONDS + 1, full=True)
    assert growth.of(10) == 20


def test_another_one_begins_again() -> None:
    growth = Growth(100)
    growth.ended(1.0, full=True)
    growth.ended(1.0, full=False)
    assert growth.of(10) == 10


def test_the_limit_of_the_first_one_holds() -> None:
    """Also where batches do not grow, or may grow to less."""
    for growth in (Growth(None), Growth(5)):
        growth.ended(1.0, full=True)
        assert (growth.of(10), growth.ahead(10)) == (10, 10)


def test_a_claim_ahead_is_for_the_next_batch() -> None:
    growth = Growth(30)
    assert (growth.of(10), growth.ahead(10)) == (10, 20)
    growth.ended(1.0, full=True)
    assert (growth.of(10), growth.ahead(10)) == (20, 30)
