"""Workers and producers of a scene that die."""

from __future__ import annotations

import random
import signal
import time

from stanchion.errors import StoreUnavailable
from tests.crash.producer import Pushing
from tests.crash.scene import TIMEOUT_SECONDS, Process, Scene, until

WORKER_FATES = ("after claim", "before settle", "after settle")
PRODUCER_FATES = ("before push", "after push")


def idle(scene: Scene) -> bool:
    """Tell whether there is nothing left to do."""
    return scene.sizes.total == 0


def workers_die(scene: Scene, *fates: str) -> None:
    """Let workers die between their steps, besides at these fates, and one at any moment."""
    doomed = [scene.worker(fate=f"{kind} {random.randint(2, 12)}") for kind in WORKER_FATES]
    doomed += [scene.worker(fate=fate) for fate in fates]
    victim = scene.worker()
    scene.wait(lambda: scene.events("started", of=victim) or idle(scene), TIMEOUT_SECONDS, "its first job")
    time.sleep(random.uniform(0, 0.3))
    scene.kill(victim)
    scene.wait(lambda: idle(scene) or all(one.poll() is not None for one in doomed), TIMEOUT_SECONDS, "their deaths")
    for process in doomed:  # where others have left it no work, one never meets its fate
        scene.kill(process)


def producers_die(scene: Scene) -> None:
    """Let producers die around their pushes, and others at any moment."""
    for kind in PRODUCER_FATES:
        doomed = scene.producer(Pushing(pause=0.01), fate=f"{kind} {random.randint(2, 20)}")
        victim = scene.producer(Pushing(pause=0.01, size=20))
        assert doomed.wait(TIMEOUT_SECONDS) == -9
        scene.seen("told push", victim)
        time.sleep(random.uniform(0, 0.2))
        scene.kill(victim)


def finish(scene: Scene) -> None:
    """Have one worker do all that is left."""
    scene.push(20)
    last = scene.worker()
    scene.seen("started", last)
    scene.drained()
    scene.end(last)


def freeze(scene: Scene, worker: Process, seconds: float) -> set[str]:
    """Stop a worker while it runs jobs of so many seconds; return the jobs that it runs.

    Not while it holds the lock of a SQLite file, which no other could take from it. What it ran at such a moment may
    have ended once it goes on, so each try has jobs of its own.
    """

    def stopped() -> set[str]:
        pushed = set(scene.push(4, seconds, priority=1))
        scene.wait(lambda: started() & pushed, TIMEOUT_SECONDS, "its next jobs")
        worker.send_signal(signal.SIGSTOP)
        try:
            scene.store.leave("unknown")
            running = started() - {event.job for event in scene.events("asked commit", of=worker)}
        except StoreUnavailable:
            running = set()
        if not running:
            worker.send_signal(signal.SIGCONT)
        return running

    def started() -> set[str]:
        return {event.job for event in scene.events("started", of=worker)}

    return until(stopped, TIMEOUT_SECONDS, "stopped amid its jobs and without the lock")
