"""TLS and mutual TLS."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.manager.server.settings import ServerSettings, tls_of
from stanchion.manager.server.tokens import Tokens
from stanchion.stores.protocol import Store
from tests.manager.conftest import Start, secret, token
from tests.servers.authority import Authority, Pair
from tests.servers.manager import LOOPBACK

Client = Callable[[str], Store]


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
