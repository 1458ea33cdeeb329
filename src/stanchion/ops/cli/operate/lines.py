"""Pushing a file line by line, in bounded memory, with progress and the line to resume from after an error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import IO

from stanchion.context import context_of
from stanchion.core.values.codec import Codec
from stanchion.errors import InvalidInput
from stanchion.jobs.insert import BATCH
from stanchion.ops.cli.console.given import json_value
from stanchion.ops.cli.console.human import duration, per_second, rate
from stanchion.ops.cli.console.session import Exit, Session
from stanchion.ops.cli.operate.target import Target

_BATCH_BYTES = 8 * 1024 * 1024


def push_lines(session: Session, target: Target, file: str) -> Exit:
    """Push a job for each line and report; blank lines are skipped."""
    out, began = session.out, monotonic()
    stored = duplicates = last = 0
    codec = context_of(session.app).codec
    note = f"{target.task} " * bool(target.task) + f"from {file}"
    with opened(file) as (stream, size), out.progress(of_bytes=True) as progress:
        bar = progress.add_task("pushing", total=size, note="")
        try:
            for items, end, taken in _batches(stream, target, codec):
                if not last:
                    session.audit("push", target.place, note=note)
                made = target.push(items)
                stored, last = stored + len(made), end
                duplicates += sum(job.duplicate for job in made)
                progress.update(bar, advance=taken, note=f"{rate(per_second(stored, monotonic() - began))} jobs/s")
        except BaseException:
            if last:
                out.say(f"lines 1 to {last:,} are stored; continue with `tail -n +{last + 1}`")
            raise
    seconds = monotonic() - began
    new = stored - duplicates
    if stored:
        session.audit("push: finished", target.place, new, note)
    also = f", {duplicates:,} duplicates" if duplicates else ""
    out.done(
        f"pushed {new:,} {'job' if new == 1 else 'jobs'}{also} in {duration(seconds)} "
        f"({rate(per_second(stored, seconds))} jobs/s)",
        {"pushed": new, "duplicates": duplicates, "seconds": round(seconds, 3)},
    )
    return Exit.OK if stored else Exit.FAILED


@contextmanager
def opened(file: str) -> Iterator[tuple[IO[bytes], int | None]]:
    """Open a file, or stdin for `-`; yield it and its size in bytes, if known."""
    if file == "-":
        yield sys.stdin.buffer, None
        return
    try:
        path = Path(file)
        with path.open("rb") as stream:
            yield stream, path.stat().st_size if path.is_file() else None
    except OSError as error:
        raise InvalidInput(f"can't read {file}: {error.strerror}") from error


def _batches(stream: IO[bytes], target: Target, codec: Codec) -> Iterator[tuple[list[object], int, int]]:
    """Yield batches of items with the number of their last line and their size in bytes."""
    items: list[object] = []
    number = taken = 0
    longest = 6 * codec.max_payload  # a character escaped as \uXXXX takes six bytes
    while line := stream.readline(longest + 1):
        number += 1
        taken += len(line)
        if len(line) > longest:
            raise InvalidInput(f"line {number:,} is longer than the largest payload; is this a file of JSON lines?")
        if line.strip():
            items.append(_item(line, number, target, codec))
        if len(items) >= BATCH or taken >= _BATCH_BYTES:
            yield items, number, taken
            items, taken = [], 0
    if items:
        yield items, number, taken


def _item(line: bytes, number: int, target: Target, codec: Codec) -> object:
    try:
        value = json_value(line.decode(), "the line")
        if len(line) > codec.max_payload:
            codec.plain(value, "payload")
        return target.item(value)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"line {number:,}: it is not UTF-8 ({error})") from None
    except InvalidInput as error:
        raise InvalidInput(f"line {number:,}: {error}") from None
