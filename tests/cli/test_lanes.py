from stanchion import Push, Stanchion
from stanchion.context.shard import shuffle_shard
from tests.cli.conftest import Run


def test_shows_the_jobs_of_each_lane(run: Run, app: Stanchion) -> None:
    queue = app.queue("mail")
    queue.push(1)
    assert run("queues", "set", "mail", "lanes=8", "lanes_per_tenant=2").out.split()[1:] == [
        *("lanes=8", "lanes_per_tenant=2")
    ]
    app = Stanchion(app.url)
    app.queue("mail").push_many([Push(n, tenant="acme") for n in range(5)])
    first, second = shuffle_shard("acme", 8, 2)
    answer = run("lanes", "mail")
    assert answer.code == 0
    heading, *rows = (line.split() for line in answer.out.splitlines())
    assert heading == ["LANE", "QUEUED"]
    assert rows == [["none", "1"], *sorted([[str(first), "3"], [str(second), "2"]])]
    assert run("lanes", "mail", "--json").json == [
        {"lane": None, "queued": 1},
        *({"lane": lane, "queued": depth} for lane, depth in sorted({first: 3, second: 2}.items())),
    ]
    app.close()


def test_of_a_job(run: Run, app: Stanchion) -> None:
    queue = app.queue("mail")
    queue.configure(lanes=8, lanes_per_tenant=1)
    job = queue.push(1, tenant="acme")
    assert run("show", job.id, "--json").json["lane"] == job.lane
    assert f"lane         {job.lane}" in run("show", job.id).out
    assert run("queues", "--json").json[0]["lanes"] == 8


def test_of_an_empty_queue(run: Run, app: Stanchion) -> None:
    app.queue("mail").configure()
    assert run("lanes", "mail").code == 1
    assert run("lanes", "mail", "--json").json == []
    assert run("lanes", "nowhere").code == 2
