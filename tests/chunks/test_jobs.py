"""A job that carries a chunk: what programs read of it, and what people are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.fernet import Fernet
from typer.testing import CliRunner

from stanchion import JobState, Stanchion
from stanchion.context import context_of
from stanchion.copying.transfer import Transfer
from stanchion.core.chunks import encoding
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.content import Content
from stanchion.core.chunks.stored import stored
from stanchion.core.ids import new_id
from stanchion.django.jobs import listed, story_of
from stanchion.jobs.reservation import Reservation
from stanchion.ops.cli import cli
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit
from tests.web.api.conftest import Client
from tests.web.conftest import Browser, site_of

ITEMS = [{"n": n, "name": f"item {n}"} for n in range(3)]
QUEUE = "jobs"


@pytest.fixture
def url(tmp_path: Any) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def app(url: str) -> Iterator[Stanchion]:
    app = Stanchion(url)
    yield app
    app.close()


def pushed(app: Stanchion, items: list[Any] = ITEMS, **fields: Any) -> str:
    """Push a chunk; return the id of its job."""
    codec, job_id = context_of(app).codec, new_id()
    context_of(app).store.push([NewJob(job_id, QUEUE, stored(codec, Chunk.of(items)), **fields)])
    return job_id


def finished(app: Stanchion, job_id: str) -> None:
    """Commit a chunk with a chunk of results."""
    (held,) = app.queue(QUEUE).reserve()
    assert held.id == job_id
    result = stored(context_of(app).codec, Chunk.of([1, 2, 3]))
    context_of(app).store.settle([Commit(held._row.lease, result)])


class TestPrograms:
    def test_read_the_items(self, app: Stanchion) -> None:
        job_id = pushed(app)
        job = app.get(job_id)
        assert job is not None
        assert (job.items, list(job.payload), job.payload[1:], job.checkpoint) == (3, ITEMS, Chunk.of(ITEMS[1:]), None)
        finished(app, job_id)
        done = app.get(job_id)
        assert done is not None
        assert (done.state, list(done.result), list(done.payload)) == (JobState.DONE, [1, 2, 3], ITEMS)

    def test_of_one_item_there_are_none(self, app: Stanchion) -> None:
        app.queue(QUEUE).push({"n": 1})
        (job,) = app.queue(QUEUE).reserve()
        assert (job.items, job.payload) == (None, {"n": 1})

    def test_only_with_the_keys(self, url: str) -> None:
        key = Fernet.generate_key()
        with Stanchion(url, keys=[key]) as app:
            job_id = pushed(app)
        with Stanchion(url, keys=[Fernet.generate_key(), key]) as app:
            job = app.get(job_id)
            assert job is not None
            assert (job.items, list(job.payload)) == (3, ITEMS)
            assert b"item 1" not in job._row.payload
        shown = CliRunner().invoke(cli, ["--url", url, "show", job_id, "--json"])
        assert "no keys" in json.loads(shown.stdout)["unreadable"]

    def test_hand_a_reservation_on(self, app: Stanchion) -> None:
        pushed(app)
        (held,) = app.queue(QUEUE).reserve()
        copy = Reservation.from_dict(app, json.loads(json.dumps(held.to_dict())))
        assert (copy._row, list(copy.payload)) == (held._row, ITEMS)
        copy.rollback(0.0, "again")

    def test_find_others_by_content(self, app: Stanchion) -> None:
        pushed(app, [{"n": 1}, {"n": 2}])
        app.queue(QUEUE).push({"n": 1, "name": "item 1"})
        assert [job.items for job in app.find(payload={"n": 1}, queue=QUEUE)] == [None]
        assert [job.items for job in app.find(text="item", queue=QUEUE)] == [None]

    def test_copy_them(self, app: Stanchion, tmp_path: Any) -> None:
        finished(app, finished_id := pushed(app))
        live = pushed(app)
        with Stanchion(f"sqlite:///{tmp_path}/other.db") as other:
            other.setup()
            Transfer(context_of(app).store, context_of(other).store, [QUEUE], history=True).run()
            for job_id in (live, finished_id):
                job = other.get(job_id)
                assert job is not None
                assert (job.items, list(job.payload)) == (3, ITEMS)
            assert list(other.get(finished_id).result) == [1, 2, 3]  # type: ignore[union-attr]

    def test_replay_them(self, app: Stanchion) -> None:
        finished(app, job_id := pushed(app))
        [copy] = app.replay([job_id])
        assert list(app.get(copy.id).payload) == ITEMS  # type: ignore[union-attr]


class TestPeople:
    def test_on_the_command_line(self, app: Stanchion, url: str) -> None:
        job_id = pushed(app)
        run = CliRunner()
        shown = json.loads(run.invoke(cli, ["--url", url, "show", job_id, "--json"]).stdout)
        assert (shown["items"], shown["payload"]["items"], shown["unreadable"]) == (3, 3, None)
        assert shown["payload"]["bytes"] > 100
        text = run.invoke(cli, ["--url", url, "show", job_id], catch_exceptions=False).stdout
        assert "items" in text
        app.queue(QUEUE).push({"name": "an item"})
        asked = ["--url", url, "jobs", "--queue", QUEUE, "--json"]
        found = [json.loads(run.invoke(cli, [*asked, *more]).stdout) for more in ((), ("--text", "item"))]
        assert [sorted(job["items"] or 1 for job in jobs) for jobs in found] == [[1, 3], [1]]

    def test_in_the_api(self, app: Stanchion) -> None:
        job_id = pushed(app)
        client = Client(site_of(app))
        shown = client.get(f"jobs/{job_id}").json()
        assert (shown["items"], shown["payload"]["items"]) == (3, 3)
        [held] = client.post(f"queues/{QUEUE}/reserve", json={}).json()["jobs"]
        assert (held["id"], held["items"], held["payload"]) == (job_id, 3, ITEMS)

    def test_on_the_page(self, app: Stanchion) -> None:
        job_id = pushed(app)
        browser = Browser(site_of(app))
        page = browser.get(f"/jobs/{job_id}")
        assert page.status_code == 200
        assert "3 items" in page.text
        found = browser.get("/jobs", params={"queue": QUEUE, "text": "item"})
        assert found.status_code == 200

    def test_the_first_items_and_further_ones_in_the_api(self, app: Stanchion) -> None:
        job_id = pushed(app, [{"n": n, "password": f"p{n}", "at": [n]} for n in range(130)])
        client = Client(site_of(app))
        first = client.get(f"jobs/{job_id}").json()["payload"]
        assert (first["items"], first["columns"]["n"], first["next"]) == (130, "int64", 20)
        assert first["shown"][17] == {"item": 17, "value": {"n": 17, "password": "•••", "at": [17]}}
        assert len(first["shown"]) == 20
        more = client.asks("getItems", f"jobs/{job_id}/items?from=20")
        assert ([one["item"] for one in more["shown"]], more["next"]) == ([*range(20, 70)], 70)
        last = client.asks("getItems", f"jobs/{job_id}/items?from=120")
        assert ([one["value"]["n"] for one in last["shown"]], last["next"]) == ([*range(120, 130)], None)
        assert "p120" not in str(last)
        assert client.asks("getItems", f"jobs/{job_id}/items?from=500")["shown"] == []
        alone = app.queue(QUEUE).push({"n": 1}).id
        assert client.get(f"jobs/{alone}/items").status_code == 409

    def test_one_chunk_is_decoded_for_a_request(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        finished(app, job_id := pushed(app))
        decoded: list[bytes] = []
        decode = encoding.decode

        def counted(body: bytes, size: int) -> Content:
            decoded.append(body)
            return decode(body, size)

        monkeypatch.setattr(encoding, "decode", counted)
        Client(site_of(app)).get(f"jobs/{job_id}")
        assert len(decoded) == 1
        Browser(site_of(app)).get(f"/jobs/{job_id}")
        assert len(decoded) == 2
        Client(site_of(app)).get("jobs")
        assert len(decoded) == 2

    def test_items_on_the_page(self, app: Stanchion) -> None:
        job_id = pushed(app, [{"n": n, "token": f"secret{n}", "html": "<b>"} for n in range(130)])
        browser = Browser(site_of(app))
        page = browser.get(f"/jobs/{job_id}").text
        assert "130 items" in page
        assert '<dt>19</dt><dd><code class="foreign">{&#34;n&#34;: 19' in page
        assert "<dt>20</dt>" not in page
        assert "secret1" not in page
        assert "<b>&#34;" not in page
        assert f"/jobs/{job_id}?items=20" in page
        further = browser.get(f"/jobs/{job_id}?items=20").text
        assert ("<dt>20</dt>" in further, "<dt>69</dt>" in further, "<dt>70</dt>" in further) == (True, True, False)
        assert (f"/jobs/{job_id}?items=0" in further, f"/jobs/{job_id}?items=70" in further) == (True, True)
        for odd in ("x", "-1", "9" * 30, "1000"):
            assert browser.get(f"/jobs/{job_id}?items={odd}").status_code == 200

    def test_an_act_says_that_it_concerns_all_items(self, app: Stanchion) -> None:
        job_id = pushed(app)
        asked = Browser(site_of(app)).get(f"/jobs/{job_id}/cancel").text
        assert "It carries 3 items, and this concerns all of them" in asked
        alone = app.queue(QUEUE).push(1).id
        assert "It carries" not in Browser(site_of(app)).get(f"/jobs/{alone}/cancel").text

    def test_the_first_items_on_the_command_line(self, app: Stanchion, url: str) -> None:
        job_id = pushed(app, [{"n": n, "password": f"p{n}"} for n in range(30)])
        run = CliRunner()
        shown = json.loads(run.invoke(cli, ["--url", url, "show", job_id, "--json"]).stdout)["payload"]
        assert ([one["item"] for one in shown["shown"]], shown["next"]) == ([*range(20)], 20)
        assert shown["shown"][3]["value"] == {"n": 3, "password": "•••"}
        revealed = json.loads(run.invoke(cli, ["--url", url, "show", job_id, "--json", "--reveal"]).stdout)["payload"]
        assert revealed["shown"][3]["value"] == {"n": 3, "password": "p3"}

    def test_a_search_tells_of_the_chunks_that_it_has_passed_over(self, app: Stanchion) -> None:
        for _ in range(2):
            pushed(app)
        failing = pushed(app)
        for held in app.queue(QUEUE).reserve(3):
            held.rollback(60, "item 1 is wrong" if held.id == failing else None)
        app.queue(QUEUE).push({"name": "item 1"})
        found = Client(site_of(app)).asks("listJobs", "jobs?text=item%201")
        assert (len(found["items"]), found["skipped_chunks"]) == (2, 2)
        assert Client(site_of(app)).asks("listJobs", "jobs")["skipped_chunks"] == 0
        page = Browser(site_of(app)).get("/jobs", params={"text": "item 1"}).text
        assert "The items of 2 chunks were not searched." in page
        assert "were not searched" not in Browser(site_of(app)).get("/jobs").text

    def test_items_without_their_key(self, url: str) -> None:
        with Stanchion(url, keys=[Fernet.generate_key()]) as app:
            job_id = pushed(app)
        with Stanchion(url) as app:
            assert "no keys" in Browser(site_of(app)).get(f"/jobs/{job_id}").text
            assert Client(site_of(app)).get(f"jobs/{job_id}/items").status_code == 409

    def test_items_are_no_jobs(self, app: Stanchion) -> None:
        job_id = pushed(app)
        answer = Client(site_of(app)).post("bulk", json={"act": "cancel", "ids": [f"{job_id}/1"]})
        assert (answer.status_code, f"item 1 is part of chunk {job_id}, which has 3 items" in answer.text) == (
            422,
            True,
        )

    def test_an_item_is_found_by_its_name(self, app: Stanchion) -> None:
        job_id = pushed(app)
        answer = Browser(site_of(app)).get("/jobs", params={"text": f"{job_id}/1"}, follow_redirects=False)
        assert answer.headers["location"].endswith(f"/jobs/{job_id}?items=1")

    def test_in_djangos_admin(self, app: Stanchion) -> None:
        job_id = pushed(app)
        [line] = listed(app, {"queue": QUEUE}).lines
        assert line.name == "3 items"
        told = story_of(app, job_id)
        assert told is not None
        assert told.name == "3 items"
        assert listed(app, {"text": "item"}).lines == []
