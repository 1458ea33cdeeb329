"""Finished jobs with errors, delays and ways of their own."""

import json

from stanchion.stores.records.jobs import SECOND, JobRow

STRANGE = (
    "",
    "E: 'naïve façade, and much more' at https://example.org/a?b={n}\nsecond line",
    'E: ada{n}@example.org, 10.0.0.7:5432, /var/tmp/x{n}, 2026-11-26T05:40:12.1Z, "it\'s", deadbeef0{n}',
    "E: " + "'" * 40 + "\u2028 \ud83d\ude00 {n}".encode("utf-16", "surrogatepass").decode("utf-16"),
)

ERRORS = ("KeyError: 'k{n}'", "TimeoutError: no answer in {n} s", "ValueError: order 0x{n}f is gone", *STRANGE)


def told(rows: list[JobRow]) -> list[JobRow]:
    """Return finished jobs with errors, delays and ways of their own."""
    told = []
    for n, row in enumerate(rows):
        delay = (n % 97) ** 3 * SECOND // 100
        errors = [
            {"attempt": one, "at": 1.0, "error": ERRORS[(n * one) % 11 % len(ERRORS)].format(n=n)}
            | ({"group": f"{n % 5:08x}"} if (n + one) % 7 == 0 else {})
            for one in range(1, row.attempts)
        ]
        way = [["raw", 1 + n % 2, (row.enqueued_at or 0) / SECOND], ["clean", 1, (row.enqueued_at or 0) / SECOND + 1]]
        moved = n % 3 == 0
        told.append(
            row._replace(
                run_at=(row.started_at or 0) - delay,
                errors=json.dumps(errors) if errors else None,
                failures=len(errors),
                queue="flights.out" if moved else row.queue,
                headers=json.dumps({"x-route": way, "other": [1]}) if moved else None,
            )
        )
    return told
