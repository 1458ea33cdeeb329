"""A private Redis master with a replica, and sentinels that watch them."""

from contextlib import ExitStack
from typing import Self

from redis import Redis
from redis.exceptions import ConnectionError, ResponseError

from tests.crash.scene import until
from tests.servers.redis import RedisServer

SERVICE = "jobs"
PASSWORD = "se/cr:et@1"
SENTINELS_PASSWORD = "wa/tch:er@2"
VOTES = 2

SOON = {"down-after-milliseconds": "500", "failover-timeout": "3000", "parallel-syncs": "1"}


class WatchedRedis:
    """Two servers and three sentinels on free loopback ports; each has its password."""

    def __init__(self) -> None:
        login = {"masterauth": PASSWORD, "repl-diskless-sync-delay": "0"}
        self.servers = [RedisServer(password=PASSWORD, settings=login) for _ in range(2)]
        self.sentinels = [_Sentinel() for _ in range(3)]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as started:
            for server in (*self.servers, *self.sentinels):
                started.enter_context(server)
            master, replica = self.servers
            with replica.client() as client:
                client.replicaof("127.0.0.1", master.port)
                until(lambda: client.info("replication")["master_link_status"] == "up", 120, "the replica follows")
            for sentinel in self.sentinels:
                sentinel.watch(master)
            until(lambda: all(sentinel.knows_all() for sentinel in self.sentinels), 120, "the sentinels know all")
            self._stack = started.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def url(self, database: int = 0) -> str:
        """Return the address, as the sentinels give it."""
        of_one = self.sentinels[0].url().rpartition("@")
        login = self.servers[0].url().partition("://")[2].rpartition("@")[0]
        watcher = of_one[0].rpartition(":")[2]
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{login}@{hosts}/{SERVICE}?db={database}&sentinel_password={watcher}"

    def master(self) -> RedisServer:
        """Return the server that is the master by what the sentinels say."""
        port = self.sentinels[-1].master_port()
        return next(server for server in self.servers if server.port == port)

    def hand_over(self) -> None:
        """Have the master and the replica change places, both alive."""
        before = self.master()
        until(lambda: self.sentinels[0].knows_all(), 120, "the sentinels know the other server")
        (other,) = (server for server in self.servers if server is not before)
        until(lambda: follows(other), 120, "the other server has the data of the master")
        with self.sentinels[0].client() as client:
            until(lambda: _begun(client), 60, "the sentinels see a replica that can take over")
        self.await_failover(before)

    def await_failover(self, before: RedisServer) -> None:
        """Wait until the other server is the master, and knows it."""
        until(lambda: self.master() is not before, 60, "the sentinels have elected another master")
        with self.master().client() as client:
            until(lambda: client.info("replication")["role"] == "master", 120, "it has taken over")


class _Sentinel(RedisServer):
    """One sentinel."""

    program_options = ("--sentinel",)

    def __init__(self) -> None:
        super().__init__(password=SENTINELS_PASSWORD)
        self._settings = {name: self._settings[name] for name in ("bind", "port", "requirepass")}
        self._settings["sentinel sentinel-pass"] = SENTINELS_PASSWORD

    def watch(self, master: RedisServer) -> None:
        with self.client() as client:
            client.sentinel_monitor(SERVICE, "127.0.0.1", master.port, VOTES)
            for name, value in {**SOON, "auth-pass": PASSWORD}.items():
                client.sentinel_set(SERVICE, name, value)

    def knows_all(self) -> bool:
        with self.client() as client:
            state = client.sentinel_master(SERVICE)
            return (state["num-other-sentinels"], state["num-slaves"]) == (2, 1)

    def master_port(self) -> int:
        with self.client() as client:
            return int(client.sentinel_get_master_addr_by_name(SERVICE)[1])

    def client(self, database: int = 0) -> Redis:  # noqa: ARG002 - it has none
        return Redis(port=self.port, password=self.password, decode_responses=True)


def follows(server: RedisServer) -> bool:
    """Return whether a server is a replica that has the data of its master."""
    try:
        with server.client() as client:
            state = client.info("replication")
    except ConnectionError:  # it drops its clients when it changes its role
        return False
    return bool(state["role"] == "slave" and state["master_link_status"] == "up")


def _begun(client: Redis) -> bool:
    try:
        return bool(client.execute_command("SENTINEL", "FAILOVER", SERVICE))
    except ResponseError:  # no replica is fit for it yet
        return False
