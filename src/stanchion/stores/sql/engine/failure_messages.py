"""Messages of a store that can't be used: the cause, and what to do."""

from __future__ import annotations

from sqlalchemy import URL

from stanchion.stores.records import calls
from stanchion.stores.sql.engine.dialect import Dialect, Fault

_LOCKED = (
    "another transaction holds a lock that this call waits for: look for one that is open for long, end it or make it "
    "shorter, then try again"
)

_LIMIT = "; or raise the server's time limit of statements for this user, if it is short"
_STANDBY = (
    "this server is a standby, as during a failover, or an operator has set it so: wait until the failover is over, or "
    "give the address of the primary"
)

_SMALLER = "make the value smaller, or use only characters that the database's encoding has"


def reason_of(cause: BaseException, url: URL) -> str:
    """Return the driver's message, in one line and without the password."""
    reason = " ".join(str(cause).split())
    return reason.replace(str(url.password), "***") if url.password else reason


def message_of_failure(dialect: Dialect, url: URL, cause: BaseException, *, overdue: bool = False) -> str:
    """Return the message for a failed call; `overdue`: the call was cut off while the server worked on it."""
    shown, reason = url.render_as_string(hide_password=True), reason_of(cause, url)
    if dialect.is_forbidden(cause):
        return f"the store {shown} refuses this: {reason}; {dialect.rights}"
    if dialect.is_read_only(cause):
        return f"the store {shown} is read-only: {reason}; {_STANDBY}"
    if dialect.fault(cause) is Fault.DATA:
        advice = dialect.advice(cause)
        return f"the store {shown} can't hold a value: {reason}; {_SMALLER if advice == dialect.way_out else advice}"
    if overdue:
        return (
            f"the store {shown} did not answer in time: {_LOCKED}; or the network has gone silent; or there are more "
            f"jobs to read than it can in {calls.CALL_SECONDS:g} s: raise STANCHION_CALL_SECONDS"
        )
    if dialect.fault(cause) is Fault.BUSY:
        limit = _LIMIT if dialect.is_cancelled(cause) else ""
        return f"the store {shown} is busy: {reason}; {_LOCKED}{limit}"
    return f"can't reach the store {shown}: {reason}; {dialect.advice(cause)}"
