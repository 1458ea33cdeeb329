"""Errors, as MongoDB numbers them."""

from typing import Any

DUPLICATE_KEY = 11000
WRITE_CONFLICT = 112

NAMES = {
    1: "InternalError",
    2: "BadValue",
    8: "UnknownError",
    9: "FailedToParse",
    14: "TypeMismatch",
    20: "IllegalOperation",
    26: "NamespaceNotFound",
    27: "IndexNotFound",
    43: "CursorNotFound",
    48: "NamespaceExists",
    50: "MaxTimeMSExpired",
    59: "CommandNotFound",
    66: "ImmutableField",
    67: "CannotCreateIndex",
    72: "InvalidOptions",
    73: "InvalidNamespace",
    85: "IndexOptionsConflict",
    86: "IndexKeySpecsConflict",
    WRITE_CONFLICT: "WriteConflict",
    115: "CommandNotSupported",
    121: "DocumentValidationFailure",
    136: "CappedPositionLost",
    175: "QueryPlanKilled",
    225: "TransactionTooOld",
    237: "CursorKilled",
    251: "NoSuchTransaction",
    256: "TransactionCommitted",
    263: "OperationNotSupportedInTransaction",
    10334: "BSONObjectTooLarge",
    DUPLICATE_KEY: "DuplicateKey",
    40324: "UnrecognizedCommand",
}

# The extension's own states, and PostgreSQL's that a client meets; all others are UnknownError.
CODES = {
    "M0000": 1,
    "M0001": 2,
    "M0003": 9,
    "M0004": 14,
    "M0006": 20,
    "M0008": 26,
    "M0009": 27,
    "M000E": 43,
    "M000F": 48,
    "M000M": 66,
    "M000N": 67,
    "M000P": 72,
    "M000Q": 73,
    "M000R": 85,
    "M000S": 86,
    "M000U": 115,
    "M00CO": 121,
    "M001B": 10334,
    "M001C": DUPLICATE_KEY,
    "M007U": 40324,
    "25P03": 251,
    "23505": DUPLICATE_KEY,
    "23P01": DUPLICATE_KEY,
    "40001": WRITE_CONFLICT,
    "40P01": WRITE_CONFLICT,
    "55P03": WRITE_CONFLICT,
    "57014": 50,
}

TRANSIENT_IN_TRANSACTION = {WRITE_CONFLICT, 251}


class CommandError(Exception):
    """The answer to a command that failed."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    def answer(self, *, in_transaction: bool) -> dict[str, Any]:
        """Return the document for the client."""
        document = {"ok": 0.0, "errmsg": str(self), "code": self.code, "codeName": name_of(self.code)}
        if in_transaction and self.code in TRANSIENT_IN_TRANSACTION:
            document["errorLabels"] = ["TransientTransactionError"]
        return document


class BackendLost(Exception):
    """PostgreSQL went away; the client must see its connection cut."""


def name_of(code: int) -> str:
    """Return the name that MongoDB gives the code."""
    return NAMES.get(code, f"Location{code}")


def code_of(sqlstate: str) -> int:
    """Return the code for an error of PostgreSQL or of the extension."""
    return CODES.get(sqlstate, 8)


def unpacked(number: int) -> str:
    """Return the state that the extension reports as a number: five characters of six bits."""
    return "".join(chr((number >> shift & 0x3F) + ord("0")) for shift in range(0, 30, 6))
