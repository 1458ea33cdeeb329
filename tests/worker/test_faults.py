"""A store that does not answer, or refuses."""

import time
from typing import Any

import pytest

from stanchion import JobState, Stanchion, Worker
from stanchion.context import context_of
from stanchion.context.context import Context
from stanchion.errors import InvalidInput, NotPermitted, SchemaMismatch, StanchionError, StoreUnavailable
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Bury, Commit, Rollback
from stanchion.worker.claiming.served_queues import served_by
from tests.worker.conftest import Faulty, ended, health, until, working


@pytest.fixture
def store() -> Faulty:
    return Faulty(Stanchion("memory://").store)


@pytest.fixture
def app(store) -> Stanchion:
    return Stanchion(store=store)


@pytest.mark.slow
def test_a_worker_lives_through_an_outage(app, store, tmp_path, caplog):
    @app.task
    def task() -> int:
        return 1

    file = tmp_path / "health"
    with working(app, heartbeat=0.2, health_file=file, health_port=0) as worker:
        assert task.enqueue().result(timeout=60) == 1
        until(lambda: file.exists() and file.read_text().startswith(f"ok {worker.id}"))
        until(lambda: health(worker)[0] == 200)
        handle = task.using(delay=0.3).enqueue()
        store.broken = True
        until(lambda: not worker.healthy)
        until(lambda: file.read_text().startswith("red"))
        code, status = health(worker)
        assert (code, status["status"]) == (503, "red")
        assert "no route to the store" in str(status["reason"])
        time.sleep(0.5)
        store.broken = False
        assert handle.result(timeout=60) == 1
        until(lambda: worker.healthy)
        until(lambda: file.read_text().startswith("ok"))
    assert file.read_text().startswith("red")
    assert "no route to the store" in caplog.text


def test_a_worker_starts_without_a_store():
    class Late(Context):
        up = False

        @property
        def store(self):
            if not self.up:
                raise StoreUnavailable("not up yet")
            return super().store

    app = Stanchion("memory://")
    context_of(app).__class__ = Late

    @app.task
    def task() -> int:
        return 1

    with working(app) as worker:
        until(lambda: not worker.healthy)
        Late.up = True
        assert task.enqueue().result(timeout=60) == 1


def test_a_queue_whose_claims_fail_holds_up_no_other(app, store, caplog, monkeypatch):
    """Neither does the repeat of its failed claim, which may have reserved jobs."""

    @app.task
    def task(n: int) -> int:
        return n

    faulty, claims = True, store.claim

    def claim(wish):
        if faulty and wish.queue == "bad":
            raise TypeError("not iterable")
        return claims(wish)

    monkeypatch.setattr(store, "claim", claim, raising=False)
    monkeypatch.setattr("stanchion.stores.rules.leases.lost_replies.REPEAT_SECONDS_MIN", 0.0)
    for order in ("fair", "priority", "strict"):
        held = task.using(queue="bad", priority=50).enqueue(0)
        with working(app, ["bad", "good"], order=order, poll=0.05) as worker:
            until(lambda: not worker.healthy)
            for n in range(20):
                assert task.using(queue="good").enqueue(n).result(timeout=60) == n
            assert not held.state.final
            assert not worker.healthy
            faulty = False
            assert held.result(timeout=120) == 0
            until(lambda: worker.healthy)
        faulty = True
    assert "claiming from queue 'bad' failed" in caplog.text


@pytest.mark.parametrize("error", [TypeError, StoreUnavailable])
def test_a_drain_runs_the_jobs_of_other_queues_than_one_whose_claims_fail(app, store, monkeypatch, error):
    @app.task
    def task(n: int) -> int:
        return n

    good = [task.using(queue=queue).enqueue(n) for n, queue in enumerate(["a", "z", "a", "z"])]
    bad, claims = task.using(queue="bad").enqueue(4), store.claim

    def claim(wish):
        if wish.queue == "bad":
            raise error("not now")
        return claims(wish)

    monkeypatch.setattr(store, "claim", claim, raising=False)
    with pytest.raises(error, match="not now"):
        app.drain(["a", "bad", "z"])
    assert [handle.state for handle in good] == [JobState.DONE] * 4
    monkeypatch.undo()
    assert app.drain(["a", "bad", "z"]) == 1
    assert bad.state is JobState.DONE


def test_a_drain_asks_a_store_that_is_away_for_no_further_queue(app, store):
    @app.task
    def task() -> None: ...

    store._verbs, store.broken, store.error = ("claim", "now"), True, StoreUnavailable("away")
    with pytest.raises(StoreUnavailable, match="away"):
        app.drain([f"q{n}" for n in range(50)])
    assert store.calls["claim"] == 1


def test_outcomes_wait_for_the_store(app, store):
    store._verbs = ("settle",)
    ran = []

    @app.task
    def task(n: int) -> int:
        ran.append(n)
        return n

    with working(app):
        store.broken, store.error = True, StoreUnavailable("gone")
        handles = task.enqueue_many([(n,) for n in range(10)])
        until(lambda: len(ran) == 10)
        time.sleep(0.3)
        store.broken = False
        assert [handle.result(timeout=60) for handle in handles] == list(range(10))
    assert sorted(ran) == list(range(10))


@pytest.mark.slow
def test_claims_stop_while_outcomes_pile_up(app, store, monkeypatch):
    monkeypatch.setattr("stanchion.worker.claiming.claimer.MOST_UNSTORED", 50)
    store._verbs = ("settle",)

    @app.task
    def task() -> None: ...

    task.enqueue_many([()] * 5000)
    store.broken = True
    with working(app, grace=0.1) as worker:
        time.sleep(1)
        assert app.queue("default").counts().reserved < 2500
        store.broken = False
        until(lambda: app.queue("default").counts().committed == 5000)
        assert worker.healthy


@pytest.mark.parametrize("error", [RuntimeError, StoreUnavailable, SchemaMismatch, StanchionError])
def test_one_outcome_that_fails_by_no_fault_of_its_data_is_kept_and_stops_nobody(app, store, caplog, error):
    settle = store._store.settle
    faulty = True

    def picky(outcomes, tx=None, *, repeat=False):
        if faulty and any(isinstance(outcome, Commit) and outcome.result == '"poison"' for outcome in outcomes):
            raise error("a driver's own")
        return settle(outcomes, tx, repeat=repeat)

    store._store.settle = picky

    @app.task
    def task(result: str) -> str:
        return result

    with working(app, heartbeat=0.3) as worker:
        poison = task.enqueue("poison")
        until(lambda: "a driver's own" in (worker._trouble() or ""))
        until(lambda: "a driver's own" in caplog.text)
        good = task.enqueue_many([("good",)] * 5)
        assert [handle.result(timeout=60) for handle in good] == ["good"] * 5
        until(lambda: not worker.healthy and "took others" in (worker._finisher.trouble(0.6) or ""))
        assert (poison.state, poison.job().attempts, poison.job().errors) == (JobState.RUNNING, 1, [])
        faulty = False
        assert poison.result(timeout=60) == "poison"
        until(lambda: worker.healthy)
    assert (poison.job().attempts, poison.job().errors) == (1, [])


REASONS = {"limit": "the limit is 16 bytes", "encoding": "latin-1", "token": "the token may not move jobs there"}


@pytest.mark.parametrize("kind", ["limit", "encoding", "token"])
def test_an_outcome_that_the_store_cannot_hold_ends_its_job_at_once(app, store, caplog, kind):
    settle = store._store.settle
    refused = []

    def limited(outcomes, tx=None, *, repeat=False):
        if any(isinstance(outcome, Commit) and outcome.result == '"large"' for outcome in outcomes):
            refused.append(len(outcomes))
            if kind == "encoding":
                "\u20ac".encode("latin1")
            raise (NotPermitted if kind == "token" else InvalidInput)(REASONS[kind])
        return settle(outcomes, tx, repeat=repeat)

    store._store.settle = limited

    @app.task
    def task(result: str) -> str:
        return result

    with working(app):
        large, *small = task.enqueue_many([("large",), *[("small",)] * 20])
        assert [handle.result(timeout=60) for handle in small] == ["small"] * 20
        until(lambda: large.state is JobState.DEAD)
    job = large.job()
    assert job.attempts == 1
    assert REASONS[kind] in job.errors[-1]["error"]
    assert len(refused) <= 6, "with the others, and with ever fewer of them"
    assert "Traceback" not in caplog.text


def test_outcomes_wait_while_the_token_has_no_right_at_all(app, store):
    """Such as after a change of the file of tokens: the jobs are done, so none of them may run again, or be dead."""
    settle = store._store.settle
    forbidden = True

    def limited(outcomes, tx=None, *, repeat=False):
        if forbidden and any(not isinstance(outcome, Bury) for outcome in outcomes):
            raise NotPermitted("the token takes no role")
        return settle(outcomes, tx, repeat=repeat)

    store._store.settle = limited

    @app.task
    def task() -> None: ...

    with working(app) as worker:
        handles = task.enqueue_many([()] * 5)
        until(lambda: "takes no role" in (worker._finisher._last_error or ""))
        until(lambda: worker._finisher.backlog == 5)
        assert {handle.state for handle in handles} == {JobState.RUNNING}
        forbidden = False
        assert [handle.result(timeout=60) for handle in handles] == [None] * 5


class Refusing:
    """Makes a store refuse the outcomes of some results, and each call that has one of them."""

    def __init__(self, store: Faulty, error: Exception) -> None:
        self._settle, self.error = store._store.settle, error
        self.results: set[str] = set()
        self.all, self.refused = False, 0
        store._store.settle = self

    def __call__(self, outcomes, tx=None, *, repeat=False):
        if self.all or any(isinstance(one, Commit) and one.result in self.results for one in outcomes):
            self.refused += 1
            raise self.error
        return self._settle(outcomes, tx, repeat=repeat)


LASTING, PASSING = StoreUnavailable("never", lasting=True), StoreUnavailable("not now")


@pytest.mark.parametrize("error", [LASTING, PASSING], ids=["lasting", "passing"])
def test_outcomes_for_which_the_store_is_unavailable_hold_up_no_other(app, store, error):
    refusing = Refusing(store, error)
    refusing.results = {str(n) for n in range(6)}

    @app.task
    def task(n: int) -> int:
        return n

    with working(app) as worker:
        handles = task.enqueue_many([(n,) for n in range(20)])
        bad, good = handles[:6], handles[6:]
        assert [handle.result(timeout=60) for handle in good] == list(range(6, 20))
        assert task.enqueue(20).result(timeout=60) == 20, "nor one that comes later"
        refused = refusing.refused
        until(lambda: refusing.refused > refused + 20)
        assert {handle.state for handle in bad} == {JobState.RUNNING}, "their work is done, and not done again"
        refusing.results = set()
        assert [handle.result(timeout=60) for handle in bad] == list(range(6))
        until(lambda: worker.healthy)
    assert {(handle.job().attempts, len(handle.job().errors)) for handle in handles} == {(1, 0)}


def test_an_outcome_of_a_job_that_is_locked_for_a_while_is_stored_afterwards(app, store):
    refusing = Refusing(store, PASSING)
    refusing.results = {"1"}
    tried: list[Any] = []

    def locked(outcomes, tx=None, *, repeat=False):
        if "1" in refusing.results and any(one.lease.id == handle.id for one in outcomes):
            tried.extend(outcomes)
            raise PASSING
        return refusing(outcomes, tx, repeat=repeat)

    store._store.settle = locked

    @app.task
    def task(n: int) -> int:
        return n

    handle = task.enqueue(1)
    with working(app):
        until(lambda: len(tried) >= 8)
        assert task.enqueue(2).result(timeout=60) == 2
        refusing.results = set()
        assert handle.result(timeout=60) == 1
    assert (handle.job().attempts, handle.job().errors) == (1, [])
    assert {type(one) for one in tried} == {Commit}


def test_an_outcome_that_fails_alone_for_a_moment_is_stored_as_it_is(app, store):
    refusing = Refusing(store, PASSING)
    refusing.results = {"1"}

    def twice(outcomes, tx=None, *, repeat=False):
        if refusing.refused == 2:  # with others, and alone
            refusing.results = set()
        return refusing(outcomes, tx, repeat=repeat)

    store._store.settle = twice

    @app.task
    def task(n: int) -> int:
        return n

    handle = task.enqueue(1)
    with working(app):
        until(lambda: handle.state is JobState.DONE)
    assert handle.job().errors == []


@pytest.mark.parametrize("error", [LASTING, PASSING], ids=["lasting", "passing"])
def test_no_outcome_is_to_blame_while_the_store_takes_none(app, store, error):
    refusing = Refusing(store, error)
    refusing.all = True
    ids: list[str] = []

    def comes_back(outcomes, tx=None, *, repeat=False):
        # Whatever would be stored in place of an outcome is taken, as if the store was back just then.
        if refusing.all and any(isinstance(one, Rollback) and one.lease.id in ids for one in outcomes):
            return refusing._settle(outcomes, tx, repeat=repeat)
        return refusing(outcomes, tx, repeat=repeat)

    store._store.settle = comes_back

    @app.task
    def task(n: int) -> int:
        return n

    with working(app) as worker:
        handles = task.enqueue_many([(n,) for n in range(20)])
        ids += [handle.id for handle in handles]
        until(lambda: refusing.refused > 20)
        assert not worker.healthy
        refusing.all = False
        assert [handle.result(timeout=60) for handle in handles] == list(range(20))
        until(lambda: worker.healthy)
    assert {(handle.job().attempts, len(handle.job().errors)) for handle in handles} == {(1, 0)}


def test_a_late_outcome_changes_nothing(app, store, caplog):
    @app.task
    def task() -> None:
        store.clock_offset += 1000
        other = store.recover()
        assert len(other) == 1
        store.claim(Claim("default", 1, "other"))

    # Its own heartbeat is old by the store's clock: as after a process was stopped and resumed.
    with working(app, heartbeat=100):
        handle = task.enqueue()
        until(lambda: "too late" in caplog.text)
        assert handle.state is JobState.RUNNING


def test_jobs_of_a_dead_worker_come_back_and_end_dead(app, store, monkeypatch):
    monkeypatch.setattr("stanchion.context.steadiness.RETURN", 0.5)
    dead = []
    app.on("dead")(lambda job, _error: dead.append(job.id))

    @app.task
    def task() -> int:
        return 1

    row = Worker(app)
    row._served = served_by(context_of(row), row._named, row._lanes)
    store.beat([row._row()])
    again, last = task.enqueue(), task.using(max_attempts=1).enqueue()
    assert len(store.claim(Claim("default", 2, "lost", worker=row.id)).rows) == 2
    store.clock_offset += 31
    with working(app, heartbeat=0.2):
        assert again.result(timeout=60) == 1
        assert ended(app, last.id).state is JobState.DEAD
        until(lambda: dead == [last.id])


@pytest.mark.slow
def test_a_newcomer_takes_no_job_back_before_the_others_had_time_to_return(app, store, monkeypatch):
    monkeypatch.setattr("stanchion.context.steadiness.RETURN", 1.5)

    @app.task
    def task() -> int:
        return 1

    row = Worker(app, heartbeat=100)
    row._served = served_by(context_of(row), row._named, row._lanes)
    store.beat([row._row()])
    handle = task.enqueue()
    (job,) = store.claim(Claim("default", 1, "held", worker=row.id)).rows
    store.clock_offset += 1000  # the store was away
    with working(app, heartbeat=0.05):
        time.sleep(0.7)
        store.beat([row._row()])
        time.sleep(1.5)
        assert handle.state is JobState.RUNNING
        assert store.settle([Commit(job.lease, "1")]) == [JobState.DONE]
