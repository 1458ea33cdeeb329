"""What an error of a member that is not the primary tells."""

import pytest
from pymongo.errors import NotPrimaryError, OperationFailure, PyMongoError

from stanchion.stores.mongo.client.errors import way_out


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (NotPrimaryError("not primary"), True),
        (OperationFailure("stepped down", 189), True),
        (OperationFailure("not writable", 10107), True),
        (OperationFailure("the words: read-only, not primary", 6), False),
    ],
)
def test_it_is_named_as_such(error: PyMongoError, named: bool) -> None:
    assert ("this member is read-only" in way_out(error)) == named
