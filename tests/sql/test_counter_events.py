"""Counts that several processes fold at once."""

import threading
import time
from contextlib import closing

import psycopg

from stanchion.stores.registry import open_store
from stanchion_conformance.harness import QUEUE, counts_of, new_job


def test_the_second_of_two_who_fold_the_first_events_adds_its_own(pg_url: str) -> None:
    with closing(open_store(pg_url)) as store, psycopg.connect(pg_url) as other:
        store.setup()
        store.push([new_job()])
        other.execute("INSERT INTO stanchion_counts (queue, what, n) VALUES (%s, 'pushed', 5)", [QUEUE])
        folding = threading.Thread(target=store.maintain)
        folding.start()
        time.sleep(0.3)  # it waits for the other one
        other.commit()
        folding.join(60)
        assert counts_of(store, QUEUE).pushed == 6
