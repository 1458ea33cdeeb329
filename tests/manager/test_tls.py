"""TLS and mutual TLS."""

import datetime
import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.manager.server.settings import ServerSettings, tls_of
from stanchion.manager.server.tokens import Tokens
from stanchion.stores.protocol import Store
from tests.manager.conftest import Start, secret, token
from tests.servers.manager import LOOPBACK

Client = Callable[[str], Store]


class Pair(NamedTuple):
    """A certificate and its key, in files."""

    cert: str
    key: str


class Authority:
    """Issues certificates into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))
        self.file = str(self._written(f"{name}.pem", certificate))

    def pair(self, name: str) -> Pair:
        """Issue a certificate for a host or a caller."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        hosts = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        cert = self._written(f"{name}.pem", self._signed(subject, key, hosts))
        private = self._folder / f"{name}.key"
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return Pair(str(cert), str(private))

    def _written(self, name: str, certificate: x509.Certificate) -> Path:
        path = self._folder / name
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def _signed(self, subject: x509.Name, key: Any, extension: Any) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
def own(authority: Authority) -> Pair:
    return authority.pair("manager")


@pytest.mark.usefixtures("short_calls")
def test_tls(start: Start, client: Client, authority: Authority, own: Pair) -> None:
    manager = start(ServerSettings(LOOPBACK, Tokens([token("shop")]), tls_of(*own, None)))
    known = f"token={secret('shop')}"
    assert client(f"{manager.url}?{known}&ca={authority.file}").now() > 0
    assert client(
        f"grpcs://localhost:{manager.address.rpartition(':')[2]}?{known}&ca={authority.file}&name=manager"
    ).now()
    for wrong in (f"{manager.url}?{known}", manager.url.replace("grpcs", "grpc") + f"?{known}"):
        with pytest.raises(StoreUnavailable):
            client(wrong).now()
    with pytest.raises(StoreUnavailable, match="token"):
        client(f"{manager.url}?ca={authority.file}").now()


@pytest.mark.usefixtures("short_calls")
def test_mutual_tls(start: Start, client: Client, authority: Authority, own: Pair, tmp_path: Path) -> None:
    manager = start(ServerSettings(LOOPBACK, tls=tls_of(*own, authority.file)))
    caller = authority.pair("worker-1")
    assert client(f"{manager.url}?ca={authority.file}&cert={caller.cert}&key={caller.key}").now() > 0
    (tmp_path / "others").mkdir()
    foreign = Authority(tmp_path / "others", "foreign").pair("worker-1")
    for wrong in ("", f"&cert={foreign.cert}&key={foreign.key}"):
        with pytest.raises(StoreUnavailable):
            client(f"{manager.url}?ca={authority.file}{wrong}").now()


def test_wrong_files(authority: Authority, own: Pair, tmp_path: Path, client: Client, start: Start) -> None:
    assert tls_of(None, None, None) is None
    for given in ((own.cert, None, None), (None, own.key, None), (None, None, authority.file)):
        with pytest.raises(InvalidInput, match="--tls-cert and --tls-key"):
            tls_of(*given)
    with pytest.raises(InvalidInput, match="can't read"):
        tls_of(own.cert, str(tmp_path / "none"), None)
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(InvalidInput, match="PEM"):
        tls_of(str(empty), own.key, None)
    with pytest.raises(InvalidInput, match="can't read"):
        client(f"grpcs://127.0.0.1:1?ca={tmp_path}/none").now()
    with pytest.raises(InvalidInput, match="does not fit its key"):
        start(ServerSettings(LOOPBACK, tls=tls_of(own.cert, authority.pair("other").key, None)))
    assert "BEGIN" not in repr(tls_of(*own, authority.file))
