from stanchion import Stanchion
from tests.cli.conftest import Run


def test_a_partitioned_queue_is_one_queue(run: Run, app: Stanchion) -> None:
    assert run("queues", "set", "orders", "partitions=3").out.split()[1:] == ["partitions=3"]
    app = Stanchion(app.url)
    jobs = app.queue("orders").push_many(range(12))
    app.close()
    (queue,) = run("queues", "--json").json
    assert (queue["name"], queue["partitions"], queue["key_partitions"], queue["size"]["ready"]) == ("orders", 3, 3, 12)
    lines = run("queues").out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["orders", "12"]]

    unfolded = run("queues", "--partitions", "--json").json
    assert [one["name"] for one in unfolded] == ["orders", "orders#0", "orders#1", "orders#2"]
    assert sum(one["size"]["ready"] for one in unfolded[1:]) == 12
    assert len(run("queues", "--partitions").out.splitlines()) == 5
    assert len(run("jobs", "--queue", "orders", "--json").json) == 12
    shown = run("show", jobs[0].id, "--json").json
    assert (shown["queue"], shown["partition"]) == ("orders", jobs[0].partition)
    assert f"partition    {jobs[0].partition}" in run("show", jobs[0].id).out


def test_operates_all_partitions(run: Run, app: Stanchion) -> None:
    queue = app.queue("orders", partitions=3)
    queue.push_many(range(12))
    assert run("pause", "orders").code == 0
    assert queue.reserve(12) == []
    assert run("resume", "orders").code == 0
    for job in queue.reserve(6):
        job.commit()
    assert run("queues", "purge", "orders", "--older-than", "0s", "--json").json == [{"queue": "orders", "purged": 6}]
    assert run("queues", "delete", "orders", "--yes", "--json").json == {"queue": "orders", "deleted": 6}
    assert run("queues", "--json").json == []


def test_refuses_what_can_not_be(run: Run, app: Stanchion) -> None:
    app.queue("orders").configure(max_running=3)
    refused = run("queues", "set", "orders", "partitions=3")
    assert refused.code == 2
    assert "semaphore" in refused.err
    assert "like a partition" in run("queues", "set", "orders#1", "lanes=3").err
