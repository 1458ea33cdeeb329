"""From the queue to the end of the job."""

import threading
import time

import pytest

from stanchion import Bury, Cancel, Job, JobState, Reservation, Retry, RetryAfter, Snooze, Stanchion, Worker
from stanchion.context import context_of
from stanchion.context.unknown_work import UnknownWork
from stanchion.errors import InvalidInput
from tests.worker.conftest import ended, failed, until, working


def test_runs_jobs_and_keeps_their_results(app):
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    with working(app):
        handles = [add.enqueue(n, b=1) for n in range(20)]
        assert [handle.result(timeout=60) for handle in handles] == list(range(1, 21))


def test_runs_many_and_each_once(app):
    ran = []

    @app.task
    def note(n: int) -> None:
        ran.append(n)

    note.enqueue_many([(n,) for n in range(3000)])
    Worker(app, until_empty=True).run()
    assert sorted(ran) == list(range(3000))
    assert app.queue("default").counts().committed == 3000


def test_a_new_job_starts_at_once(app):
    started = threading.Event()

    @app.task
    def go() -> None:
        started.set()

    with working(app, poll=300):
        time.sleep(0.2)
        go.enqueue()
        assert started.wait(60)


def test_a_scheduled_job_starts_when_due(app):
    started = threading.Event()

    @app.task
    def go() -> None:
        started.set()

    with working(app, poll=30):
        pushed = time.monotonic()
        go.using(delay=0.4).enqueue()
        assert started.wait(60)
        assert 0.4 <= time.monotonic() - pushed + 0.002 < 5


def test_a_worker_with_a_name(app):
    @app.task
    def task(job: Reservation) -> str | None:
        return job.worker

    with working(app, name="invoices of May") as worker, working(app, name="invoices of May") as other:
        assert worker.id != other.id
        assert task.enqueue().result(timeout=60).startswith("invoices of May-")
        assert {row.id for row in app.workers()} == {worker.id, other.id}


@pytest.mark.parametrize("name", ["", 5, "two\nlines", 101 * "x"])
def test_a_bad_name_is_refused(app, name):
    with pytest.raises(InvalidInput, match="the name of a worker"):
        Worker(app, name=name)


def test_jobs_run_side_by_side_up_to_the_threads(app):
    lock, now, most = threading.Lock(), [0], [0]

    @app.task
    def wait() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.05)
        with lock:
            now[0] -= 1

    wait.enqueue_many([()] * 12)
    began = time.monotonic()
    Worker(app, threads=4, until_empty=True, poll=300).run()
    assert most[0] == 4
    assert time.monotonic() - began < 200


def test_outcomes(app):
    seen = []

    @app.task
    def task(job: Job, what: str) -> object:
        seen.append(job.attempt)
        match what:
            case "snooze":
                return Snooze(60)
            case "again":
                raise RetryAfter(60)
            case "cancel":
                return Cancel("no need")
            case "bury":
                raise Bury("hopeless")
            case "object":
                return object()
        raise ValueError("boom")

    with working(app):
        jobs = {what: task.enqueue(what).id for what in ("snooze", "again", "cancel", "bury", "object", "error")}
        until(lambda: len(seen) == 6)
        until(lambda: app.queue("default").size().running == 0)
    got = {what: app.get(job_id) for what, job_id in jobs.items()}
    assert (got["snooze"].state, got["snooze"].attempts, got["snooze"].failures) == (JobState.SCHEDULED, 0, 0)
    assert (got["again"].state, got["again"].attempts, got["again"].failures) == (JobState.SCHEDULED, 1, 1)
    assert got["cancel"].state is JobState.CANCELLED
    assert got["bury"].state is JobState.DEAD
    assert got["object"].state is JobState.DEAD
    assert got["error"].state is JobState.SCHEDULED
    assert got["error"].errors[-1]["error"] == "ValueError: boom"
    assert "raise ValueError" in got["error"].errors[-1]["traceback"]


def test_what_this_code_cannot_run_is_dead(app):
    @app.task
    def task(a: int) -> None: ...

    @app.task
    async def later(a: int) -> None: ...

    elsewhere = Stanchion(store=app.store)  # another release, which does not know these functions
    with working(app):
        jobs = [elsewhere.enqueue(task.name), elsewhere.enqueue(later.name, 1, 2)]
        dead = [ended(app, job.id) for job in jobs]
    assert {job.state for job in dead} == {JobState.DEAD}
    errors = [job.errors[-1]["error"] for job in dead]
    assert all("no longer fit" in error for error in errors)


def test_what_this_code_does_not_know_is_put_off(app, caplog):
    @app.task
    def task() -> None: ...

    with working(app):
        jobs = [app.enqueue("no.such.task"), app.queue("default").push({"not": "a call"}), app.enqueue("no.such.task")]
        until(lambda: all(app.get(job.id).errors for job in jobs))
        ended(app, task.enqueue().id)
    found = [app.get(job.id) for job in jobs]
    assert {(job.state, job.attempts, job.failures) for job in found} == {(JobState.SCHEDULED, 0, 0)}
    assert ["no.such.task" in job.errors[-1]["error"] for job in found] == [True, False, True]
    assert "bare payload" in found[1].errors[-1]["error"]
    assert len([record for record in caplog.records if "put off" in record.getMessage()]) == 2


def test_what_no_code_knows_for_too_long_is_dead(app):
    context_of(app).unknown_work = UnknownWork(0)
    dead = []
    app.on("dead")(lambda job, error: dead.append((job.id, str(error))))

    @app.task
    def task() -> None: ...

    with working(app):
        job = ended(app, app.enqueue("no.such.task").id)
        until(lambda: dead)
    assert (job.state, job.attempts) == (JobState.DEAD, 1)
    assert "no.such.task" in job.errors[-1]["error"]
    assert [job_id for job_id, _ in dead] == [job.id]


def test_whatever_a_task_raises_is_a_failure(app):
    class Rude(BaseException):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    @app.task
    def task(what: str) -> None:
        raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "rude": Rude()}[what]

    @app.task
    async def later() -> None:
        raise KeyboardInterrupt

    @app.task
    def fine() -> int:
        return 1

    with working(app, threads=2):
        jobs = [task.enqueue("exit"), task.enqueue("interrupt"), task.enqueue("rude"), later.enqueue()]
        assert [failed(app, job.id).state for job in jobs] == [JobState.SCHEDULED] * 4
        assert fine.enqueue().result(timeout=60) == 1


def test_a_faulty_retry_policy_is_replaced_by_the_default(app):
    def nonsense(_failures: int, _error: BaseException | None) -> float:
        raise LookupError

    @app.task(retry=Retry.custom(nonsense))
    def task() -> None:
        raise ValueError

    @app.task(retry=Retry.custom(lambda _failures, _error: float("nan")))
    def other() -> None:
        raise ValueError

    with working(app):
        for job in (task.enqueue(), other.enqueue()):
            assert failed(app, job.id).state is JobState.SCHEDULED


def test_a_task_may_settle_its_own_job(app):
    @app.task
    def task(job: Reservation) -> str:
        job.commit("mine")
        return "ignored"

    with working(app):
        assert task.enqueue().result(timeout=60) == "mine"


def test_the_job_is_passed_wherever_a_task_wants_it(app):
    @app.task
    def first(job: Job, a: int, b: int = 0) -> list[object]:
        return [job.id, a, b]

    @app.task
    def middle(a: int, job: Job, b: int = 0) -> list[object]:
        return [a, job.id, b]

    @app.task
    def named(*values: int, job: Job) -> list[object]:
        return [*values, job.id]

    with working(app):
        for task, shape in ((first, "jab"), (middle, "ajb")):
            for args, kwargs in (((1, 2), {}), ((1,), {"b": 2}), ((), {"a": 1, "b": 2})):
                handle = task.enqueue(*args, **kwargs)
                values = {"j": handle.id, "a": 1, "b": 2}
                assert handle.result(timeout=60) == [values[letter] for letter in shape]
        handle = named.enqueue(1, 2)
        assert handle.result(timeout=60) == [1, 2, handle.id]


def test_events(app):
    heard = []
    for event in ("started", "done", "failed", "retrying", "dead"):
        app.on(event)(lambda job, *_error, event=event: heard.append((job.task, event)))

    @app.on("done")
    def faulty(_job: Job) -> None:
        raise RuntimeError("a listener's own fault")

    @app.task(name="good")
    def good() -> None: ...

    @app.task(name="bad")
    def bad() -> None:
        raise ValueError

    @app.task(name="last", max_attempts=1)
    def last() -> None:
        raise ValueError

    @app.task(name="misfit")
    def misfit() -> None: ...

    @app.task(name="letter", queue="strict", max_attempts=1)
    def letter() -> None:
        raise ValueError

    app.queue("strict", dead_letter="morgue")
    with working(app):
        for task in (good, bad, last, letter):
            task.enqueue()
        Stanchion(store=app.store).enqueue("misfit", "an argument too much")
        until(lambda: len(heard) >= 13)
    by_task: dict[str, list[str]] = {}
    for name, event in heard:
        by_task.setdefault(name, []).append(event)
    assert by_task == {
        "good": ["started", "done"],
        "bad": ["started", "failed", "retrying"],
        "last": ["started", "failed", "dead"],
        "letter": ["started", "failed", "dead"],
        "misfit": ["started", "failed", "dead"],
    }


def test_a_worker_needs_tasks_and_sound_settings():
    app = Stanchion("memory://")
    with pytest.raises(InvalidInput, match="no tasks"):
        Worker(app).start()

    for wrong in ({"threads": 0}, {"heartbeat": 0}, {"grace": -1}, {"poll": 0}, {"queues": "mail"}, {"queues": [""]}):
        with pytest.raises(InvalidInput):
            Worker(app, **wrong)


def test_without_names_it_takes_the_queues_of_its_tasks():
    app = Stanchion("memory://")

    @app.task(queue="b")
    def one() -> None: ...

    @app.task(queue="a")
    def two() -> None: ...

    app.queue("c").push(1)
    with working(app) as worker:
        assert worker.queues == ["a", "b"]
        assert [row.id for row in until(app.workers)] == [worker.id]
    assert app.workers() == []
