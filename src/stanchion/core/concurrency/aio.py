"""The async API: each method that waits for the store has a twin, made from it, that runs off the event loop.

    apush = off_loop(push)                     await queue.apush(1)
    amembers = off_loop_each(members)          async for job in flow.amembers()
    atransaction = off_loop_block(transaction) async with app.atransaction() as tx

A twin has the method's name with an `a` in front, and its parameters.
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from stanchion.core.concurrency.caller import CALLER, Caller
from stanchion.core.concurrency.threads import DaemonPool

if TYPE_CHECKING:
    import asyncio
    from queue import SimpleQueue

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

THREADS = 16
"""Concurrent calls of one app; each is short."""

_PAGE = 100
"""Items that an async iterator takes from its method by one call in a thread."""


def calls_pool() -> DaemonPool:
    """Return the thread pool for the async calls of an app."""
    return DaemonPool("stanchion-call", THREADS)


async def in_thread(put: Callable[[Callable[[], None]], None], call: Callable[[], R]) -> R:
    """Make a call in a thread, with the context variables of the present task; `put` brings it there.

    Cancelled before it has started, it is not made; later, it continues by itself, but runs no more awaitables in this
    task: see `from_caller`.
    """
    import asyncio  # it loads the modules of TLS, which a program without coroutines does not need

    loop = asyncio.get_running_loop()
    answer: asyncio.Future[R] = loop.create_future()
    context, caller = contextvars.copy_context(), Caller(loop)
    context.run(CALLER.set, caller)

    def answered(value: Any, error: BaseException | None) -> None:
        if answer.done():  # cancelled meanwhile
            return
        if error is None:
            answer.set_result(value)
        elif isinstance(error, StopIteration):  # which no future can raise
            answer.set_exception(RuntimeError("the call raised StopIteration"))
        else:
            answer.set_exception(error)
        caller.wake()

    def work() -> None:
        value, failure = None, None
        if answer.cancelled():
            return
        try:
            value = context.run(call)
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(answered, value, failure)
        del value, failure  # the traceback of an error refers to this frame

    put(work)  # a future of `concurrent.futures` would take as long as the rest
    try:
        return await caller.serve(answer)
    except BaseException:
        answer.cancel()
        raise


def off_loop(call: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return the async twin of a method, which runs it in a thread of its app.

    Not for calls that wait: each would occupy one of a few threads. See `off_loop_alone`.

    A call in a transaction of the caller runs in the thread of its block, or else in one of its own. Else calls that
    wait for the locks of that transaction could occupy all threads, and it would never end.
    """
    transaction_of = _transaction_of(call)

    @functools.wraps(call)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        tx = transaction_of(args, kwargs)
        put = _pool_of(call, args).put if tx is None else _BLOCKS.get(id(tx), _new_thread)
        return await in_thread(put, functools.partial(call, *args, **kwargs))

    return _named(twin, call, "Await `{}`, run off the event loop.")


def off_loop_alone(call: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return the async twin of a method that may take minutes: it runs in a separate thread."""

    @functools.wraps(call)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(_new_thread, functools.partial(call, *args, **kwargs))

    return _named(twin, call, "Await `{}`, run off the event loop.")


def off_loop_each(call: Callable[P, Iterator[T]]) -> Callable[P, AsyncIterator[T]]:
    """Return the async twin of a method that yields items: `async for item in twin():`."""

    @functools.wraps(call)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        pool = _pool_of(call, args)
        items = await in_thread(pool.put, functools.partial(call, *args, **kwargs))
        while page := await in_thread(pool.put, lambda: list(islice(items, _PAGE))):
            for item in page:
                yield item

    return _named(twin, call, "Iterate over `{}` with `async for`, off the event loop.")


def off_loop_block(
    call: Callable[P, AbstractContextManager[T]],
) -> Callable[P, AbstractAsyncContextManager[T]]:
    """Return the async twin of a method that opens a block: `async with twin() as value:`.

    A thread of its own enters and leaves the block, so that locks which belong to a thread stay with it. It also makes
    the calls that get the value as `tx`, one after the other.
    """

    @functools.wraps(call)
    @asynccontextmanager
    async def twin(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        import asyncio

        thread, block = _Thread(), _Block(functools.partial(call, *args, **kwargs))
        try:
            try:
                value = await in_thread(thread.put, block.enter)
            except asyncio.CancelledError:
                thread.put(block.undo)  # it may be entered yet
                raise
            _BLOCKS[id(value)] = thread.put
            try:
                yield value
            except BaseException as error:
                if not await _finished(thread.put, functools.partial(block.leave, error)):
                    raise
            else:
                await _finished(thread.put, functools.partial(block.leave, None))
            finally:
                _BLOCKS.pop(id(value), None)
        finally:
            thread.end()

    return _named(twin, call, "Open the block of `{}` with `async with`, off the event loop.")


class _Block(Generic[T]):
    """The block of a context manager, entered and left by calls."""

    def __init__(self, make: Callable[[], AbstractContextManager[T]]) -> None:
        self._make = make
        self._entered: AbstractContextManager[T] | None = None

    def enter(self) -> T:
        """Make the context manager and enter its block."""
        block = self._make()
        value = block.__enter__()
        self._entered = block
        return value

    def leave(self, error: BaseException | None) -> bool:
        """Leave the block with this error, if any; return True if the block has handled it."""
        assert self._entered is not None  # noqa: S101 - else there is nothing to leave
        trace = None if error is None else error.__traceback__
        return bool(self._entered.__exit__(None if error is None else type(error), error, trace))

    def undo(self) -> None:
        """Leave the block, if it was entered, as its coroutine was cancelled meanwhile."""
        if self._entered is not None:
            with suppress(BaseException):
                self.leave(GeneratorExit())


async def _finished(put: Callable[[Callable[[], None]], None], call: Callable[[], R]) -> R:
    """Make a call in a thread and wait for its end, even if the coroutine is cancelled meanwhile."""
    import asyncio

    leaving = asyncio.ensure_future(in_thread(put, call))
    try:
        return await asyncio.shield(leaving)
    except asyncio.CancelledError:
        if not leaving.done():
            await asyncio.wait([leaving])
        raise


class _Thread:
    """A thread that makes the calls of one block, one after the other."""

    def __init__(self) -> None:
        from queue import SimpleQueue

        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._ended = False
        threading.Thread(target=self._run, name="stanchion-block", daemon=True).start()

    def put(self, call: Callable[[], None]) -> None:
        """Make a call after the others; in another thread once this one has ended."""
        with self._lock:
            if not self._ended:
                self._calls.put(call)
                return
        _new_thread(call)

    def end(self) -> None:
        """End the thread after its pending calls."""
        with self._lock:
            self._ended = True
            self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _new_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="stanchion-call", daemon=True).start()


def _named(twin: Callable[P, R], call: Callable[..., object], doc: str) -> Callable[P, R]:
    name = call.__name__
    twin.__name__ = f"a{name}"
    twin.__qualname__ = call.__qualname__.removesuffix(name) + twin.__name__
    twin.__doc__ = doc.format(name)
    return twin


def _transaction_of(call: Callable[..., object]) -> Callable[[tuple[Any, ...], Mapping[str, Any]], object]:
    """Return a function that finds the `tx` of a call of this method: an argument, or an option of its object."""
    code = call.__code__
    names = code.co_varnames[: code.co_argcount]
    position = names.index("tx") if "tx" in names else len(names)
    owner = getattr(call, "__self__", None)
    offset = 0 if owner is None else 1

    def transaction_of(args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        if "tx" in kwargs:
            return kwargs["tx"]
        if "tx" in names and len(args) > position - offset:
            return args[position - offset]
        return getattr(args[0] if owner is None else owner, "_tx", None)

    return transaction_of


def _pool_of(call: Callable[..., object], args: tuple[object, ...]) -> DaemonPool:
    """Return the thread pool of the app of a method's object, or a shared one if it has none."""
    owner = getattr(call, "__self__", None) or args[0]
    context = getattr(owner, "_context", None) or getattr(owner, "context", None)
    return _OF_NO_APP if context is None else context.calls


_OF_NO_APP = calls_pool()

_BLOCKS: dict[int, Callable[[Callable[[], None]], None]] = {}
"""Put a call into the thread of an open block, by the identity of the block's value."""
