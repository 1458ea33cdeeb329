"""The settings of a manager's server, the address that it listens at, and its reasons to refuse a start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stanchion.core.urls import Listen, host_and_port, listening
from stanchion.errors import InvalidInput
from stanchion.manager.server.tokens import Tokens
from stanchion.stores.wire.transport import PORT


def listen_address(text: str) -> Listen:
    """Read `127.0.0.1:7117`, `[::1]:7117`, a host or a port alone. Raises InvalidInput."""
    found = listening(text, PORT)
    if found is None:
        raise InvalidInput(f"the address to listen at must be host:port, such as 127.0.0.1:{PORT}, not {text!r}")
    return found


def advertised_address(text: str) -> Listen:
    """Read the address by which clients reach a manager; without a port it is 0, the one that it listens at."""
    found = host_and_port(text)
    if found is None:
        raise InvalidInput(f"the address to advertise must be host or host:port, such as manager1:{PORT}, not {text!r}")
    host, port = found
    return Listen(host, port or 0)


class Tls(NamedTuple):
    """A certificate with its key, and the authority whose certificates callers must show; PEM, in memory."""

    certificate: bytes
    key: bytes
    callers_authority: bytes | None = None

    def __repr__(self) -> str:
        return f"Tls(mutual={self.callers_authority is not None})"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep the memory of a manager in bounds, whatever its callers do."""

    connections: int = 10_000
    calls: int = 1_000
    """Maximum calls under way, including calls that wait for a thread."""
    streams: int = 10_000
    """Callers that listen."""
    threads: int = 16
    """Maximum concurrent calls of the store."""
    reads: int = 64
    """Maximum requests being received concurrently, each up to the largest message."""
    read_seconds: float = 30.0
    """Time for a request to arrive."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where a manager listens, and who may call."""

    listen: Listen
    tokens: Tokens = field(default_factory=Tokens)
    tls: Tls | None = None
    limits: Limits = Limits()
    compress: bool = False
    advertise: Listen | None = None
    """The address that clients use for this manager, if not its listening address; port 0: the same port."""

    def check(self) -> None:
        """Raise InvalidInput for an address that others reach, if everybody could call there."""
        mutual = self.tls is not None and self.tls.callers_authority is not None
        if not self.listen.loopback and not self.tokens and not mutual:
            raise InvalidInput(
                f"{self.listen.text} can be reached from other machines, so callers must identify themselves: set "
                f"STANCHION_MANAGER_TOKEN or give --tokens FILE, and --tls-cert and --tls-key so that tokens are not "
                f"sent in the clear; or give --tls-client-ca for certificates of callers; or listen at 127.0.0.1"
            )


def tls_of(certificate: str | None, key: str | None, callers_authority: str | None) -> Tls | None:
    """Read certificates and keys from PEM files; None if none are given. Raises InvalidInput."""
    if certificate is None and key is None and callers_authority is None:
        return None
    if certificate is None or key is None:
        raise InvalidInput("TLS takes both --tls-cert and --tls-key: the certificate of this manager and its key")
    authority = None if callers_authority is None else _pem(callers_authority, "--tls-client-ca")
    return Tls(_pem(certificate, "--tls-cert"), _pem(key, "--tls-key"), authority)


def _pem(path: str, option: str) -> bytes:
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"can't read the file of {option}, {path}: {error.strerror}") from None
    if b"-----BEGIN " not in text:
        raise InvalidInput(f"the file of {option}, {path}, is not in PEM format")
    return text
