"""The program of the page that pushes to MongoDB, run by Node.js with the driver of that language."""

from __future__ import annotations

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stanchion import Job, Stanchion
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.registry import open_store
from tests.plain_push.test_page import PAGE
from tests.servers.node import MONGODB, node_modules

pytestmark = pytest.mark.slow

STRANGE = 'Ürsel\'s 50% \\ "Q" 🦆 '
PROGRAM = """
import { createInterface } from "node:readline";
import { MongoClient } from "mongodb";
import { push } from "./stanchion.mjs";

const client = new MongoClient(process.argv[2]);
for await (const line of createInterface({ input: process.stdin })) {
  const [queue, payload, options] = JSON.parse(line);
  console.log(await push(client.db(), queue, payload, options));
}
await client.close();
"""
CASES: list[tuple[Any, dict[str, Any]]] = [
    ({"id": 1}, {}),
    ([STRANGE, 1.5, None], {"priority": -100, "tenant": STRANGE, "headers": {STRANGE: [STRANGE]}}),
    ("text", {"priority": 100, "key": STRANGE, "max_attempts": 3, "timeout": 1.5}),
    (None, {"order_key": STRANGE}),
]


@pytest.fixture
def store(mongo_url: str) -> MongoStore:
    store = open_store(mongo_url)
    assert isinstance(store, MongoStore)
    store.setup()
    return store


@pytest.fixture
def app(store: MongoStore) -> Stanchion:
    return Stanchion(store=store)


class Node:
    """Pushes by the program of the page."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        (source,) = re.findall(r"^```js\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        (folder / "stanchion.mjs").write_text(source)
        (folder / "program.mjs").write_text(PROGRAM)
        (folder / "node_modules").symlink_to(node_modules(MONGODB))

    def push(self, *calls: tuple[str, Any, dict[str, Any]]) -> list[str]:
        """Make these calls in one session; return the ids."""
        command = ["node", str(self._folder / "program.mjs"), self._url]
        lines = "".join(f"{json.dumps(call)}\n" for call in calls)
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()


@pytest.fixture
def node(tmp_path: Path, mongo_url: str) -> Node:
    return Node(tmp_path, mongo_url)


def document(store: MongoStore, job_id: str) -> dict[str, Any]:
    """Return the stored document of a job, without what each push makes anew."""
    (stored,) = store.server.call(lambda on, _again: on.documents(on.jobs, {"$match": {"_id": job_id}}))
    found: dict[str, Any] = dict(stored)
    assert found["run_at"] == found["enqueued_at"]
    (event,) = found.pop("events")
    for name in ("_id", "run_at", "enqueued_at", "key", "unique"):
        found.pop(name, None)
    read: dict[str, Any] = {name: json.loads(found[name]) for name in ("payload", "headers") if name in found}
    return {**found, **read, "counted": event["what"], "in": event["queue"]}


def test_it_equals_a_push_of_the_app(node: Node, app: Stanchion, store: MongoStore) -> None:
    queues = [f"{STRANGE}-{n}" for n in range(len(CASES))]
    ids = node.push(*((queue, *case) for queue, case in zip(queues, CASES, strict=True)))
    for queue, pushed, (payload, options) in zip(queues, ids, CASES, strict=True):
        (settings,) = store.queues([queue])
        assert settings.uses_slots == ("order_key" in options)
        own = app.queue(queue).push(payload, **{**options, "key": "another"})
        assert document(store, pushed) == document(store, own.id)
        assert app.queue(queue).counts().pushed == 2
        assert {job.id for job in app.queue(queue).find()} == {pushed, own.id}


def test_order_and_keys(node: Node, app: Stanchion) -> None:
    q = app.queue("q")
    ids = node.push(*(("q", n, {"priority": n % 3}) for n in range(60)), ("q", "late", {"delay": 3600, "key": "k"}))
    assert sorted(ids) == ids, "ids of one session ascend"
    assert node.push(("q", "again", {"key": "k"})) == [ids[-1]]
    jobs = q.reserve(100)
    assert [job.payload for job in jobs] == sorted(range(60), key=lambda n: (-(n % 3), n))
    app.settle([job.committed() for job in jobs])
    q.retry(ids[-1])
    (job,) = q.reserve()
    job.commit()
    (another,) = node.push(("q", "again", {"key": "k"}))
    assert another != ids[-1]
    app.maintain()
    assert (q.counts().pushed, q.counts().committed) == (62, 61)


def test_it_wakes_who_waits(node: Node, app: Stanchion) -> None:
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(app.queue("q").pop, wait=120)
        node.push(("q", {"id": 1}, {}))
        popped = job.result(120)
    assert isinstance(popped, Job)
    assert popped.payload == {"id": 1}


def test_a_worker_runs_a_task(node: Node, app: Stanchion) -> None:
    @app.task(name="shop.welcome", queue="mail")
    def welcome(user: int, greeting: str = "hello") -> str:
        return f"{greeting} {user}"

    (job_id,) = node.push(("mail", {"args": [42], "kwargs": {"greeting": STRANGE}}, {"task": "shop.welcome"}))
    app.run(queues=["mail"], until_finished=True)
    done = app.queue("mail").get(job_id)
    assert done is not None
    assert done.result == f"{STRANGE} 42"


def test_four_programs_at_once(node: Node, app: Stanchion) -> None:
    calls = [("q", n, {"key": f"k{n}"} if n % 5 == 0 else {}) for n in range(50)]
    with ThreadPoolExecutor(4) as pool:
        ids = {one for each in pool.map(lambda _: node.push(*calls), range(4)) for one in each}
    assert len(ids) == 4 * 40 + 10 == app.queue("q").counts().pushed
    assert {job.id for job in app.queue("q").reserve(300)} == ids
