"""A store in one file: every changing call is appended, and each process repeats all calls in a MemoryStore."""

import fcntl
import io
import os
import pickle
import struct
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partialmethod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from stanchion.errors import CannotJoin, SchemaMismatch, StoreUnavailable
from stanchion.stores.memory import FrozenClock, MemoryStore
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.leases.lost_leases import default_delay
from stanchion.stores.wakeup.listeners import Listeners

BEGINNING = b"stanchion log 1\n"
GENERATION = len(BEGINNING) + 16
"""The file begins with this and 16 bytes that are its own."""

HEADER = struct.Struct(">II")
"""The length of an entry, and its checksum."""

COMPACT_BYTES = 1_000_000
"""With so many bytes behind the last snapshot, and more than the snapshot has, maintenance writes the next one."""


class Call(NamedTuple):
    """A call of a verb, and what else decides its effect: the time, and the delays after lost leases."""

    now: int
    verb: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    delays: list[float]


class Replica:
    """The state after all calls so far, in the memory of this process."""

    def __init__(self, listeners: Listeners, generation: bytes = b"") -> None:
        self.generation, self.process = generation, os.getpid()
        self.position, self.snapshot = GENERATION, 0
        self._clock, self._listeners = FrozenClock(), listeners
        self._store = MemoryStore(self._clock, listeners)

    def make(self, call: Call, delay: Callable[..., float]) -> Any:
        """Make a call at its time."""
        self._clock.at, self._store.lost_lease_delay = call.now, delay
        return getattr(self._store, call.verb)(*call.args, **call.named)

    def repeat(self, call: Call) -> None:
        """Make a call that was made before; its errors are its caller's."""
        delays = iter(call.delays)
        with suppress(Exception):
            self.make(call, lambda _row, _number: next(delays))

    def dump(self) -> bytes:
        """Return the state without the objects of this process."""
        whole = io.BytesIO()
        self._store.lost_lease_delay = default_delay
        _Dumper(whole, self._own()).dump(self._store)
        return whole.getvalue()

    def load(self, dumped: bytes) -> None:
        """Take over a state."""
        self._store = _Loader(io.BytesIO(dumped), self._own()).load()

    def _own(self) -> dict[str, Any]:
        return {"clock": self._clock, "listeners": self._listeners, "lock": self._store._lock}


class _Dumper(pickle.Pickler):
    """Writes names for the objects of this process."""

    def __init__(self, file: BinaryIO, own: dict[str, Any]) -> None:
        super().__init__(file)
        self._own = own

    def persistent_id(self, one: Any) -> str | None:
        return next((name for name, own in self._own.items() if one is own), None)


class _Loader(pickle.Unpickler):
    """Reads names as the objects of this process."""

    def __init__(self, file: BinaryIO, own: dict[str, Any]) -> None:
        super().__init__(file)
        self._own = own

    def persistent_load(self, name: str) -> Any:
        return self._own[name]


class LoggedStore:
    """Jobs in one file: each call that changes something is appended, and each process makes all calls in memory."""

    def __init__(self, path: str | Path, *, durable: bool = True) -> None:
        self.capabilities = Capabilities(
            name="logged",
            joins_transactions=False,
            push_wakeup=False,
            wakeup="by polling",
            atomic_batches=True,
            atomic_pushes=True,
            claims_by_id=True,
            durable="on disk when the call returns" if durable else "until the machine stops",
            processes=True,
        )
        self.clock_offset, self.lost_lease_delay = 0.0, default_delay
        self._path, self._durable = Path(path), durable
        self._listeners = Listeners(connected=lambda _listener: False)
        self._replica = Replica(self._listeners)

    def extension(self, port: type) -> None:
        """Return None: it has no optional ports."""

    def setup(self, *, dry_run: bool = False) -> list[str]:
        if self._path.exists() or dry_run:
            return [] if self._path.exists() else [f"create {self._path}"]
        new = self._path.with_suffix(f".{uuid.uuid4().hex}")
        new.write_bytes(BEGINNING + uuid.uuid4().bytes)
        with suppress(FileExistsError):
            os.link(new, self._path)
        new.unlink()
        return [f"create {self._path}"]

    def check(self) -> None:
        with self._locked():
            pass

    def close(self) -> None:
        """Do nothing: the file is open only during a call."""

    def listen(self, queues: Any, *, finished: Any = None, interchangeable: bool = False) -> Any:
        return self._listeners.listen(queues, finished, interchangeable=interchangeable)

    def maintain(self, seconds: float = 10.0) -> list[str]:
        done: list[str] = self._write("maintain", seconds)
        with self._locked() as log:
            if log.tell() - self._replica.snapshot > max(COMPACT_BYTES, self._replica.snapshot):
                self._compact()
        return done

    def _read(self, verb: str, *args: Any, **named: Any) -> Any:
        with self._locked():
            return self._replica.make(Call(self._now(), verb, args, named, []), self.lost_lease_delay)

    def _write(self, verb: str, *args: Any, tx: Any = None, **named: Any) -> Any:
        if tx is not None:
            raise CannotJoin("a log has no transactions to join; leave tx out")
        delays: list[float] = []

        def recorded(*lost: Any) -> float:
            delays.append(self.lost_lease_delay(*lost))
            return delays[-1]

        with self._locked() as log:
            call = Call(self._now(), verb, args, named, delays)
            try:
                answer = self._replica.make(call, recorded)
            except Exception:
                self._append(log, call)  # it may have changed something before
                raise
            except BaseException:
                self._forget()
                raise
            self._append(log, call)
            return answer

    # -- the verbs: each is made in memory, and logged if it changes something

    now = partialmethod(_read, "now")
    queues = partialmethod(_read, "queues")
    fetch = partialmethod(_read, "fetch")
    select = partialmethod(_read, "select")
    partition = partialmethod(_read, "partition")
    stats = partialmethod(_read, "stats")
    lane_depths = partialmethod(_read, "lane_depths")
    semaphores = partialmethod(_read, "semaphores")
    flow_nodes = partialmethod(_read, "flow_nodes")
    flow_ends = partialmethod(_read, "flow_ends")
    workers = partialmethod(_read, "workers")
    values = partialmethod(_read, "values")
    configure = partialmethod(_write, "configure")
    drop_queue = partialmethod(_write, "drop_queue")
    push = partialmethod(_write, "push")
    claim = partialmethod(_write, "claim")
    settle = partialmethod(_write, "settle")
    recover = partialmethod(_write, "recover")
    cancel = partialmethod(_write, "cancel")
    retry = partialmethod(_write, "retry")
    delete = partialmethod(_write, "delete")
    adopt = partialmethod(_write, "adopt")
    set_semaphore = partialmethod(_write, "set_semaphore")
    change_flows = partialmethod(_write, "change_flows")
    stage = partialmethod(_write, "stage")
    publish = partialmethod(_write, "publish")
    unstage = partialmethod(_write, "unstage")
    beat = partialmethod(_write, "beat")
    leave = partialmethod(_write, "leave")
    compare_and_set = partialmethod(_write, "compare_and_set")

    def _now(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1000 + int(self.clock_offset * SECOND)

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """Lock the log, repeat its new calls in memory, and leave it at its end."""
        log = self._open()
        try:
            self._catch_up(log)
            yield log
        finally:
            fcntl.flock(log, fcntl.LOCK_UN)  # by hand: a child forked meanwhile has the file open, too
            log.close()

    def _open(self) -> BinaryIO:
        while True:
            try:
                log = self._path.open("r+b")
            except OSError as error:
                raise StoreUnavailable(f"{self._path}: {error.strerror}; call setup() if it is new") from error
            fcntl.flock(log, fcntl.LOCK_EX)
            if self._path.exists() and os.path.samestat(os.fstat(log.fileno()), self._path.stat()):
                return log
            log.close()  # a snapshot took its place while this waited for the lock

    def _catch_up(self, log: BinaryIO) -> None:
        generation = log.read(GENERATION)
        if not generation.startswith(BEGINNING):
            raise SchemaMismatch(f"{self._path} is not a log of this version")
        if (self._replica.generation, self._replica.process) != (generation, os.getpid()):
            self._replica = Replica(self._listeners, generation)
        log.seek(self._replica.position)
        while (entry := _next_entry(log)) is not None:
            if isinstance(entry, Call):
                self._replica.repeat(entry)
            else:
                self._replica.load(entry)
                self._replica.snapshot = log.tell()
            self._replica.position = log.tell()
        log.seek(self._replica.position)

    def _append(self, log: BinaryIO, call: Call) -> None:
        log.truncate()  # what a writer left that died
        try:
            _write(log, call, durable=self._durable)
        except BaseException:
            self._forget()  # memory is ahead of the log
            raise
        self._replica.position = log.tell()

    def _forget(self) -> None:
        self._replica = Replica(self._listeners)

    def _compact(self) -> None:
        """Put a log in place of this one that begins with a snapshot."""
        following = self._path.with_suffix(".next")
        with following.open("wb") as log:
            log.write(BEGINNING + uuid.uuid4().bytes)
            _write(log, self._replica.dump(), durable=True)
        following.replace(self._path)


def _write(log: BinaryIO, entry: Call | bytes, *, durable: bool) -> None:
    data = pickle.dumps(entry)
    log.write(HEADER.pack(len(data), zlib.crc32(data)) + data)
    log.flush()
    if durable:
        os.fsync(log.fileno())


def _next_entry(log: BinaryIO) -> Call | bytes | None:
    """Return the next entry; None at the end, or if its writer or the machine died halfway."""
    header = log.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length, checksum = HEADER.unpack(header)
    data = log.read(length)
    whole = data and zlib.crc32(data) == checksum
    return pickle.loads(data) if whole else None  # noqa: S301 - written by this store
