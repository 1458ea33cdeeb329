"""What other packages of Stanchion need of an object is no part of its API, and an error to type checkers."""

from stanchion import Job, Retry, Stanchion, Worker

app = Stanchion("sqlite:///shop.db")


@app.task
def charge(order: int) -> str:
    return f"charged {order}"


def internal(job: Job, worker: Worker, policy: Retry) -> None:
    del app.context  # error: mypy attr-defined / pyright reportAttributeAccessIssue
    del charge.attempts_max  # error: mypy attr-defined / pyright reportAttributeAccessIssue
    del charge.s(1).failure_call  # error: mypy attr-defined / pyright reportAttributeAccessIssue
    del app.pipeline("etl").entries  # error: mypy attr-defined / pyright reportAttributeAccessIssue
    del job.is_deferred  # error: mypy attr-defined / pyright reportAttributeAccessIssue
    del worker.stop_requested  # error: mypy attr-defined / pyright reportAttributeAccessIssue
    del policy.curve  # error: mypy attr-defined / pyright reportAttributeAccessIssue


def public(job: Job, worker: Worker) -> None:
    print(charge.name, charge.queue, charge.retry.max_attempts, charge.s(1).task, job.past_waits, worker.healthy)
