"""Each behaviour of the proxy, with an echo server behind it."""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.servers.proxy import TcpProxy


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while data := self.rfile.readline():
            self.wfile.write(data)


class EchoServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: broken connections are the subject here."""


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    with EchoServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with TcpProxy("127.0.0.1", server.server_address[1]) as proxy:
            yield proxy
        server.shutdown()


def connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def echo(connection: socket.socket, line: bytes) -> bytes:
    connection.sendall(line)
    return connection.recv(100)


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_forwards_both_ways_and_counts(proxy: TcpProxy) -> None:
    with connect(proxy) as first, connect(proxy) as second:
        assert echo(first, b"one\n") == b"one\n"
        assert echo(second, b"two\n") == b"two\n"
        assert (proxy.accepted, proxy.active) == (2, 2)
    assert soon(lambda: proxy.active == 0)
    assert proxy.accepted == 2


def test_forwards_the_end_of_one_direction(proxy: TcpProxy) -> None:
    with connect(proxy) as connection:
        connection.sendall(b"last\n")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b"last\n"
        assert connection.recv(100) == b""


def test_forwards_more_than_the_buffers_hold(proxy: TcpProxy) -> None:
    line = b"x" * 5_000_000 + b"\n"
    with connect(proxy) as connection:
        threading.Thread(target=connection.sendall, args=(line,)).start()
        received = 0
        while received < len(line):
            received += len(connection.recv(1 << 16))
    assert received == len(line)


def test_drop_closes_and_refuses(proxy: TcpProxy) -> None:
    with connect(proxy) as connection:
        assert echo(connection, b"one\n") == b"one\n"
        proxy.drop()
        assert connection.recv(100) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    assert proxy.active == 0


def test_passes_through_again_on_the_same_port(proxy: TcpProxy) -> None:
    port = proxy.port
    proxy.drop()
    proxy.pass_through()
    assert proxy.port == port
    with connect(proxy) as connection:
        assert echo(connection, b"one\n") == b"one\n"


def test_black_hole_accepts_and_keeps_silent(proxy: TcpProxy) -> None:
    with connect(proxy) as old:
        assert echo(old, b"one\n") == b"one\n"
        proxy.black_hole()
        with connect(proxy) as new:
            for connection in (old, new):
                connection.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    echo(connection, b"lost\n")
            assert soon(lambda: proxy.active == 2)


def test_what_a_black_hole_withheld_flows_later(proxy: TcpProxy) -> None:
    proxy.black_hole()
    with connect(proxy) as connection:
        connection.sendall(b"late\n")
        proxy.pass_through()
        assert connection.recv(100) == b"late\n"


def test_a_black_hole_hides_the_end_of_a_connection(proxy: TcpProxy) -> None:
    connection = connect(proxy)
    assert echo(connection, b"one\n") == b"one\n"
    proxy.black_hole()
    connection.close()
    time.sleep(0.2)
    assert proxy.active == 1
    proxy.pass_through()
    assert soon(lambda: proxy.active == 0)


def test_reset_is_seen_as_a_reset(proxy: TcpProxy) -> None:
    with connect(proxy) as connection:
        assert echo(connection, b"one\n") == b"one\n"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            connection.recv(100)
    with connect(proxy) as connection:
        assert echo(connection, b"two\n") == b"two\n"


def test_reset_inside_a_black_hole(proxy: TcpProxy) -> None:
    with connect(proxy) as connection:
        assert echo(connection, b"one\n") == b"one\n"
        proxy.black_hole()
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            connection.recv(100)
        assert proxy.active == 0


def test_an_unreachable_target_ends_the_connection() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with TcpProxy("127.0.0.1", unused.getsockname()[1]) as proxy, connect(proxy) as connection:
            assert connection.recv(100) == b""


def test_closing_twice_is_harmless(proxy: TcpProxy) -> None:
    proxy.close()
    proxy.close()
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
