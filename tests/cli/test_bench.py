import pytest

from stanchion import Stanchion
from tests.cli.conftest import Run


@pytest.mark.slow
def test_measures_and_leaves_nothing(run: Run, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stanchion.ops.cli.store.measure._LONGEST_SINGLES", 60.0)
    app.queue("mail").push(1)
    answer = run("bench", "--jobs", "300", "--samples", "5", "--threads", "2", "--json")
    assert answer.code == 0
    found = answer.json
    assert found.keys() == {"store", "durable", "threads", "enqueue_single", "enqueue_bulk", "drain", "pickup"}
    for speed in ("enqueue_single", "enqueue_bulk", "drain"):
        assert found[speed].keys() == {"jobs", "seconds", "per_second"}
        assert found[speed]["jobs"] == 300
        assert found[speed]["per_second"] > 0
    pickup = found["pickup"]
    assert pickup["jobs"] == 5
    assert 0 < pickup["median"] <= pickup["p95"] <= pickup["p99"] <= pickup["worst"] < 30
    assert [queue.name for queue in app.queues()] == ["mail"]
    assert app.workers() == []


def test_table(run: Run) -> None:
    answer = run("bench", "--jobs", "100", "--samples", "1", "--url", "memory://")
    assert answer.code == 0
    for words in ("enqueue, one call each", "enqueue, 1000 per call", "drain, 8 threads", "enqueue to start", "MEDIAN"):
        assert words in answer.out
