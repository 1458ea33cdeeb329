from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_SCHEDULED: _ClassVar[JobState]
    JOB_STATE_READY: _ClassVar[JobState]
    JOB_STATE_WAITING: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_DONE: _ClassVar[JobState]
    JOB_STATE_DEAD: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]

class Ties(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIES_UNSPECIFIED: _ClassVar[Ties]
    TIES_NONE: _ClassVar[Ties]
    TIES_SLOTS: _ClassVar[Ties]
    TIES_OTHERS: _ClassVar[Ties]

class Redriven(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REDRIVEN_UNSPECIFIED: _ClassVar[Redriven]
    REDRIVEN_READY: _ClassVar[Redriven]
    REDRIVEN_MISSING: _ClassVar[Redriven]
    REDRIVEN_DONE: _ClassVar[Redriven]
    REDRIVEN_RUNNING: _ClassVar[Redriven]
    REDRIVEN_KEY_TAKEN: _ClassVar[Redriven]
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_SCHEDULED: JobState
JOB_STATE_READY: JobState
JOB_STATE_WAITING: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_DONE: JobState
JOB_STATE_DEAD: JobState
JOB_STATE_CANCELLED: JobState
TIES_UNSPECIFIED: Ties
TIES_NONE: Ties
TIES_SLOTS: Ties
TIES_OTHERS: Ties
REDRIVEN_UNSPECIFIED: Redriven
REDRIVEN_READY: Redriven
REDRIVEN_MISSING: Redriven
REDRIVEN_DONE: Redriven
REDRIVEN_RUNNING: Redriven
REDRIVEN_KEY_TAKEN: Redriven

class NewJob(_message.Message):
    __slots__ = ("id", "queue", "payload", "task", "priority", "run_at", "delay_us", "headers", "tenant", "key", "on_duplicate", "order_key", "limits", "flow_root", "flow_node", "flow_index", "flow_after", "origin", "max_attempts", "timeout_us", "lane", "waits_kind", "waits_queue", "waits_name", "trail", "key_ttl_us", "expires_us", "payload_chunk", "attempts", "errors", "dead_from", "enqueued_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    DELAY_US_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ON_DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    ORDER_KEY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    FLOW_ROOT_FIELD_NUMBER: _ClassVar[int]
    FLOW_NODE_FIELD_NUMBER: _ClassVar[int]
    FLOW_INDEX_FIELD_NUMBER: _ClassVar[int]
    FLOW_AFTER_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    WAITS_KIND_FIELD_NUMBER: _ClassVar[int]
    WAITS_QUEUE_FIELD_NUMBER: _ClassVar[int]
    WAITS_NAME_FIELD_NUMBER: _ClassVar[int]
    TRAIL_FIELD_NUMBER: _ClassVar[int]
    KEY_TTL_US_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_US_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_CHUNK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    DEAD_FROM_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    queue: str
    payload: str
    task: str
    priority: int
    run_at: int
    delay_us: int
    headers: str
    tenant: str
    key: str
    on_duplicate: str
    order_key: str
    limits: str
    flow_root: str
    flow_node: str
    flow_index: int
    flow_after: str
    origin: str
    max_attempts: int
    timeout_us: int
    lane: int
    waits_kind: str
    waits_queue: str
    waits_name: str
    trail: str
    key_ttl_us: int
    expires_us: int
    payload_chunk: bytes
    attempts: int
    errors: str
    dead_from: str
    enqueued_at: int
    def __init__(self, id: _Optional[str] = ..., queue: _Optional[str] = ..., payload: _Optional[str] = ..., task: _Optional[str] = ..., priority: _Optional[int] = ..., run_at: _Optional[int] = ..., delay_us: _Optional[int] = ..., headers: _Optional[str] = ..., tenant: _Optional[str] = ..., key: _Optional[str] = ..., on_duplicate: _Optional[str] = ..., order_key: _Optional[str] = ..., limits: _Optional[str] = ..., flow_root: _Optional[str] = ..., flow_node: _Optional[str] = ..., flow_index: _Optional[int] = ..., flow_after: _Optional[str] = ..., origin: _Optional[str] = ..., max_attempts: _Optional[int] = ..., timeout_us: _Optional[int] = ..., lane: _Optional[int] = ..., waits_kind: _Optional[str] = ..., waits_queue: _Optional[str] = ..., waits_name: _Optional[str] = ..., trail: _Optional[str] = ..., key_ttl_us: _Optional[int] = ..., expires_us: _Optional[int] = ..., payload_chunk: _Optional[bytes] = ..., attempts: _Optional[int] = ..., errors: _Optional[str] = ..., dead_from: _Optional[str] = ..., enqueued_at: _Optional[int] = ...) -> None: ...

class Pushed(_message.Message):
    __slots__ = ("id", "run_at", "enqueued_at", "duplicate", "token")
    ID_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_AT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    run_at: int
    enqueued_at: int
    duplicate: bool
    token: str
    def __init__(self, id: _Optional[str] = ..., run_at: _Optional[int] = ..., enqueued_at: _Optional[int] = ..., duplicate: _Optional[bool] = ..., token: _Optional[str] = ...) -> None: ...

class JobRef(_message.Message):
    __slots__ = ("id", "finished_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    finished_at: int
    def __init__(self, id: _Optional[str] = ..., finished_at: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "queue", "payload", "lane", "state", "priority", "rank", "run_at", "enqueued_at", "token", "attempts", "task", "headers", "worker", "started_at", "tenant", "key", "order_key", "limits", "flow_root", "flow_node", "flow_index", "flow_after", "origin", "failures", "max_attempts", "timeout_us", "errors", "progress", "lease_until", "cancel_requested", "slots_held", "order_hold", "slots_hold", "waits_kind", "waits_queue", "waits_name", "waits_since", "arrival_payload", "trail", "entry_payload", "finished_at", "result", "past_waits", "lost_leases", "lost_in_all", "delivery", "promised", "dead_from", "dead_at", "dead_attempts", "expires_us", "items", "payload_chunk", "arrival_payload_chunk", "entry_payload_chunk", "result_chunk", "kept_payloads", "epoch", "slice")
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_AT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ORDER_KEY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    FLOW_ROOT_FIELD_NUMBER: _ClassVar[int]
    FLOW_NODE_FIELD_NUMBER: _ClassVar[int]
    FLOW_INDEX_FIELD_NUMBER: _ClassVar[int]
    FLOW_AFTER_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    SLOTS_HELD_FIELD_NUMBER: _ClassVar[int]
    ORDER_HOLD_FIELD_NUMBER: _ClassVar[int]
    SLOTS_HOLD_FIELD_NUMBER: _ClassVar[int]
    WAITS_KIND_FIELD_NUMBER: _ClassVar[int]
    WAITS_QUEUE_FIELD_NUMBER: _ClassVar[int]
    WAITS_NAME_FIELD_NUMBER: _ClassVar[int]
    WAITS_SINCE_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TRAIL_FIELD_NUMBER: _ClassVar[int]
    ENTRY_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PAST_WAITS_FIELD_NUMBER: _ClassVar[int]
    LOST_LEASES_FIELD_NUMBER: _ClassVar[int]
    LOST_IN_ALL_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FROM_FIELD_NUMBER: _ClassVar[int]
    DEAD_AT_FIELD_NUMBER: _ClassVar[int]
    DEAD_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_US_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_CHUNK_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_PAYLOAD_CHUNK_FIELD_NUMBER: _ClassVar[int]
    ENTRY_PAYLOAD_CHUNK_FIELD_NUMBER: _ClassVar[int]
    RESULT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    KEPT_PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    id: str
    queue: str
    payload: str
    lane: int
    state: str
    priority: int
    rank: int
    run_at: int
    enqueued_at: int
    token: str
    attempts: int
    task: str
    headers: str
    worker: str
    started_at: int
    tenant: str
    key: str
    order_key: str
    limits: str
    flow_root: str
    flow_node: str
    flow_index: int
    flow_after: str
    origin: str
    failures: int
    max_attempts: int
    timeout_us: int
    errors: str
    progress: float
    lease_until: int
    cancel_requested: bool
    slots_held: int
    order_hold: str
    slots_hold: str
    waits_kind: str
    waits_queue: str
    waits_name: str
    waits_since: int
    arrival_payload: str
    trail: str
    entry_payload: str
    finished_at: int
    result: str
    past_waits: str
    lost_leases: int
    lost_in_all: int
    delivery: str
    promised: int
    dead_from: str
    dead_at: int
    dead_attempts: int
    expires_us: int
    items: int
    payload_chunk: bytes
    arrival_payload_chunk: bytes
    entry_payload_chunk: bytes
    result_chunk: bytes
    kept_payloads: str
    epoch: int
    slice: int
    def __init__(self, id: _Optional[str] = ..., queue: _Optional[str] = ..., payload: _Optional[str] = ..., lane: _Optional[int] = ..., state: _Optional[str] = ..., priority: _Optional[int] = ..., rank: _Optional[int] = ..., run_at: _Optional[int] = ..., enqueued_at: _Optional[int] = ..., token: _Optional[str] = ..., attempts: _Optional[int] = ..., task: _Optional[str] = ..., headers: _Optional[str] = ..., worker: _Optional[str] = ..., started_at: _Optional[int] = ..., tenant: _Optional[str] = ..., key: _Optional[str] = ..., order_key: _Optional[str] = ..., limits: _Optional[str] = ..., flow_root: _Optional[str] = ..., flow_node: _Optional[str] = ..., flow_index: _Optional[int] = ..., flow_after: _Optional[str] = ..., origin: _Optional[str] = ..., failures: _Optional[int] = ..., max_attempts: _Optional[int] = ..., timeout_us: _Optional[int] = ..., errors: _Optional[str] = ..., progress: _Optional[float] = ..., lease_until: _Optional[int] = ..., cancel_requested: _Optional[bool] = ..., slots_held: _Optional[int] = ..., order_hold: _Optional[str] = ..., slots_hold: _Optional[str] = ..., waits_kind: _Optional[str] = ..., waits_queue: _Optional[str] = ..., waits_name: _Optional[str] = ..., waits_since: _Optional[int] = ..., arrival_payload: _Optional[str] = ..., trail: _Optional[str] = ..., entry_payload: _Optional[str] = ..., finished_at: _Optional[int] = ..., result: _Optional[str] = ..., past_waits: _Optional[str] = ..., lost_leases: _Optional[int] = ..., lost_in_all: _Optional[int] = ..., delivery: _Optional[str] = ..., promised: _Optional[int] = ..., dead_from: _Optional[str] = ..., dead_at: _Optional[int] = ..., dead_attempts: _Optional[int] = ..., expires_us: _Optional[int] = ..., items: _Optional[int] = ..., payload_chunk: _Optional[bytes] = ..., arrival_payload_chunk: _Optional[bytes] = ..., entry_payload_chunk: _Optional[bytes] = ..., result_chunk: _Optional[bytes] = ..., kept_payloads: _Optional[str] = ..., epoch: _Optional[int] = ..., slice: _Optional[int] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("id", "token", "queue")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    id: str
    token: str
    queue: str
    def __init__(self, id: _Optional[str] = ..., token: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class Slot(_message.Message):
    __slots__ = ("kind", "queue", "name")
    KIND_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: str
    queue: str
    name: str
    def __init__(self, kind: _Optional[str] = ..., queue: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("seq", "jobs", "repeat", "claim", "wait_us")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    WAIT_US_FIELD_NUMBER: _ClassVar[int]
    seq: int
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    repeat: bool
    claim: Claim
    wait_us: int
    def __init__(self, seq: _Optional[int] = ..., jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ..., repeat: _Optional[bool] = ..., claim: _Optional[_Union[Claim, _Mapping]] = ..., wait_us: _Optional[int] = ...) -> None: ...

class PushReply(_message.Message):
    __slots__ = ("seq", "pushed", "error")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PUSHED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    seq: int
    pushed: _containers.RepeatedCompositeFieldContainer[Pushed]
    error: Error
    def __init__(self, seq: _Optional[int] = ..., pushed: _Optional[_Iterable[_Union[Pushed, _Mapping]]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Lanes(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("id", "worker")
    ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    id: str
    worker: str
    def __init__(self, id: _Optional[str] = ..., worker: _Optional[str] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("queue", "limit", "token", "worker", "lease_us", "repeat", "lanes", "full", "rows", "holder", "min_rank", "ids", "not_after", "delivery")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    LEASE_US_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    MIN_RANK_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    NOT_AFTER_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    queue: str
    limit: int
    token: str
    worker: str
    lease_us: int
    repeat: bool
    lanes: Lanes
    full: _containers.RepeatedCompositeFieldContainer[Slot]
    rows: bool
    holder: str
    min_rank: int
    ids: _containers.RepeatedCompositeFieldContainer[Assignment]
    not_after: int
    delivery: str
    def __init__(self, queue: _Optional[str] = ..., limit: _Optional[int] = ..., token: _Optional[str] = ..., worker: _Optional[str] = ..., lease_us: _Optional[int] = ..., repeat: _Optional[bool] = ..., lanes: _Optional[_Union[Lanes, _Mapping]] = ..., full: _Optional[_Iterable[_Union[Slot, _Mapping]]] = ..., rows: _Optional[bool] = ..., holder: _Optional[str] = ..., min_rank: _Optional[int] = ..., ids: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., not_after: _Optional[int] = ..., delivery: _Optional[str] = ...) -> None: ...

class ReserveRequest(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class ReserveReply(_message.Message):
    __slots__ = ("rows", "retry_in_us", "reserved")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    RETRY_IN_US_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Job]
    retry_in_us: int
    reserved: int
    def __init__(self, rows: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., retry_in_us: _Optional[int] = ..., reserved: _Optional[int] = ...) -> None: ...

class Tally(_message.Message):
    __slots__ = ("queue", "event", "number")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    queue: str
    event: str
    number: int
    def __init__(self, queue: _Optional[str] = ..., event: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("result", "payload", "jobs", "ties", "result_chunk", "payload_chunk", "tallies")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    TIES_FIELD_NUMBER: _ClassVar[int]
    RESULT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_CHUNK_FIELD_NUMBER: _ClassVar[int]
    TALLIES_FIELD_NUMBER: _ClassVar[int]
    result: str
    payload: str
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    ties: Ties
    result_chunk: bytes
    payload_chunk: bytes
    tallies: _containers.RepeatedCompositeFieldContainer[Tally]
    def __init__(self, result: _Optional[str] = ..., payload: _Optional[str] = ..., jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ..., ties: _Optional[_Union[Ties, str]] = ..., result_chunk: _Optional[bytes] = ..., payload_chunk: _Optional[bytes] = ..., tallies: _Optional[_Iterable[_Union[Tally, _Mapping]]] = ...) -> None: ...

class Rollback(_message.Message):
    __slots__ = ("delay_us", "error", "traceback", "refund", "payload", "group", "type", "payload_chunk")
    DELAY_US_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    REFUND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_CHUNK_FIELD_NUMBER: _ClassVar[int]
    delay_us: int
    error: str
    traceback: str
    refund: bool
    payload: str
    group: str
    type: str
    payload_chunk: bytes
    def __init__(self, delay_us: _Optional[int] = ..., error: _Optional[str] = ..., traceback: _Optional[str] = ..., refund: _Optional[bool] = ..., payload: _Optional[str] = ..., group: _Optional[str] = ..., type: _Optional[str] = ..., payload_chunk: _Optional[bytes] = ...) -> None: ...

class Move(_message.Message):
    __slots__ = ("queue", "payload", "delay_us", "lane", "headers", "keep_entry", "order_key", "payload_chunk", "keep_arrival")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    DELAY_US_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    KEEP_ENTRY_FIELD_NUMBER: _ClassVar[int]
    ORDER_KEY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_CHUNK_FIELD_NUMBER: _ClassVar[int]
    KEEP_ARRIVAL_FIELD_NUMBER: _ClassVar[int]
    queue: str
    payload: str
    delay_us: int
    lane: int
    headers: str
    keep_entry: bool
    order_key: str
    payload_chunk: bytes
    keep_arrival: bool
    def __init__(self, queue: _Optional[str] = ..., payload: _Optional[str] = ..., delay_us: _Optional[int] = ..., lane: _Optional[int] = ..., headers: _Optional[str] = ..., keep_entry: _Optional[bool] = ..., order_key: _Optional[str] = ..., payload_chunk: _Optional[bytes] = ..., keep_arrival: _Optional[bool] = ...) -> None: ...

class Bury(_message.Message):
    __slots__ = ("error", "traceback", "group", "type")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    error: str
    traceback: str
    group: str
    type: str
    def __init__(self, error: _Optional[str] = ..., traceback: _Optional[str] = ..., group: _Optional[str] = ..., type: _Optional[str] = ...) -> None: ...

class Abandon(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Passage(_message.Message):
    __slots__ = ("queue", "changed", "kept", "kept_chunk")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    KEPT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    queue: str
    changed: bool
    kept: str
    kept_chunk: bytes
    def __init__(self, queue: _Optional[str] = ..., changed: _Optional[bool] = ..., kept: _Optional[str] = ..., kept_chunk: _Optional[bytes] = ...) -> None: ...

class Leaving(_message.Message):
    __slots__ = ("commit", "rollback", "move", "bury", "abandon", "go_on")
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ROLLBACK_FIELD_NUMBER: _ClassVar[int]
    MOVE_FIELD_NUMBER: _ClassVar[int]
    BURY_FIELD_NUMBER: _ClassVar[int]
    ABANDON_FIELD_NUMBER: _ClassVar[int]
    GO_ON_FIELD_NUMBER: _ClassVar[int]
    commit: Commit
    rollback: Rollback
    move: Move
    bury: Bury
    abandon: Abandon
    go_on: Continue
    def __init__(self, commit: _Optional[_Union[Commit, _Mapping]] = ..., rollback: _Optional[_Union[Rollback, _Mapping]] = ..., move: _Optional[_Union[Move, _Mapping]] = ..., bury: _Optional[_Union[Bury, _Mapping]] = ..., abandon: _Optional[_Union[Abandon, _Mapping]] = ..., go_on: _Optional[_Union[Continue, _Mapping]] = ...) -> None: ...

class Pass(_message.Message):
    __slots__ = ("passages", "then", "payload", "payload_chunk", "headers", "keep_entry")
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    THEN_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_CHUNK_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    KEEP_ENTRY_FIELD_NUMBER: _ClassVar[int]
    passages: _containers.RepeatedCompositeFieldContainer[Passage]
    then: Leaving
    payload: str
    payload_chunk: bytes
    headers: str
    keep_entry: bool
    def __init__(self, passages: _Optional[_Iterable[_Union[Passage, _Mapping]]] = ..., then: _Optional[_Union[Leaving, _Mapping]] = ..., payload: _Optional[str] = ..., payload_chunk: _Optional[bytes] = ..., headers: _Optional[str] = ..., keep_entry: _Optional[bool] = ...) -> None: ...

class Continue(_message.Message):
    __slots__ = ("job", "nodes", "jobs", "keep_entry", "keep_arrival")
    JOB_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    KEEP_ENTRY_FIELD_NUMBER: _ClassVar[int]
    KEEP_ARRIVAL_FIELD_NUMBER: _ClassVar[int]
    job: NewJob
    nodes: _containers.RepeatedCompositeFieldContainer[FlowNode]
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    keep_entry: bool
    keep_arrival: bool
    def __init__(self, job: _Optional[_Union[NewJob, _Mapping]] = ..., nodes: _Optional[_Iterable[_Union[FlowNode, _Mapping]]] = ..., jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ..., keep_entry: _Optional[bool] = ..., keep_arrival: _Optional[bool] = ...) -> None: ...

class Extend(_message.Message):
    __slots__ = ("lease_us",)
    LEASE_US_FIELD_NUMBER: _ClassVar[int]
    lease_us: int
    def __init__(self, lease_us: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: float
    def __init__(self, value: _Optional[float] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Elsewhere(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("id", "token", "queue", "commit", "rollback", "move", "bury", "abandon", "go_on", "extend", "progress", "refused", "elsewhere", "pass_through")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ROLLBACK_FIELD_NUMBER: _ClassVar[int]
    MOVE_FIELD_NUMBER: _ClassVar[int]
    BURY_FIELD_NUMBER: _ClassVar[int]
    ABANDON_FIELD_NUMBER: _ClassVar[int]
    GO_ON_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    PASS_THROUGH_FIELD_NUMBER: _ClassVar[int]
    id: str
    token: str
    queue: str
    commit: Commit
    rollback: Rollback
    move: Move
    bury: Bury
    abandon: Abandon
    go_on: Continue
    extend: Extend
    progress: Progress
    refused: Refused
    elsewhere: Elsewhere
    pass_through: Pass
    def __init__(self, id: _Optional[str] = ..., token: _Optional[str] = ..., queue: _Optional[str] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., rollback: _Optional[_Union[Rollback, _Mapping]] = ..., move: _Optional[_Union[Move, _Mapping]] = ..., bury: _Optional[_Union[Bury, _Mapping]] = ..., abandon: _Optional[_Union[Abandon, _Mapping]] = ..., go_on: _Optional[_Union[Continue, _Mapping]] = ..., extend: _Optional[_Union[Extend, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., elsewhere: _Optional[_Union[Elsewhere, _Mapping]] = ..., pass_through: _Optional[_Union[Pass, _Mapping]] = ...) -> None: ...

class FinishRequest(_message.Message):
    __slots__ = ("outcomes", "repeat")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    repeat: bool
    def __init__(self, outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ..., repeat: _Optional[bool] = ...) -> None: ...

class FinishReply(_message.Message):
    __slots__ = ("states", "newly")
    STATES_FIELD_NUMBER: _ClassVar[int]
    NEWLY_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[JobState]
    newly: int
    def __init__(self, states: _Optional[_Iterable[_Union[JobState, str]]] = ..., newly: _Optional[int] = ...) -> None: ...

class ExtendRequest(_message.Message):
    __slots__ = ("held", "lease_us")
    HELD_FIELD_NUMBER: _ClassVar[int]
    LEASE_US_FIELD_NUMBER: _ClassVar[int]
    held: _containers.RepeatedCompositeFieldContainer[Held]
    lease_us: int
    def __init__(self, held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., lease_us: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("receiver", "queues", "lanes", "holding", "answer", "worker")
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    receiver: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    lanes: _containers.RepeatedCompositeFieldContainer[LaneRange]
    holding: _containers.RepeatedCompositeFieldContainer[Held]
    answer: bool
    worker: WorkerRow
    def __init__(self, receiver: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., lanes: _Optional[_Iterable[_Union[LaneRange, _Mapping]]] = ..., holding: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., answer: _Optional[bool] = ..., worker: _Optional[_Union[WorkerRow, _Mapping]] = ...) -> None: ...

class Up(_message.Message):
    __slots__ = ("hello", "capacity", "outcomes", "stamp_us", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    STAMP_US_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    capacity: int
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    stamp_us: int
    goodbye: bool
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., capacity: _Optional[int] = ..., outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ..., stamp_us: _Optional[int] = ..., goodbye: _Optional[bool] = ...) -> None: ...

class Down(_message.Message):
    __slots__ = ("jobs", "settled", "lost", "newly", "cancel", "slices", "report", "heard_us", "lease_left_us", "draining", "lease_us")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    NEWLY_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    HEARD_US_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_US_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEASE_US_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    settled: _containers.RepeatedCompositeFieldContainer[Held]
    lost: _containers.RepeatedCompositeFieldContainer[Held]
    newly: int
    cancel: _containers.RepeatedCompositeFieldContainer[Held]
    slices: _containers.RepeatedCompositeFieldContainer[Slice]
    report: bool
    heard_us: int
    lease_left_us: int
    draining: bool
    lease_us: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., settled: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., lost: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., newly: _Optional[int] = ..., cancel: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., slices: _Optional[_Iterable[_Union[Slice, _Mapping]]] = ..., report: _Optional[bool] = ..., heard_us: _Optional[int] = ..., lease_left_us: _Optional[int] = ..., draining: _Optional[bool] = ..., lease_us: _Optional[int] = ...) -> None: ...

class Slice(_message.Message):
    __slots__ = ("queue", "slice", "epoch", "lanes")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    slice: int
    epoch: int
    lanes: LaneRange
    def __init__(self, queue: _Optional[str] = ..., slice: _Optional[int] = ..., epoch: _Optional[int] = ..., lanes: _Optional[_Union[LaneRange, _Mapping]] = ...) -> None: ...

class TopologyRequest(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queues: _Optional[_Iterable[str]] = ...) -> None: ...

class TopologyReply(_message.Message):
    __slots__ = ("version", "managers", "shards")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MANAGERS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    version: int
    managers: _containers.RepeatedCompositeFieldContainer[Manager]
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    def __init__(self, version: _Optional[int] = ..., managers: _Optional[_Iterable[_Union[Manager, _Mapping]]] = ..., shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ...) -> None: ...

class Manager(_message.Message):
    __slots__ = ("address", "session", "slices", "shard", "draining")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    address: str
    session: str
    slices: _containers.RepeatedCompositeFieldContainer[Slice]
    shard: str
    draining: bool
    def __init__(self, address: _Optional[str] = ..., session: _Optional[str] = ..., slices: _Optional[_Iterable[_Union[Slice, _Mapping]]] = ..., shard: _Optional[str] = ..., draining: _Optional[bool] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("name", "lanes", "state", "version", "reachable")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    lanes: _containers.RepeatedCompositeFieldContainer[LaneRange]
    state: str
    version: int
    reachable: bool
    def __init__(self, name: _Optional[str] = ..., lanes: _Optional[_Iterable[_Union[LaneRange, _Mapping]]] = ..., state: _Optional[str] = ..., version: _Optional[int] = ..., reachable: _Optional[bool] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queues: _Optional[_Iterable[str]] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("address", "session", "draining", "store_answers", "statements", "pushes", "outcomes", "queues", "receivers")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    STORE_ANSWERS_FIELD_NUMBER: _ClassVar[int]
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    PUSHES_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    address: str
    session: str
    draining: bool
    store_answers: bool
    statements: int
    pushes: int
    outcomes: int
    queues: _containers.RepeatedCompositeFieldContainer[QueueFigures]
    receivers: _containers.RepeatedCompositeFieldContainer[ReceiverFigures]
    def __init__(self, address: _Optional[str] = ..., session: _Optional[str] = ..., draining: _Optional[bool] = ..., store_answers: _Optional[bool] = ..., statements: _Optional[int] = ..., pushes: _Optional[int] = ..., outcomes: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[QueueFigures, _Mapping]]] = ..., receivers: _Optional[_Iterable[_Union[ReceiverFigures, _Mapping]]] = ...) -> None: ...

class QueueFigures(_message.Message):
    __slots__ = ("queue", "slices", "window", "lag_us", "in_flight", "sent", "acknowledged", "postponed", "expired", "unsent", "statements")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    LAG_US_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    POSTPONED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    UNSENT_FIELD_NUMBER: _ClassVar[int]
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    slices: int
    window: int
    lag_us: int
    in_flight: int
    sent: int
    acknowledged: int
    postponed: int
    expired: int
    unsent: int
    statements: int
    def __init__(self, queue: _Optional[str] = ..., slices: _Optional[int] = ..., window: _Optional[int] = ..., lag_us: _Optional[int] = ..., in_flight: _Optional[int] = ..., sent: _Optional[int] = ..., acknowledged: _Optional[int] = ..., postponed: _Optional[int] = ..., expired: _Optional[int] = ..., unsent: _Optional[int] = ..., statements: _Optional[int] = ...) -> None: ...

class ReceiverFigures(_message.Message):
    __slots__ = ("id", "worker", "capacity", "in_flight", "connected", "silent_us", "slow")
    ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    SILENT_US_FIELD_NUMBER: _ClassVar[int]
    SLOW_FIELD_NUMBER: _ClassVar[int]
    id: str
    worker: str
    capacity: int
    in_flight: int
    connected: bool
    silent_us: int
    slow: bool
    def __init__(self, id: _Optional[str] = ..., worker: _Optional[str] = ..., capacity: _Optional[int] = ..., in_flight: _Optional[int] = ..., connected: _Optional[bool] = ..., silent_us: _Optional[int] = ..., slow: _Optional[bool] = ...) -> None: ...

class ListenRequest(_message.Message):
    __slots__ = ("queues", "finished", "interchangeable")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    INTERCHANGEABLE_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    finished: Names
    interchangeable: bool
    def __init__(self, queues: _Optional[_Iterable[str]] = ..., finished: _Optional[_Union[Names, _Mapping]] = ..., interchangeable: _Optional[bool] = ...) -> None: ...

class Wake(_message.Message):
    __slots__ = ("queues", "finished", "connected")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    queues: Names
    finished: Names
    connected: bool
    def __init__(self, queues: _Optional[_Union[Names, _Mapping]] = ..., finished: _Optional[_Union[Names, _Mapping]] = ..., connected: _Optional[bool] = ...) -> None: ...

class JobQuery(_message.Message):
    __slots__ = ("of", "where", "text", "order", "after", "limit", "columns", "horizon")
    OF_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    of: str
    where: _containers.RepeatedCompositeFieldContainer[Condition]
    text: str
    order: str
    after: str
    limit: int
    columns: _containers.RepeatedScalarFieldContainer[str]
    horizon: bool
    def __init__(self, of: _Optional[str] = ..., where: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., text: _Optional[str] = ..., order: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ..., columns: _Optional[_Iterable[str]] = ..., horizon: _Optional[bool] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("field", "op", "value")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    field: str
    op: str
    value: Value
    def __init__(self, field: _Optional[str] = ..., op: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("text", "number", "real", "flag", "slot", "list", "chunk")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    text: str
    number: int
    real: float
    flag: bool
    slot: Slot
    list: ValueList
    chunk: bytes
    def __init__(self, text: _Optional[str] = ..., number: _Optional[int] = ..., real: _Optional[float] = ..., flag: _Optional[bool] = ..., slot: _Optional[_Union[Slot, _Mapping]] = ..., list: _Optional[_Union[ValueList, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class ValueList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Names(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class LaneList(_message.Message):
    __slots__ = ("lanes",)
    LANES_FIELD_NUMBER: _ClassVar[int]
    lanes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lanes: _Optional[_Iterable[int]] = ...) -> None: ...

class Horizon(_message.Message):
    __slots__ = ("now", "writers")
    NOW_FIELD_NUMBER: _ClassVar[int]
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    now: int
    writers: Names
    def __init__(self, now: _Optional[int] = ..., writers: _Optional[_Union[Names, _Mapping]] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class FetchReply(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, rows: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class SelectRequest(_message.Message):
    __slots__ = ("query",)
    QUERY_FIELD_NUMBER: _ClassVar[int]
    query: JobQuery
    def __init__(self, query: _Optional[_Union[JobQuery, _Mapping]] = ...) -> None: ...

class SelectReply(_message.Message):
    __slots__ = ("rows", "tuples", "next", "horizon")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TUPLES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Job]
    tuples: _containers.RepeatedCompositeFieldContainer[ValueList]
    next: str
    horizon: Horizon
    def __init__(self, rows: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., tuples: _Optional[_Iterable[_Union[ValueList, _Mapping]]] = ..., next: _Optional[str] = ..., horizon: _Optional[_Union[Horizon, _Mapping]] = ...) -> None: ...

class PartitionRequest(_message.Message):
    __slots__ = ("query", "parts")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    query: JobQuery
    parts: int
    def __init__(self, query: _Optional[_Union[JobQuery, _Mapping]] = ..., parts: _Optional[int] = ...) -> None: ...

class PartitionReply(_message.Message):
    __slots__ = ("queries",)
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    queries: _containers.RepeatedCompositeFieldContainer[JobQuery]
    def __init__(self, queries: _Optional[_Iterable[_Union[JobQuery, _Mapping]]] = ...) -> None: ...

class QueueSettings(_message.Message):
    __slots__ = ("name", "paused", "max_rate", "max_running", "lanes", "lanes_per_tenant", "history_ttl_us", "dead_letter", "lease_us", "uses_lanes", "uses_slots", "expires_us", "expires_with_jobs", "timeout_us", "ordered", "ordered_by", "declared", "partitions", "key_partitions", "lanes_seen", "partitioned", "schema_after", "jobs_expire_us", "history_ttl_done_us", "history_ttl_dead_us", "history_ttl_cancelled_us", "history_max")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    MAX_RATE_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    LANES_PER_TENANT_FIELD_NUMBER: _ClassVar[int]
    HISTORY_TTL_US_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    LEASE_US_FIELD_NUMBER: _ClassVar[int]
    USES_LANES_FIELD_NUMBER: _ClassVar[int]
    USES_SLOTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_US_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_WITH_JOBS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    ORDERED_BY_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    KEY_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    LANES_SEEN_FIELD_NUMBER: _ClassVar[int]
    PARTITIONED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_AFTER_FIELD_NUMBER: _ClassVar[int]
    JOBS_EXPIRE_US_FIELD_NUMBER: _ClassVar[int]
    HISTORY_TTL_DONE_US_FIELD_NUMBER: _ClassVar[int]
    HISTORY_TTL_DEAD_US_FIELD_NUMBER: _ClassVar[int]
    HISTORY_TTL_CANCELLED_US_FIELD_NUMBER: _ClassVar[int]
    HISTORY_MAX_FIELD_NUMBER: _ClassVar[int]
    name: str
    paused: bool
    max_rate: float
    max_running: int
    lanes: int
    lanes_per_tenant: int
    history_ttl_us: int
    dead_letter: str
    lease_us: int
    uses_lanes: bool
    uses_slots: bool
    expires_us: int
    expires_with_jobs: bool
    timeout_us: int
    ordered: bool
    ordered_by: str
    declared: str
    partitions: int
    key_partitions: int
    lanes_seen: str
    partitioned: bool
    schema_after: int
    jobs_expire_us: int
    history_ttl_done_us: int
    history_ttl_dead_us: int
    history_ttl_cancelled_us: int
    history_max: int
    def __init__(self, name: _Optional[str] = ..., paused: _Optional[bool] = ..., max_rate: _Optional[float] = ..., max_running: _Optional[int] = ..., lanes: _Optional[int] = ..., lanes_per_tenant: _Optional[int] = ..., history_ttl_us: _Optional[int] = ..., dead_letter: _Optional[str] = ..., lease_us: _Optional[int] = ..., uses_lanes: _Optional[bool] = ..., uses_slots: _Optional[bool] = ..., expires_us: _Optional[int] = ..., expires_with_jobs: _Optional[bool] = ..., timeout_us: _Optional[int] = ..., ordered: _Optional[bool] = ..., ordered_by: _Optional[str] = ..., declared: _Optional[str] = ..., partitions: _Optional[int] = ..., key_partitions: _Optional[int] = ..., lanes_seen: _Optional[str] = ..., partitioned: _Optional[bool] = ..., schema_after: _Optional[int] = ..., jobs_expire_us: _Optional[int] = ..., history_ttl_done_us: _Optional[int] = ..., history_ttl_dead_us: _Optional[int] = ..., history_ttl_cancelled_us: _Optional[int] = ..., history_max: _Optional[int] = ...) -> None: ...

class Semaphore(_message.Message):
    __slots__ = ("name", "capacity", "held", "waiting")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    name: str
    capacity: int
    held: int
    waiting: int
    def __init__(self, name: _Optional[str] = ..., capacity: _Optional[int] = ..., held: _Optional[int] = ..., waiting: _Optional[int] = ...) -> None: ...

class Sizes(_message.Message):
    __slots__ = ("total", "ready", "scheduled", "waiting", "running")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    total: int
    ready: int
    scheduled: int
    waiting: int
    running: int
    def __init__(self, total: _Optional[int] = ..., ready: _Optional[int] = ..., scheduled: _Optional[int] = ..., waiting: _Optional[int] = ..., running: _Optional[int] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("pushed", "popped", "reserved", "committed", "rolled_back", "moved", "buried", "cancelled", "expired", "lapsed")
    PUSHED_FIELD_NUMBER: _ClassVar[int]
    POPPED_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ROLLED_BACK_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    BURIED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    LAPSED_FIELD_NUMBER: _ClassVar[int]
    pushed: int
    popped: int
    reserved: int
    committed: int
    rolled_back: int
    moved: int
    buried: int
    cancelled: int
    expired: int
    lapsed: int
    def __init__(self, pushed: _Optional[int] = ..., popped: _Optional[int] = ..., reserved: _Optional[int] = ..., committed: _Optional[int] = ..., rolled_back: _Optional[int] = ..., moved: _Optional[int] = ..., buried: _Optional[int] = ..., cancelled: _Optional[int] = ..., expired: _Optional[int] = ..., lapsed: _Optional[int] = ...) -> None: ...

class Head(_message.Message):
    __slots__ = ("lane", "rank", "run_at", "due_in")
    LANE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    DUE_IN_FIELD_NUMBER: _ClassVar[int]
    lane: int
    rank: int
    run_at: int
    due_in: int
    def __init__(self, lane: _Optional[int] = ..., rank: _Optional[int] = ..., run_at: _Optional[int] = ..., due_in: _Optional[int] = ...) -> None: ...

class QueueStats(_message.Message):
    __slots__ = ("states", "totals", "next_due", "heads", "queue", "items", "chunks")
    STATES_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    NEXT_DUE_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    states: Sizes
    totals: Counts
    next_due: int
    heads: _containers.RepeatedCompositeFieldContainer[Head]
    queue: str
    items: Sizes
    chunks: int
    def __init__(self, states: _Optional[_Union[Sizes, _Mapping]] = ..., totals: _Optional[_Union[Counts, _Mapping]] = ..., next_due: _Optional[int] = ..., heads: _Optional[_Iterable[_Union[Head, _Mapping]]] = ..., queue: _Optional[str] = ..., items: _Optional[_Union[Sizes, _Mapping]] = ..., chunks: _Optional[int] = ...) -> None: ...

class StatsRequest(_message.Message):
    __slots__ = ("queues", "fields")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    fields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queues: _Optional[_Iterable[str]] = ..., fields: _Optional[_Iterable[str]] = ...) -> None: ...

class StatsReply(_message.Message):
    __slots__ = ("stats",)
    STATS_FIELD_NUMBER: _ClassVar[int]
    stats: _containers.RepeatedCompositeFieldContainer[QueueStats]
    def __init__(self, stats: _Optional[_Iterable[_Union[QueueStats, _Mapping]]] = ...) -> None: ...

class LaneDepthsRequest(_message.Message):
    __slots__ = ("queue", "lanes", "at_most")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_FIELD_NUMBER: _ClassVar[int]
    queue: str
    lanes: LaneList
    at_most: int
    def __init__(self, queue: _Optional[str] = ..., lanes: _Optional[_Union[LaneList, _Mapping]] = ..., at_most: _Optional[int] = ...) -> None: ...

class LaneDepthsReply(_message.Message):
    __slots__ = ("depths",)
    DEPTHS_FIELD_NUMBER: _ClassVar[int]
    depths: _containers.RepeatedCompositeFieldContainer[LaneDepth]
    def __init__(self, depths: _Optional[_Iterable[_Union[LaneDepth, _Mapping]]] = ...) -> None: ...

class LaneDepth(_message.Message):
    __slots__ = ("lane", "jobs")
    LANE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    lane: int
    jobs: int
    def __init__(self, lane: _Optional[int] = ..., jobs: _Optional[int] = ...) -> None: ...

class QueuesRequest(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: Names
    def __init__(self, names: _Optional[_Union[Names, _Mapping]] = ...) -> None: ...

class QueuesReply(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueSettings]
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueSettings, _Mapping]]] = ...) -> None: ...

class SemaphoresRequest(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: Names
    def __init__(self, names: _Optional[_Union[Names, _Mapping]] = ...) -> None: ...

class SemaphoresReply(_message.Message):
    __slots__ = ("semaphores",)
    SEMAPHORES_FIELD_NUMBER: _ClassVar[int]
    semaphores: _containers.RepeatedCompositeFieldContainer[Semaphore]
    def __init__(self, semaphores: _Optional[_Iterable[_Union[Semaphore, _Mapping]]] = ...) -> None: ...

class FlowNode(_message.Message):
    __slots__ = ("id", "root", "kind", "parent", "size", "closed", "ended", "state", "created_at", "finished_at", "on_failure", "definition")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    id: str
    root: str
    kind: str
    parent: str
    size: int
    closed: bool
    ended: int
    state: str
    created_at: int
    finished_at: int
    on_failure: str
    definition: str
    def __init__(self, id: _Optional[str] = ..., root: _Optional[str] = ..., kind: _Optional[str] = ..., parent: _Optional[str] = ..., size: _Optional[int] = ..., closed: _Optional[bool] = ..., ended: _Optional[int] = ..., state: _Optional[str] = ..., created_at: _Optional[int] = ..., finished_at: _Optional[int] = ..., on_failure: _Optional[str] = ..., definition: _Optional[str] = ...) -> None: ...

class MemberEnd(_message.Message):
    __slots__ = ("node", "index", "state", "job", "child", "result", "result_chunk")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    CHILD_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    node: str
    index: int
    state: str
    job: str
    child: str
    result: str
    result_chunk: bytes
    def __init__(self, node: _Optional[str] = ..., index: _Optional[int] = ..., state: _Optional[str] = ..., job: _Optional[str] = ..., child: _Optional[str] = ..., result: _Optional[str] = ..., result_chunk: _Optional[bytes] = ...) -> None: ...

class OpenFlow(_message.Message):
    __slots__ = ("nodes", "jobs")
    NODES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[FlowNode]
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    def __init__(self, nodes: _Optional[_Iterable[_Union[FlowNode, _Mapping]]] = ..., jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ...) -> None: ...

class ExtendFlow(_message.Message):
    __slots__ = ("node", "jobs", "opens", "once")
    NODE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    OPENS_FIELD_NUMBER: _ClassVar[int]
    ONCE_FIELD_NUMBER: _ClassVar[int]
    node: str
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    opens: OpenFlow
    once: str
    def __init__(self, node: _Optional[str] = ..., jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ..., opens: _Optional[_Union[OpenFlow, _Mapping]] = ..., once: _Optional[str] = ...) -> None: ...

class CloseFlow(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class StopFlow(_message.Message):
    __slots__ = ("root",)
    ROOT_FIELD_NUMBER: _ClassVar[int]
    root: str
    def __init__(self, root: _Optional[str] = ...) -> None: ...

class FlowChange(_message.Message):
    __slots__ = ("open", "extend", "close", "stop")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    open: OpenFlow
    extend: ExtendFlow
    close: CloseFlow
    stop: StopFlow
    def __init__(self, open: _Optional[_Union[OpenFlow, _Mapping]] = ..., extend: _Optional[_Union[ExtendFlow, _Mapping]] = ..., close: _Optional[_Union[CloseFlow, _Mapping]] = ..., stop: _Optional[_Union[StopFlow, _Mapping]] = ...) -> None: ...

class FlowNodesRequest(_message.Message):
    __slots__ = ("root",)
    ROOT_FIELD_NUMBER: _ClassVar[int]
    root: str
    def __init__(self, root: _Optional[str] = ...) -> None: ...

class FlowNodesReply(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[FlowNode]
    def __init__(self, nodes: _Optional[_Iterable[_Union[FlowNode, _Mapping]]] = ...) -> None: ...

class FlowEndsRequest(_message.Message):
    __slots__ = ("node", "after", "limit")
    NODE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    node: str
    after: int
    limit: int
    def __init__(self, node: _Optional[str] = ..., after: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class FlowEndsReply(_message.Message):
    __slots__ = ("ends",)
    ENDS_FIELD_NUMBER: _ClassVar[int]
    ends: _containers.RepeatedCompositeFieldContainer[MemberEnd]
    def __init__(self, ends: _Optional[_Iterable[_Union[MemberEnd, _Mapping]]] = ...) -> None: ...

class ChangeFlowsRequest(_message.Message):
    __slots__ = ("changes",)
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[FlowChange]
    def __init__(self, changes: _Optional[_Iterable[_Union[FlowChange, _Mapping]]] = ...) -> None: ...

class ChangeFlowsReply(_message.Message):
    __slots__ = ("done",)
    DONE_FIELD_NUMBER: _ClassVar[int]
    done: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, done: _Optional[_Iterable[bool]] = ...) -> None: ...

class LaneRange(_message.Message):
    __slots__ = ("queue", "first", "last")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    queue: str
    first: int
    last: int
    def __init__(self, queue: _Optional[str] = ..., first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class QueueTimes(_message.Message):
    __slots__ = ("queue", "band", "delays", "runs")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    DELAYS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    band: str
    delays: _containers.RepeatedScalarFieldContainer[int]
    runs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, queue: _Optional[str] = ..., band: _Optional[str] = ..., delays: _Optional[_Iterable[int]] = ..., runs: _Optional[_Iterable[int]] = ...) -> None: ...

class WorkerRow(_message.Message):
    __slots__ = ("id", "host", "pid", "queues", "threads", "heartbeat_us", "state", "started_at", "last_seen_at", "running", "began", "lanes", "order", "times")
    ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_US_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    id: str
    host: str
    pid: int
    queues: _containers.RepeatedScalarFieldContainer[str]
    threads: int
    heartbeat_us: int
    state: str
    started_at: int
    last_seen_at: int
    running: int
    began: Names
    lanes: _containers.RepeatedCompositeFieldContainer[LaneRange]
    order: str
    times: _containers.RepeatedCompositeFieldContainer[QueueTimes]
    def __init__(self, id: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., queues: _Optional[_Iterable[str]] = ..., threads: _Optional[int] = ..., heartbeat_us: _Optional[int] = ..., state: _Optional[str] = ..., started_at: _Optional[int] = ..., last_seen_at: _Optional[int] = ..., running: _Optional[int] = ..., began: _Optional[_Union[Names, _Mapping]] = ..., lanes: _Optional[_Iterable[_Union[LaneRange, _Mapping]]] = ..., order: _Optional[str] = ..., times: _Optional[_Iterable[_Union[QueueTimes, _Mapping]]] = ...) -> None: ...

class BeatRequest(_message.Message):
    __slots__ = ("workers",)
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerRow]
    def __init__(self, workers: _Optional[_Iterable[_Union[WorkerRow, _Mapping]]] = ...) -> None: ...

class BeatReply(_message.Message):
    __slots__ = ("live", "cancelled", "sharing")
    LIVE_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    SHARING_FIELD_NUMBER: _ClassVar[int]
    live: int
    cancelled: _containers.RepeatedScalarFieldContainer[str]
    sharing: int
    def __init__(self, live: _Optional[int] = ..., cancelled: _Optional[_Iterable[str]] = ..., sharing: _Optional[int] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("worker",)
    WORKER_FIELD_NUMBER: _ClassVar[int]
    worker: str
    def __init__(self, worker: _Optional[str] = ...) -> None: ...

class LeaveReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WorkersRequest(_message.Message):
    __slots__ = ("holders",)
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    holders: bool
    def __init__(self, holders: _Optional[bool] = ...) -> None: ...

class WorkersReply(_message.Message):
    __slots__ = ("workers",)
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerRow]
    def __init__(self, workers: _Optional[_Iterable[_Union[WorkerRow, _Mapping]]] = ...) -> None: ...

class Capabilities(_message.Message):
    __slots__ = ("name", "joins_transactions", "push_wakeup", "wakeup", "atomic_batches", "durable", "processes", "atomic_pushes", "extra", "arrow", "feed", "claims_by_id", "prepared_jobs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOINS_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    PUSH_WAKEUP_FIELD_NUMBER: _ClassVar[int]
    WAKEUP_FIELD_NUMBER: _ClassVar[int]
    ATOMIC_BATCHES_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    ATOMIC_PUSHES_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_BY_ID_FIELD_NUMBER: _ClassVar[int]
    PREPARED_JOBS_FIELD_NUMBER: _ClassVar[int]
    name: str
    joins_transactions: bool
    push_wakeup: bool
    wakeup: str
    atomic_batches: bool
    durable: str
    processes: bool
    atomic_pushes: bool
    extra: str
    arrow: bool
    feed: str
    claims_by_id: bool
    prepared_jobs: bool
    def __init__(self, name: _Optional[str] = ..., joins_transactions: _Optional[bool] = ..., push_wakeup: _Optional[bool] = ..., wakeup: _Optional[str] = ..., atomic_batches: _Optional[bool] = ..., durable: _Optional[str] = ..., processes: _Optional[bool] = ..., atomic_pushes: _Optional[bool] = ..., extra: _Optional[str] = ..., arrow: _Optional[bool] = ..., feed: _Optional[str] = ..., claims_by_id: _Optional[bool] = ..., prepared_jobs: _Optional[bool] = ...) -> None: ...

class CheckRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckReply(_message.Message):
    __slots__ = ("capabilities", "release")
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    capabilities: Capabilities
    release: str
    def __init__(self, capabilities: _Optional[_Union[Capabilities, _Mapping]] = ..., release: _Optional[str] = ...) -> None: ...

class NowRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NowReply(_message.Message):
    __slots__ = ("now",)
    NOW_FIELD_NUMBER: _ClassVar[int]
    now: int
    def __init__(self, now: _Optional[int] = ...) -> None: ...

class VersionedValue(_message.Message):
    __slots__ = ("name", "text", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    version: int
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class ValuesRequest(_message.Message):
    __slots__ = ("kind", "names")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    names: Names
    def __init__(self, kind: _Optional[str] = ..., names: _Optional[_Union[Names, _Mapping]] = ...) -> None: ...

class ValuesReply(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[VersionedValue]
    def __init__(self, values: _Optional[_Iterable[_Union[VersionedValue, _Mapping]]] = ...) -> None: ...

class CompareAndSetRequest(_message.Message):
    __slots__ = ("kind", "name", "text", "version")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    text: str
    version: int
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., text: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class CompareAndSetReply(_message.Message):
    __slots__ = ("written",)
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    written: bool
    def __init__(self, written: _Optional[bool] = ...) -> None: ...

class ValueChange(_message.Message):
    __slots__ = ("kind", "name", "text", "version")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    text: str
    version: int
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., text: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class FinishAll(_message.Message):
    __slots__ = ("queue", "token", "jobs", "ends")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    token: str
    jobs: int
    ends: _containers.RepeatedCompositeFieldContainer[Outcome]
    def __init__(self, queue: _Optional[str] = ..., token: _Optional[str] = ..., jobs: _Optional[int] = ..., ends: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ...) -> None: ...

class StagedAttempt(_message.Message):
    __slots__ = ("attempt", "jobs")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    jobs: int
    def __init__(self, attempt: _Optional[str] = ..., jobs: _Optional[int] = ...) -> None: ...

class Publication(_message.Message):
    __slots__ = ("write", "attempts", "value", "finish")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    write: str
    attempts: _containers.RepeatedCompositeFieldContainer[StagedAttempt]
    value: ValueChange
    finish: FinishAll
    def __init__(self, write: _Optional[str] = ..., attempts: _Optional[_Iterable[_Union[StagedAttempt, _Mapping]]] = ..., value: _Optional[_Union[ValueChange, _Mapping]] = ..., finish: _Optional[_Union[FinishAll, _Mapping]] = ...) -> None: ...

class StageRequest(_message.Message):
    __slots__ = ("write", "attempt", "jobs")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    write: str
    attempt: str
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    def __init__(self, write: _Optional[str] = ..., attempt: _Optional[str] = ..., jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ...) -> None: ...

class StageReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("publication",)
    PUBLICATION_FIELD_NUMBER: _ClassVar[int]
    publication: Publication
    def __init__(self, publication: _Optional[_Union[Publication, _Mapping]] = ...) -> None: ...

class PublishReply(_message.Message):
    __slots__ = ("published",)
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    published: bool
    def __init__(self, published: _Optional[bool] = ...) -> None: ...

class UnstageRequest(_message.Message):
    __slots__ = ("write",)
    WRITE_FIELD_NUMBER: _ClassVar[int]
    write: str
    def __init__(self, write: _Optional[str] = ...) -> None: ...

class UnstageReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConfigureRequest(_message.Message):
    __slots__ = ("queue", "changes", "fields")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    changes: QueueSettings
    fields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queue: _Optional[str] = ..., changes: _Optional[_Union[QueueSettings, _Mapping]] = ..., fields: _Optional[_Iterable[str]] = ...) -> None: ...

class ConfigureReply(_message.Message):
    __slots__ = ("settings",)
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: QueueSettings
    def __init__(self, settings: _Optional[_Union[QueueSettings, _Mapping]] = ...) -> None: ...

class DropQueueRequest(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class DropQueueReply(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    def __init__(self, jobs: _Optional[int] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ("states",)
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[JobState]
    def __init__(self, states: _Optional[_Iterable[_Union[JobState, str]]] = ...) -> None: ...

class RetryRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RetryReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedScalarFieldContainer[Redriven]
    def __init__(self, results: _Optional[_Iterable[_Union[Redriven, str]]] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("refs",)
    REFS_FIELD_NUMBER: _ClassVar[int]
    refs: _containers.RepeatedCompositeFieldContainer[JobRef]
    def __init__(self, refs: _Optional[_Iterable[_Union[JobRef, _Mapping]]] = ...) -> None: ...

class DeleteReply(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, deleted: _Optional[_Iterable[bool]] = ...) -> None: ...

class AdoptRequest(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, rows: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class AdoptReply(_message.Message):
    __slots__ = ("adopted",)
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    adopted: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, adopted: _Optional[_Iterable[bool]] = ...) -> None: ...

class MaintainRequest(_message.Message):
    __slots__ = ("time_us",)
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    time_us: int
    def __init__(self, time_us: _Optional[int] = ...) -> None: ...

class MaintainReply(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queues: _Optional[_Iterable[str]] = ...) -> None: ...

class RecoverRequest(_message.Message):
    __slots__ = ("limit", "as_of")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    limit: int
    as_of: int
    def __init__(self, limit: _Optional[int] = ..., as_of: _Optional[int] = ...) -> None: ...

class RecoverReply(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, rows: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class SetSemaphoreRequest(_message.Message):
    __slots__ = ("name", "capacity", "declared")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    name: str
    capacity: int
    declared: bool
    def __init__(self, name: _Optional[str] = ..., capacity: _Optional[int] = ..., declared: _Optional[bool] = ...) -> None: ...

class SetSemaphoreReply(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: _Optional[bool] = ...) -> None: ...

class SetupRequest(_message.Message):
    __slots__ = ("dry_run",)
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    def __init__(self, dry_run: _Optional[bool] = ...) -> None: ...

class SetupReply(_message.Message):
    __slots__ = ("steps",)
    STEPS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, steps: _Optional[_Iterable[str]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("type", "message", "details", "bases", "status")
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    BASES_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    details: _containers.MessageMap[str, Value]
    bases: _containers.RepeatedScalarFieldContainer[str]
    status: int
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., details: _Optional[_Mapping[str, Value]] = ..., bases: _Optional[_Iterable[str]] = ..., status: _Optional[int] = ...) -> None: ...
