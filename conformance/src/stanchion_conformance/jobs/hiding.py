"""What a task hides: kept in the store for who has not its code, and masked in the errors that are stored."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Stanchion, Worker
from stanchion.context import context_of
from stanchion.context.declarations.hiding import KIND
from stanchion.core.text.hiding import MASK
from stanchion.jobs.job import Job
from stanchion.ops.job_json import job_json
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE

CARD, CODE = "4111-1111-2222", "the-code-9"
PLACES = ("card.number", ("meta", "a.b"), "answer")


def payment(app: Stanchion, *, attempts: int = 1) -> Any:
    """Declare a task that hides, and that tells what it should not."""

    @app.task(name="pay", queue=QUEUE, max_attempts=attempts, hide=PLACES)
    def pay(card: dict[str, str], meta: dict[str, str], ok: bool = False) -> dict[str, str]:
        if not ok:
            raise ValueError(f"declined: {card['number']} {meta['a.b']}")
        return {"answer": CODE, "kind": card["kind"]}

    return pay


def pushed(app: Stanchion, *, attempts: int = 1, ok: bool = False) -> str:
    """Enqueue a call of it; return the id of its job."""
    handle = payment(app, attempts=attempts).enqueue({"number": CARD, "kind": "visa"}, meta={"a.b": CODE}, ok=ok)
    return str(handle.id)


def seen_by(app: Stanchion, job_id: str) -> dict[str, Any]:
    """Return a job as reads show it, of an app that need not have its code."""
    job = app.get(job_id)
    assert isinstance(job, Job)
    return job_json(job, context_of(app).hidden.of(context_of(app).fresh_store, [job.task]).get(job.task or ""))


class TestHiding:
    def test_another_process_knows_what_a_task_hides(self, app: Stanchion, other_app: Stanchion) -> None:
        job_id = pushed(app)
        assert list(context_of(other_app).hidden.of(other_app.store, ["pay", "other", None])) == ["pay"]
        found = seen_by(other_app, job_id)
        assert found["payload"]["args"] == [{"number": MASK, "kind": "visa"}]
        assert found["payload"]["kwargs"]["meta"] == {"a.b": MASK}
        assert CARD not in str(found)

    @pytest.mark.parametrize("attempts", [1, 2])
    def test_the_stored_error_is_masked(self, app: Stanchion, store: Store, attempts: int) -> None:
        job_id = pushed(app, attempts=attempts)
        app.drain([QUEUE])
        errors = store.fetch([job_id])[job_id].errors or ""
        assert "declined" in errors
        assert CARD not in errors
        assert CODE not in errors

    def test_a_worker_masks_and_tallies_what_is_masked(self, app: Stanchion, other_app: Stanchion) -> None:
        job_id = pushed(app)
        payment(other_app)
        Worker(other_app, [QUEUE], threads=1, until_empty=True).run()
        found = other_app.get(job_id)
        assert found is not None
        assert found.errors[-1]["error"] == f"ValueError: declined: {MASK} {MASK}"
        tallies = "".join(value.text for value in other_app.store.values("failures"))
        assert "declined" in tallies
        assert CARD not in tallies

    def test_a_result_is_masked_in_reads_and_whole_in_the_store(self, app: Stanchion, other_app: Stanchion) -> None:
        job_id = pushed(app, ok=True)
        app.drain([QUEUE])
        assert seen_by(other_app, job_id)["result"] == {"answer": MASK, "kind": "visa"}
        job = other_app.get(job_id)
        assert job is not None
        assert job.result == {"answer": CODE, "kind": "visa"}

    def test_it_is_stored_once_and_the_process_that_began_last_is_right(
        self, app: Stanchion, other_app: Stanchion
    ) -> None:
        for _ in range(2):
            pushed(app)
        (value,) = app.store.values(KIND)
        assert (value.name, value.version) == ("pay", 1)

        @other_app.task(name="pay", queue=QUEUE, hide=())
        def pay(card: dict[str, str], **_: Any) -> None:
            del card

        pay.enqueue({})
        (value,) = app.store.values(KIND)
        assert value.version == 2
        bare = Stanchion(store=app.store)
        assert context_of(bare).hidden.of(app.store, ["pay"]) == {}
