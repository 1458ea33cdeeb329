"""Errors of Redis are told apart by their codes, in each form that a release gives them."""

import pytest
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from stanchion.stores.cas.faults import Fault
from stanchion.stores.redis.client.server import _fault

OLD = "Error running script (call to f_1): @user_script:12: -"


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ResponseError("MISCONF Redis is configured to save snapshots"), Fault.BUSY),
        (ResponseError("BUSY Redis is busy running a script"), Fault.BUSY),
        (ResponseError(f"{OLD}READONLY You can't write against a read only replica."), Fault.BUSY),
        (ResponseError(f"{OLD}OOM command not allowed"), Fault.HOPELESS),
        (OutOfMemoryError("command not allowed"), Fault.HOPELESS),
        (ResponseError("NOPERM ACL failure in script"), Fault.HOPELESS),
        (ResponseError(f"{OLD}The user executing the script can't run this command"), Fault.HOPELESS),
        (ResponseError("WRONGTYPE Operation: MISCONF, READONLY, OOM and NOPERM are only words"), Fault.OTHER),
        (Lost("Error 111: READONLY, name not known"), Fault.LOST),
    ],
)
def test_by_the_code(error: RedisError, fault: Fault) -> None:
    assert _fault(error) is fault
