"""Rules about jobs, from samples."""

from __future__ import annotations

from typing import Any

from stanchion.alerts.figures import monitor_of
from stanchion.alerts.reading.errors import failing
from stanchion.alerts.snapshot import DeadJob, ErrorSample, LiveJob, PutOff, RunningJob, Window
from stanchion.alerts.thresholds import Thresholds
from stanchion.stores.records.queues import Counts
from tests.alerts.samples import ago, alerts, queue, seen, told


def running(priority: int = 0, seconds: float = 0, attempts: int = 1, name: str = "a") -> RunningJob:
    return RunningJob(name, "mail", "greet", priority, attempts, ago(seconds), "w1")


def live(priority: int, attempts: int, state: str = "scheduled") -> LiveJob:
    return LiveJob("b", "mail", state, priority, ago(-10), attempts, attempts)


def dead(priority: int = 0, seconds: float = 5, name: str = "d") -> DeadJob:
    return DeadJob(name, "mail", priority, ago(seconds))


def test_run_time_by_band() -> None:
    for priority, limit in ((80, 30), (40, 90), (0, 5400), (-60, 14_400)):
        assert told(seen(running=(running(priority, limit),))) == [("soon", "run-time", "mail")]
        assert told(seen(running=(running(priority, limit - 0.1),))) == []


def test_a_job_may_run_as_long_as_its_time_out() -> None:
    def at(seconds: float, timeout: float | None = 3600, of_queue: float | None = None, **limits: float) -> Any:
        job = running(0, seconds)._replace(timeout=timeout)
        snapshot = seen(queue("mail", timeout=of_queue), running=(job,))
        percents = [one.alert_percent for one in monitor_of(snapshot, Thresholds().changed(limits)).queues]
        return told(snapshot, **limits), percents

    alert = [("soon", "run-time", "mail")]
    assert at(300) == ([], [12.5])  # one attempt of eight
    assert at(3600) == (alert, [100.0])
    assert at(300, None) == ([], [12.5]), "nothing says how long it takes"
    assert at(5400, None) == (alert, [100.0])
    assert at(60, None, **{"eventual.max_run": 60}) == (alert, [100.0])
    assert at(60, None, **{"queue.mail.max_run": 60}) == (alert, [100.0])
    assert at(300, 60) == (alert, [100.0])
    assert at(300, None, 600) == ([], [50.0])
    assert at(300, **{"queue.mail.max_run": 300}) == (alert, [100.0])


def test_bands_count_live_jobs_and_those_that_died() -> None:
    snapshot = seen(queue("mail"), dead=(dead(0, 10, "a"), dead(80, 20, "b")))
    (figures,) = monitor_of(snapshot, Thresholds()).queues
    assert [(one.band, one.dead, one.count) for one in figures.bands] == [("interactive", 1, 0), ("eventual", 1, 0)]
    assert figures.bands[0].as_json().items() >= {"dead": 1, "count": 0}.items()
    total = {one.band: one.dead for one in monitor_of(snapshot, Thresholds()).bands}
    assert total == {"interactive": 1, "user_visible": 0, "eventual": 1, "reporting": 0}


def test_the_worst_of_the_slow_jobs_is_named() -> None:
    jobs = running(0, 5410, name="x"), running(80, 90, name="y"), running(0, 1, name="z")
    (alert,) = alerts(seen(running=jobs))
    assert alert.summary == "2 jobs of mail run for too long: greet for 1 min 30 s, the limit is 30 s."
    assert alert.actions[0].command == "stanchion show y"


def test_attempts_by_band() -> None:
    for priority, limit in ((80, 3), (40, 5), (0, 8), (-60, 8)):
        assert told(seen(live=(live(priority, limit),))) == [("soon", "attempts", "mail")]
        assert told(seen(live=(live(priority, limit - 1),))) == []
        assert told(seen(running=(running(priority, 0, limit),))) == [("soon", "attempts", "mail")]


def test_a_job_that_runs_is_counted_once() -> None:
    job = running(80, 0, 3, name="b")
    (alert,) = alerts(seen(live=(live(80, 3, "running"),), running=(job,)))
    assert alert.summary.startswith("1 job of mail needs")


def test_dead_letters() -> None:
    here = queue("mail")
    assert told(seen(here)) == []
    assert told(seen(here, dead=(dead(),))) == [("soon", "dead-letters", "mail")]
    assert told(seen(here, dead=(dead(80),))) == [("now", "dead-letters", "mail")]
    assert told(seen(here, dead=(dead(40),) * 9)) == [("soon", "dead-letters", "mail")]
    assert told(seen(here, dead=(dead(40),) * 10)) == [("now", "dead-letters", "mail")]


def test_dead_letters_beyond_those_looked_at_are_counted_by_the_totals() -> None:
    then = Window(ago(3000), {"mail": Counts(buried=100, committed=5000)})
    (alert,) = alerts(seen(queue("mail", totals=Counts(buried=104, committed=9000)), dead=(dead(),), hour=then))
    assert (alert.level, alert.value) == ("soon", 4)
    (alert,) = alerts(seen(queue("mail", totals=Counts(buried=104, committed=5300)), hour=then))
    assert (alert.level, alert.value) == ("now", 4)  # more than 1 % of those finished
    assert told(seen(queue("mail", totals=Counts(buried=100, committed=9000)), hour=then)) == []


def test_dead_letters_are_retried_by_the_queue_where_they_died() -> None:
    for letters in (None, "mail dead"):
        (alert,) = alerts(seen(queue("mail", dead_letter=letters), dead=(dead(),)))
        assert [one.command for one in alert.actions] == [
            "stanchion jobs --state dead --queue mail",
            "stanchion retry --queue mail",
        ]


def test_an_unknown_task() -> None:
    jobs = PutOff("p", "mail", "greet", 3, ago(120)), PutOff("q", "mail", "greet", 1, ago(20))
    (alert,) = alerts(seen(put_off=jobs))
    assert (alert.level, alert.rule, alert.kind, alert.subject) == ("soon", "unknown-task", "task", "greet")
    assert alert.summary == "No worker knows greet: 2 jobs of mail are put off, the first for 2 min."


SLOW = ErrorSample("9f2c41d0", "TimeoutError", "greet", 30, 0)
BROKEN = ErrorSample("0badcafe", "", "", 7, 5)


def test_alerts_about_failures_name_the_heaviest_error() -> None:
    errors = {"mail": (SLOW, BROKEN)}
    (alert,) = alerts(seen(queue("mail"), live=(live(0, 8),), errors=errors))
    assert (alert.rule, alert.error) == ("attempts", "9f2c41d0")
    assert alert.evidence == ("greet fails most, with TimeoutError: 30 attempts within the last hour, error 9f2c41d0.",)
    assert [action.command for action in alert.actions] == ["stanchion show b", "stanchion errors --queue mail"]
    then = Window(ago(300), {"mail": Counts()})
    (alert,) = alerts(seen(queue("mail", totals=Counts(rolled_back=60)), recent=then, errors=errors))
    assert (alert.rule, alert.error) == ("failed-attempts", "9f2c41d0")
    assert alert.actions[0].command == "stanchion errors --queue mail"
    (alert,) = alerts(seen(queue("mail"), live=(live(0, 8),), errors={"other": (SLOW,)}))
    assert (alert.error, alert.evidence) == (None, ())


def test_an_alert_about_dead_jobs_names_the_error_that_killed_most() -> None:
    for letters in (None, "mail dead"):
        here = queue("mail", dead_letter=letters)
        (alert,) = alerts(seen(here, dead=(dead(),), errors={"mail": (SLOW, BROKEN)}))
        assert alert.error == "0badcafe"
        assert alert.evidence[0].startswith("A job without a task fails most, with one error: 7 attempts")
        assert alert.actions[1].command == "stanchion retry --error 0badcafe --queue mail"
    (alert,) = alerts(seen(queue("mail"), dead=(dead(),), errors={"mail": (SLOW,)}))
    assert alert.error is None


def test_a_merged_alert_keeps_the_error_of_another_rule() -> None:
    jobs = {"running": (running(0, 6000),), "live": (live(0, 8),)}
    (alert,) = alerts(seen(queue("mail"), errors={"mail": (SLOW,)}, **jobs))
    assert (alert.rule, alert.merged, alert.error) == ("run-time", ("attempts",), "9f2c41d0")


def test_tallies_are_read_of_the_queues_that_fail_most() -> None:
    queues = [queue(f"q{number}", totals=Counts(buried=number)) for number in range(4)]
    hour = Window(ago(3000), {"q3": Counts(buried=3), "q2": Counts(buried=1)})
    assert failing(queues, [dead()], [live(0, 1), live(0, 1)], (None, hour)) == ["mail", "q1", "q2"]
    assert failing(queues, [], [], (None, None)) == []


def test_one_dead_job_of_a_quiet_queue_pages_nobody() -> None:
    window = Window(ago(3000), {"mail": Counts()})
    for count, level in ((1, "soon"), (2, "soon"), (3, "now")):
        here = queue("mail", totals=Counts(buried=count, committed=5))
        (alert,) = alerts(seen(here, hour=window, dead=tuple(dead() for _ in range(count))))
        assert (alert.level, alert.rule) == (level, "dead-letters")
    here = queue("mail", totals=Counts(buried=1, committed=5))
    assert alerts(seen(here, hour=window, dead=(dead(),)), dead_least=1)[0].level == "now"
