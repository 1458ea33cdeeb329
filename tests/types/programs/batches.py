"""Batch tasks: a call takes one item, the function their list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_type

from stanchion import Job, JobHandle, Reservation, Retry, Snooze, Stanchion, Task

app = Stanchion("memory://")


@dataclass
class Doc:
    title: str


@app.task(batch=500, wait=0.2, queue="index", retry=Retry.exponential(base=2), max_attempts=3)
def index(docs: list[Doc]) -> list[int]:
    return [len(doc.title) for doc in docs]


@app.task(batch=500)
def quiet(docs: Sequence[Doc]) -> None:
    print(docs)


@app.task(batch=500)
def embed(jobs: list[Reservation], texts: list[str]) -> list[list[float]]:
    return [[float(job.attempt), len(text)] for job, text in zip(jobs, texts, strict=True)]


@app.task(batch=10)
def watched(jobs: list[Job], texts: list[str]) -> None:
    for job, text in zip(jobs, texts, strict=True):
        job.progress(float(text))


@app.task(batch=10)
def guarded(docs: list[Doc]) -> list[int | Exception]:
    return [len(doc.title) if doc.title else ValueError("no title") for doc in docs]


@app.task(batch=10)
def gathered(docs: list[Doc]) -> list[str | BaseException]:
    return [doc.title for doc in docs]


@app.task(batch=10)
def put_off(docs: list[Doc]) -> list[int | Snooze]:
    return [Snooze(60) for _ in docs]


@app.task(batch=10)
async def fetch(urls: list[str]) -> list[bytes]:
    return [url.encode() for url in urls]


@app.task(batch=10)
async def touch(jobs: list[Reservation], urls: list[str]) -> None:
    print(jobs, urls)


@app.task(batch=10)
def raw(payloads: list[dict[str, Any]]) -> None:
    print(payloads)


def enqueued() -> None:
    assert_type(index.enqueue(Doc("a")), JobHandle[int])
    assert_type(index.using(delay=5).enqueue(Doc("a")).result(), int)
    assert_type(quiet.enqueue(Doc("a")).result(), None)
    assert_type(embed.enqueue("a").result(), list[float])
    assert_type(watched.enqueue("a").result(), None)
    assert_type(guarded.enqueue(Doc("a")).result(), int)
    assert_type(gathered.enqueue(Doc("a")).result(), str)
    assert_type(put_off.enqueue(Doc("a")).result(), int)
    assert_type(fetch.enqueue("a").result(), bytes)
    assert_type(touch.enqueue("a").result(), None)
    raw.enqueue({"x": 1})
    assert_type(index.enqueue_many([(Doc("a"),)]), list[JobHandle[int]])
    assert_type(index.enqueue_many(index.s(Doc(t)) for t in "abc"), list[JobHandle[int]])

    index.enqueue("a")  # error: mypy arg-type / pyright reportArgumentType
    index.enqueue([Doc("a")])  # error: mypy arg-type / pyright reportArgumentType
    index.enqueue(Doc("a"), Doc("b"))  # error: mypy call-arg / pyright reportCallIssue
    index.enqueue()  # error: mypy call-arg / pyright reportCallIssue
    embed.enqueue("a", [])  # error: mypy call-arg / pyright reportCallIssue


async def called_directly(jobs: list[Reservation]) -> None:
    index([Doc("a")])
    embed(jobs, ["a"])
    await fetch(["a"])
    index(Doc("a"))  # error: mypy arg-type / pyright reportArgumentType


def handed(task: Task[[Doc], int]) -> None:
    assert_type(task.enqueue(Doc("a")).result(), int)


handed(index)


@app.task(batch=10)  # error: mypy arg-type / pyright reportCallIssue,reportArgumentType,reportUntypedFunctionDecorator
def single(doc: Doc) -> None:
    print(doc)


app.task(wait=1)  # error: mypy call-overload / pyright reportCallIssue
