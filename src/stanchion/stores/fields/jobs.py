"""The table of the fields of jobs, from which the stores derive columns, resets and checks.

`JobRow` and `NewJob` are the typed truth: the table has their fields, in their order. An optional field has the default
None there.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum, auto
from typing import Any, Final, NamedTuple

from stanchion.core.checks import LONGEST_DELAY, MAX_LIMITS, MAX_PRIORITY, MIN_PRIORITY
from stanchion.core.retry import MOST_ATTEMPTS
from stanchion.stores.records.jobs import UNLANED, JobRow, NewJob


class Kind(StrEnum):
    """The values of a field; each store maps them to its types."""

    ID = auto()
    """A UUID in small letters."""
    MARKED_ID = auto()
    """A UUID, perhaps with a final asterisk."""
    NAME = auto()
    """Up to 200 printable characters."""
    WORD = auto()
    """A word from a short list."""
    TOKEN = auto()
    """Up to 64 printable characters, made by a client."""
    CONTENT = auto()
    """JSON of any size, or the encrypted form of it; or the bytes of a chunk."""
    JSON = auto()
    """JSON, never encrypted."""
    MICROS = auto()
    """A time."""
    SMALL = auto()
    """A whole number of 16 bits."""
    INT = auto()
    """A whole number of 32 bits."""
    REAL = auto()
    FLAG = auto()


class Step(IntEnum):
    """Steps that reset fields of a job to their defaults. A later step includes the earlier ones."""

    FREED = auto()
    """It holds no slot, and waits for none."""
    RELEASED = auto()
    """It has no holder: its attempt is over."""
    RESTARTED = auto()
    """It has all its attempts again."""
    MOVED = auto()
    """It has moved to another queue."""


class Of(StrEnum):
    """The jobs that have a field."""

    LIVE = auto()
    HISTORY = auto()
    BOTH = auto()


SAME: Final = ""

LATEST: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""
LANES_MAX: Final = 1_000_000
WITHIN: Final[dict[Kind, tuple[float, float]]] = {
    Kind.MICROS: (0, LATEST),
    Kind.INT: (0, 2**31 - 1),
    Kind.REAL: (0, LONGEST_DELAY),
}
"""The least and the greatest number of a kind."""


class Field(NamedTuple):
    """A field of stored jobs."""

    name: str
    kind: Kind
    until: Step | None = None
    """The step that resets it; None: no step."""
    of: Of = Of.BOTH
    public: str | None = SAME
    """Its name for users; None: they do not see it."""
    listed: bool = False
    """True if lists of jobs show it."""
    about: str = ""
    """A sentence for users, where its name does not say all."""
    compared: bool = False
    """True if queries compare it, by all operators."""
    within: tuple[float, float] | None = None
    """The least and the greatest number; None: the bounds of its kind."""

    @property
    def shown_as(self) -> str:
        """Its name for users, who see it."""
        return self.public or self.name

    @property
    def default(self) -> object:
        """The value where a job sets none; None also for a required field."""
        return JobRow._field_defaults.get(self.name)

    @property
    def required(self) -> bool:
        """True if each job has a value."""
        return self.name not in JobRow._field_defaults or self.default is not None


FIELDS: Final = (
    Field("id", Kind.ID, listed=True, compared=True, about="The id of the job."),
    Field("queue", Kind.NAME, listed=True, compared=True),
    Field("lane", Kind.INT, listed=True, compared=True, within=(UNLANED, LANES_MAX)),
    Field("state", Kind.WORD, listed=True, compared=True),
    Field("priority", Kind.SMALL, listed=True, compared=True, within=(MIN_PRIORITY, MAX_PRIORITY)),
    Field("rank", Kind.SMALL, of=Of.LIVE, public=None, compared=True),
    Field("run_at", Kind.MICROS, listed=True, compared=True, about="When it is or was due."),
    Field("enqueued_at", Kind.MICROS, listed=True, compared=True),
    Field("payload", Kind.CONTENT, about="The payload; of a task, its arguments."),
    Field("items", Kind.INT, listed=True, about="The items of a chunk; null for a job that carries one."),
    Field("task", Kind.NAME, listed=True, compared=True, about="The task that it calls; null for a payload."),
    Field("headers", Kind.JSON),
    Field("tenant", Kind.NAME, listed=True, compared=True),
    Field("key", Kind.NAME, Step.MOVED, listed=True),
    Field("order_key", Kind.NAME),
    Field("limits", Kind.JSON),
    Field("flow_root", Kind.ID, public="flow", about="The id of its flow."),
    Field("flow_node", Kind.ID, public=None),
    Field("flow_index", Kind.INT, public=None),
    Field("flow_after", Kind.MARKED_ID, public=None),
    Field("origin", Kind.ID, about="The job that it copies."),
    Field("attempts", Kind.INT, Step.RESTARTED, listed=True, within=(0, MOST_ATTEMPTS)),
    Field("failures", Kind.INT, Step.RESTARTED, listed=True, within=(0, MOST_ATTEMPTS)),
    Field("max_attempts", Kind.INT, listed=True, within=(1, MOST_ATTEMPTS)),
    Field("timeout", Kind.REAL),
    Field("expires", Kind.REAL, Step.RESTARTED, about="Seconds after its push until it is cancelled if not begun."),
    Field("errors", Kind.JSON, Step.RESTARTED),
    Field("lost_leases", Kind.INT, Step.RESTARTED, Of.LIVE, public=None, within=(0, MOST_ATTEMPTS)),
    Field("lost_in_all", Kind.INT, Step.RESTARTED, Of.LIVE, public=None, within=(0, MOST_ATTEMPTS)),
    Field("dead_from", Kind.NAME, Step.MOVED, about="Of a dead letter, the queue where it died.", compared=True),
    Field("dead_at", Kind.MICROS, Step.MOVED, about="Of a dead letter, when it died.", compared=True),
    Field(
        "dead_attempts",
        Kind.INT,
        Step.MOVED,
        about="Of a dead letter, its attempts until it died.",
        within=(0, MOST_ATTEMPTS),
    ),
    Field("progress", Kind.REAL, Step.RELEASED, about="The share done.", within=(0, 1)),
    Field("token", Kind.TOKEN, public=None),  # a settle repeated after a lost reply recognises its own work by it
    Field("worker", Kind.NAME, Step.RELEASED, listed=True, about="The worker that runs it, or ran it last."),
    Field("delivery", Kind.WORD, Step.RELEASED, Of.LIVE, public=None),
    Field("lease_until", Kind.MICROS, Step.RELEASED, Of.LIVE),
    Field("started_at", Kind.MICROS, Step.RELEASED, listed=True, compared=True, about="Of the last attempt."),
    Field("cancel_requested", Kind.FLAG, Step.RESTARTED, Of.LIVE),
    Field("slots_held", Kind.INT, Step.FREED, Of.LIVE, public=None, within=(0, MAX_LIMITS + 1)),
    Field("order_hold", Kind.TOKEN, Step.FREED, Of.LIVE, public=None),
    Field("slots_hold", Kind.TOKEN, Step.FREED, Of.LIVE, public=None),
    Field("waits_kind", Kind.WORD, Step.FREED, Of.LIVE),
    Field("waits_queue", Kind.NAME, Step.FREED, Of.LIVE),
    Field("waits_name", Kind.NAME, Step.FREED, Of.LIVE),
    Field("waits_since", Kind.MICROS, Step.FREED, Of.LIVE),
    Field("promised", Kind.INT, Step.FREED, Of.LIVE, public=None),
    Field("arrival_payload", Kind.CONTENT, Step.MOVED),
    Field("trail", Kind.JSON),
    Field("entry_payload", Kind.CONTENT, about="The payload at its entry into the first queue, if it is kept."),
    Field("past_waits", Kind.JSON),
    Field("kept_payloads", Kind.JSON, about="The payloads on arrival in queues that it has left."),
    Field("finished_at", Kind.MICROS, Step.RESTARTED, Of.HISTORY, listed=True, compared=True),
    Field("result", Kind.CONTENT, Step.RESTARTED, Of.HISTORY, about="The result that it was committed with."),
)

PUBLIC: Final = tuple(field for field in FIELDS if field.public is not None)
"""The fields that users see."""
LIVE: Final = tuple(field for field in FIELDS if field.of is not Of.HISTORY)
FINISHED: Final = tuple(field for field in FIELDS if field.of is not Of.LIVE)

SPANS: Final = tuple(field.name for field in FIELDS if field.kind is Kind.REAL and field.within is None)
"""Spans of time in seconds, longer than none."""
KEPT: Final = "kept_payloads"
"""The payloads with which a job came to queues that it has left, where these keep them."""
UNCLAIMED: Final = ("past_waits", KEPT)
"""The last fields of live jobs: no worker needs them, so claims read those before them."""
LONG: Final = (*(field.name for field in FIELDS if field.kind is Kind.CONTENT), KEPT)
"""The fields that hold chunks."""
COMPARED: Final = frozenset(field.name for field in FIELDS if field.compared)
"""The fields that queries compare."""

TIES: Final = ("order_key", "limits", "flow_node", "items")
"""A job without these is untied: its steps do not affect other jobs, and count as one item."""
LIMITS: Final = TIES[:2]
"""A job without these takes no slots."""
HOLDS: Final = ("slots_held", "order_hold", "slots_hold")
"""Slots held between attempts."""
HELD: Final = ("id", "queue", *TIES, "flow_index", HOLDS[0])
"""The holds of a live job, and its position in a flow."""
WAITS: Final = ("waits_kind", "waits_queue", "waits_name")
"""The slot that a job waits for."""
DEATH: Final = ("dead_from", "dead_at", "dead_attempts")
"""How a dead letter died."""

BY_RULE: Final = ("state", "rank", "run_at", "enqueued_at", "waits_since")
"""Fields of a new job that `rules.lifecycle.jobs.created` decides, in its order."""
_OF_A_FLOW: Final = ("flow_", "waits_")
OF_PARTS: Final = ("attempts", "errors", "dead_from", "enqueued_at")
"""Fields of a new job that only parts of chunks bring."""
CHOSEN: Final = tuple(
    name
    for name in NewJob._fields
    if name in JobRow._fields
    and name not in {"id", "payload", "run_at", "origin", "trail", *OF_PARTS}
    and not name.startswith(_OF_A_FLOW)
)
"""Fields that a push sets, except for payload, time and flow."""

_NEW_ONLY: Final = {"delay": Kind.REAL, "on_duplicate": Kind.WORD, "key_ttl": Kind.REAL}
KINDS: Final = {field.name: field.kind for field in FIELDS} | _NEW_ONLY
"""The kinds of the fields of stored and of new jobs."""


class Option(NamedTuple):
    """An option of a push: a field of the new job that users set."""

    name: str
    about: str
    """A sentence for users; of a span of time, the part behind its unit."""
    of_event: bool = False
    """True if it belongs to an event, and not to a subscription."""
    plain: bool = True
    """True if programs without the package may set it; see `rules.plain_push`."""

    @property
    def kind(self) -> Kind:
        """The kind of the field."""
        return KINDS[self.name]

    @property
    def optional(self) -> bool:
        """True if users may give None."""
        return NewJob._field_defaults[self.name] is None


OPTIONS: Final = (
    Option("run_at", "When it is due, with a time zone; by default now.", of_event=True),
    Option("delay", "from now until it is due, in place of run_at."),
    Option("priority", "Higher first; or a band by its name."),
    Option("tenant", "The tenant that it belongs to.", of_event=True),
    Option("key", "Unique among the live jobs of the queue.", of_event=True),
    Option("key_ttl", "that the key stays taken after the job has finished.", of_event=True, plain=False),
    Option(
        "on_duplicate",
        "What to do if the key is taken: return (default), raise or replace.",
        of_event=True,
        plain=False,
    ),
    Option("order_key", "Jobs of one key run one at a time, in the order of their pushes.", of_event=True),
    Option("limits", "The semaphores that it holds while it runs."),
    Option("headers", "Metadata, stored with the payload.", of_event=True),
    Option("max_attempts", "Attempts after which it is dead."),
    Option("timeout", "that one attempt may run."),
    Option("expires", "after the push until it is cancelled, unless an attempt has begun by then."),
)
"""The options of a push, except for its rate."""


def names(kind: Kind, *kinds: Kind) -> tuple[str, ...]:
    """Return the names of the fields of stored jobs of these kinds."""
    return tuple(field.name for field in FIELDS if field.kind in (kind, *kinds))


def cleared(step: Step) -> dict[str, Any]:
    """Return the fields that a step resets, with their defaults."""
    return {field.name: field.default for field in FIELDS if field.until is not None and field.until <= step}
