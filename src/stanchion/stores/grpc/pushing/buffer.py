"""What waits to be pushed, of all threads: in bounds, and in messages of many pushes.

add ──► waiting ──► sent, one message, or up to UNDER_WAY full ones ──► answered
           ▲──────────┘ returned, marked: the reply is lost, or one of the message's pushes failed
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from stanchion.errors import StanchionError, StoreUnavailable
from stanchion.stores.records.jobs import SECOND, NewJob, Pushed
from stanchion.stores.wire.calls import CALLS
from stanchion.stores.wire.jobs import PUSHED
from stanchion.stores.wire.messages import pb, written
from stanchion.stores.wire.statuses import error_in
from stanchion.stores.wire.transport import REQUEST_BYTES

MOST_JOBS: Final = 10_000
MOST_BYTES: Final = REQUEST_BYTES
"""What waits or is unanswered, at most."""

MESSAGE_JOBS: Final = 500
MESSAGE_BYTES: Final = 1024 * 1024
"""Maximum size of one message."""

UNDER_WAY: Final = 2
"""Messages without an answer. While one is stored, the next one is on its way if it is full; else more join it."""


class Push:
    """The jobs that one caller pushes, as they are sent, and the answer."""

    def __init__(self, jobs: Sequence[NewJob], seconds: float) -> None:
        self.jobs = len(jobs)
        self.data = written(CALLS["push"].request({"jobs": jobs}))
        self.deadline = time.monotonic() + seconds
        self.again = False
        """An earlier try may have stored the jobs."""
        self.alone = False
        """It is sent in a separate message, because a push of its message has failed."""
        self.over = False
        """True once it is answered, or withdrawn."""
        self._pushed: list[Pushed] = []
        self._error: StanchionError | None = None
        self._ended = threading.Lock()  # one caller waits, once: an Event costs as much as the rest of a push
        self._ended.acquire()

    def answer(self, pushed: list[Pushed]) -> None:
        """The jobs are stored. Once, and not after `fail`."""
        self._pushed = pushed
        self._end()

    def fail(self, error: StanchionError) -> None:
        """The jobs are not stored. Once, and not after `answer`."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self.over = True
        self._ended.release()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds`; return True if it is over. Its only caller asks no more then."""
        return self._ended.acquire(timeout=seconds)

    def result(self) -> list[Pushed]:
        """Return the answer, or raise the error."""
        if self._error is not None:
            raise self._error
        return self._pushed


class _Message(NamedTuple):
    pushes: list[Push]
    sent_at: float


class Buffer:
    """Pushes that are not answered."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._waiting: deque[Push] = deque()
        self._sent: dict[int, _Message] = {}
        self._jobs = self._bytes = self._seq = 0

    def add(self, push: Push) -> bool:
        """Let a push wait to be sent; False if there is no room."""
        with self.changed:
            if self._jobs + push.jobs > MOST_JOBS or self._bytes + len(push.data) > MOST_BYTES:
                return False
            self._jobs += push.jobs
            self._bytes += len(push.data)
            self._waiting.append(push)
            if self._may_send():  # else a reply wakes the sender: a wake-up costs as much as a push
                self.changed.notify_all()
            return True

    def _may_send(self) -> bool:
        """Return whether nothing is under way, or a full message waits and there is room for it."""
        if not self._sent:
            return True
        if len(self._sent) >= UNDER_WAY or (self._jobs < MESSAGE_JOBS and self._bytes < MESSAGE_BYTES):
            return False
        jobs, size = sum(one.jobs for one in self._waiting), sum(len(one.data) for one in self._waiting)
        return jobs >= MESSAGE_JOBS or size >= MESSAGE_BYTES

    @property
    def empty(self) -> bool:
        """True if all are answered; look under the lock."""
        return not self._waiting and not self._sent

    def next(self, ended: Callable[[], bool], idle: float) -> bytes | None:
        """Wait for pushes and for room under way; return the next message, or None once `ended`, or after idle time."""
        with self.changed:
            while not ended():
                if self._waiting and self._may_send():
                    return self._taken()
                if not self.changed.wait(idle) and self.empty:
                    return None
            return None

    def answer(self, reply: pb.PushReply) -> StoreUnavailable | None:
        """Pass a reply on to its callers; return the error if the store of the manager was unavailable."""
        with self.changed:
            message = self._sent.pop(reply.seq, None)
            if message is None:
                return None
            pushes = [one for one in message.pushes if not one.over]
            if reply.HasField("error"):
                return self._failed(pushes, error_in(reply.error))
            pushed, first = list(map(PUSHED.taken, reply.pushed)), 0
            for one in message.pushes:
                if not one.over:
                    self._leave(one)
                    one.answer(pushed[first : first + one.jobs])
                first += one.jobs
            self.changed.notify_all()
            return None

    def give_back(self) -> None:
        """Let sent, unanswered pushes wait again: their stream has ended."""
        with self.changed:
            for message in reversed(self._sent.values()):
                self._wait_again(message.pushes)
            self._sent.clear()

    def refuse(self, error: StanchionError) -> None:
        """Fail all pushes."""
        with self.changed:
            self.give_back()
            for one in self._waiting:
                self._leave(one)
                one.fail(error)
            self._waiting.clear()

    def withdraw(self, push: Push, error: StanchionError) -> None:
        """Fail a push whose caller stopped waiting, unless it is answered; a sent push may be stored."""
        with self.changed:
            if not push.over:
                self._leave(push)
                push.fail(error)
                if push in self._waiting:
                    self._waiting.remove(push)

    def oldest(self) -> float | None:
        """Return the time since when a message has no answer, on the monotonic clock."""
        with self.changed:
            return min((message.sent_at for message in self._sent.values()), default=None)

    def _failed(self, pushes: list[Push], error: StanchionError) -> StoreUnavailable | None:
        if isinstance(error, StoreUnavailable) and not error.lasting:
            self._wait_again(pushes)
            return error
        if len(pushes) == 1:
            self._leave(pushes[0])
            pushes[0].fail(error)
        else:  # one of them is the culprit
            for one in pushes:
                one.alone = True
            self._wait_again(pushes)
        self.changed.notify_all()
        return None

    def _wait_again(self, pushes: list[Push]) -> None:
        for one in reversed(pushes):
            if not one.over:
                one.again = True
                self._waiting.appendleft(one)

    def _taken(self) -> bytes:
        """Return the message with the next pushes."""
        pushes: list[Push] = []
        jobs = size = 0
        while self._waiting:
            one = self._waiting[0]
            full = jobs + one.jobs > MESSAGE_JOBS or size + len(one.data) > MESSAGE_BYTES
            if pushes and (full or one.alone or pushes[0].alone):
                break
            pushes.append(self._waiting.popleft())
            jobs += one.jobs
            size += len(one.data)
        now = time.monotonic()
        self._seq += 1
        self._sent[self._seq] = _Message(pushes, now)
        wait = max(one.deadline for one in pushes) - now
        head = pb.PushRequest(
            seq=self._seq, repeat=any(one.again for one in pushes), wait_us=max(0, round(wait * SECOND))
        )
        # Messages that are joined as bytes are one message with the jobs of all.
        return b"".join((written(head), *(one.data for one in pushes)))

    def _leave(self, push: Push) -> None:
        self._jobs -= push.jobs
        self._bytes -= len(push.data)
