"""Parses the URL of managers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl

from stanchion.core.checks import refuse_unknown
from stanchion.core.urls import host_and_port, joined, split_with_hosts
from stanchion.errors import InvalidInput
from stanchion.stores.wire.transport import PORT, TOKEN_VARIABLE

_EXAMPLE = "grpc://host1,host2:7117 or grpcs://host?ca=ca.pem"
_OPTIONS = ("token", "ca", "cert", "key", "name", "compression")


class Address(NamedTuple):
    """Some managers of one store, and how to call them. `shown` is the URL without its options."""

    hosts: tuple[str, ...]
    shown: str
    secure: bool
    token: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    name: str | None = None
    compress: bool = False

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"

    def without_token(self, text: str) -> str:
        """Return the text with the token hidden."""
        return text.replace(self.token, "***") if self.token else text


def address_of(url: str) -> Address:
    """Read `grpc://host1:7117,host2?token=...`, or `grpcs://` for TLS.

    `ca`: a PEM file with the authority of the managers' certificates; by default the system's. `cert`, `key`:
    PEM files with a certificate of the caller. `name`: the name in the managers' certificate, if it is not the host's.
    `compression=gzip`. Without `token` it is STANCHION_MANAGER_TOKEN, if that is set.
    """
    try:
        parts = split_with_hosts(url)
    except ValueError:
        raise InvalidInput(f"the URL of a manager is not valid; write {_EXAMPLE}") from None
    hosts = tuple(_host(text) for text in parts.netloc.split(",")) if parts.netloc else ()
    if parts.scheme not in ("grpc", "grpcs") or not hosts:
        raise InvalidInput(f"the URL names no manager; write {_EXAMPLE}")
    if parts.path.strip("/"):
        raise InvalidInput(f"the URL of a manager names no database, as the manager knows it; write {_EXAMPLE}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    refuse_unknown(options, _OPTIONS, "option of a manager's URL")
    secure, compression = parts.scheme == "grpcs", options.pop("compression", "none")
    if not secure and {"ca", "cert", "key", "name"} & options.keys():
        raise InvalidInput("ca, cert, key and name are for TLS; begin the URL with grpcs://")
    if ("cert" in options) != ("key" in options):
        raise InvalidInput("give both cert and key, the files with this caller's certificate and its key")
    if compression not in ("gzip", "none"):
        raise InvalidInput(f"compression is gzip or none, not {compression!r}")
    token = options.pop("token", None) or os.environ.get(TOKEN_VARIABLE) or None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise InvalidInput("a token is of printable ASCII characters; others can't be sent")
    shown = f"{parts.scheme}://{','.join(hosts)}"
    return Address(hosts, shown, secure, token, compress=compression == "gzip", **options)


def contents_of(path: str | None, option: str) -> bytes | None:
    """Return the content of an option's file. Raises InvalidInput."""
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"can't read the file {path} that {option}= names: {error.strerror}") from None


def _host(text: str) -> str:
    found = host_and_port(text)
    if found is None:
        raise InvalidInput(f"a host of a manager is host or host:port; write {_EXAMPLE}, and the token as ?token=...")
    host, port = found
    return joined(host, port or PORT)
