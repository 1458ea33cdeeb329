"""Workers and producers of a scene that die."""

from __future__ import annotations

import random
import signal
import time

from stanchion.errors import StoreUnavailable
from tests.crash.producer import Pushing
from tests.crash.scene import PATIENCE, Process, Scene, until

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
    scene.wait(lambda: scene.events("started", of=victim) or idle(scene), PATIENCE, "its first job")
    time.sleep(random.uniform(0, 0.3))
    scene.kill(victim)
    scene.wait(lambda: idle(scene) or all(one.poll() is not None for one in doomed), PATIENCE, "their deaths")
    for process in doomed:  # where others have left it no work, one never meets its fate
        scene.kill(process)


def producers_die(scene: Scene) -> None:
    """Let producers die around their pushes, and others at any moment."""
    for kind in PRODUCER_FATES:
        doomed = scene.producer(Pushing(pause=0.01), fate=f"{kind} {random.randint(2, 20)}")
        victim = scene.producer(Pushing(pause=0.01, size=20))
        assert doomed.wait(PATIENCE) == -9
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


def freeze(scene: Scene, process: Process) -> None:
    """Stop a process at a moment when it does not hold the lock of a SQLite file, which no other could take from it."""

    def stopped() -> bool:
        process.send_signal(signal.SIGSTOP)
        try:
            scene.store.leave("unknown")
            return True
        except StoreUnavailable:
            process.send_signal(signal.SIGCONT)
            return False

    until(stopped, PATIENCE, "stopped without the lock")
