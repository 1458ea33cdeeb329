"""Who may call: tokens, roles, queues; and what a manager refuses to start with."""

import hashlib
import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from stanchion import JobState, Stanchion
from stanchion.context.upkeep_lease import KIND, NAME, UpkeepLease, holding_in
from stanchion.core.ids import new_id
from stanchion.core.urls import Listen
from stanchion.errors import InvalidInput, NotPermitted, PayloadMisfit, StoreUnavailable
from stanchion.manager.server.settings import ServerSettings, Tls, listen_address
from stanchion.manager.server.tokens import Caller, Role, Tokens, token_of, tokens_in
from stanchion.manager.service.manager import StoreHost
from stanchion.pipelines.record import recorded
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import FlowNode, OpenFlow
from stanchion.stores.records.jobs import JobRef
from stanchion.stores.records.outcomes import Commit, Continue, Move, Pass, Passage, Tally
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange
from stanchion.stores.registry import shown_url
from stanchion.stores.rules.flows import failure_text
from stanchion.worker.reaper import Reaper
from stanchion_conformance.harness import claim, new_job, worker
from tests.manager.conftest import Start, ask, limited, secret, token
from tests.worker.conftest import until, working

Client = Callable[[str], Store]

QUICK = 0.01
"""Seconds between rounds of the upkeep."""


def url_of(manager: object, name: str) -> str:
    return f"{manager.url}?token={secret(name)}"  # type: ignore[attr-defined]


class TestKnown:
    def test_with_the_token_only(self, start: Start, client: Client) -> None:
        manager = start(limited(token("shop")))
        assert client(url_of(manager, "shop")).now() > 0
        for wrong in ("", f"?token={secret('shoq')}", f"?token={secret('shop')}x"):
            with pytest.raises(StoreUnavailable, match="token") as caught:
                client(f"{manager.url}{wrong}").now()
            assert caught.value.lasting
            assert secret("shop") not in str(caught.value)

    def test_from_the_environment(self, start: Start, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        manager = start(limited(token("shop")))
        monkeypatch.setenv("STANCHION_MANAGER_TOKEN", secret("shop"))
        assert client(manager.url).now() > 0

    @pytest.mark.parametrize("given", ["Basic x", "Bearer", "Bearer ", "bearer wrong-wrong-wrong", ""])
    def test_nothing_else_will_do(self, start: Start, given: str) -> None:
        manager = start(limited(token("shop")))
        with grpc.insecure_channel(manager.address) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                ask(channel, "Query.Now", metadata=(("authorization", given),))
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert ask(channel, "Query.Now", metadata=(("authorization", f"bearer {secret('shop')}"),))

    def test_streams_too(self, start: Start, client: Client) -> None:
        manager = start(limited(token("shop"), token("mail", "receive", ("mail",))))
        assert client(url_of(manager, "shop")).listen(["orders"]).connected
        assert not client(f"{manager.url}?token=wrong-wrong-wrong-wrong").listen(["orders"]).connected
        assert not client(url_of(manager, "mail")).listen(["orders"]).connected
        assert client(url_of(manager, "mail")).listen(["mail"]).connected

    def test_is_never_shown(
        self, start: Start, client: Client, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
    ) -> None:
        caplog.set_level(logging.DEBUG)
        known = token("shop", "push", ("orders",))
        manager = start(limited(known))
        url = url_of(manager, "shop")
        store, wrong = client(url), client(f"{manager.url}?token={secret('nobody')}")
        texts = [shown_url(url), repr(Stanchion(url)), repr(known), repr(limited(known)), repr(store)]
        for refused in (lambda: store.drop_queue("orders"), lambda: store.push([new_job(queue="x")]), wrong.now):
            with pytest.raises((NotPermitted, StoreUnavailable)) as caught:
                refused()
            texts.append(str(caught.value))
        wrong.listen(["orders"])
        digest = hashlib.sha256(secret("shop").encode()).hexdigest()
        for text in (*texts, caplog.text, *capsys.readouterr()):
            assert not any(one in text for one in (secret("shop"), secret("nobody"), digest)), text


class TestRoles:
    def test_push(self, start: Start, client: Client) -> None:
        store = client(url_of(start(limited(token("shop", "push"))), "shop"))
        store.push([new_job()])
        assert store.compare_and_set("write", "x", "1", 0)
        assert store.stats(["orders"], ["states"])["orders"].states.ready == 1
        for refused in (
            lambda: claim(store),
            lambda: store.push([new_job()], claim=Claim("orders", 1, "t", ids=((new_id(), "w"),))),
            lambda: store.settle([]),
            lambda: store.beat([worker("w")]),
            lambda: store.recover(),
            lambda: store.configure("orders", {"paused": True}),
            lambda: store.cancel(["x"]),
            lambda: store.compare_and_set("topic", "x", "1", 0),
        ):
            with pytest.raises(NotPermitted, match="shop"):
                refused()

    def test_receive(self, start: Start, client: Client) -> None:
        manager = start(limited(token("work", "receive"), token("shop", "push")))
        client(url_of(manager, "shop")).push([new_job()])
        store = client(url_of(manager, "work"))
        store.beat([worker("w")])
        (row,) = claim(store, worker="w")
        assert store.settle([Commit(row.lease)]) == ["done"]
        assert store.compare_and_set("output", "orders 17", "1", 0)
        assert store.compare_and_set("spark-rounds", "orders", "{}", 0)
        store.maintain(0.1)
        for refused in (
            lambda: store.push([new_job()]),
            lambda: store.publish(Publication("w")),
            lambda: store.set_semaphore("s", 1),
            lambda: store.delete([JobRef("x")]),
            lambda: store.adopt([]),
            lambda: store.drop_queue("orders"),
            lambda: store.compare_and_set(KIND, NAME, "{}", 0),
        ):
            with pytest.raises(NotPermitted, match="takes the role"):
                refused()

    def test_a_worker_leaves_the_upkeep_to_the_managers(
        self, start: Start, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        url = url_of(start(limited(token("work", "receive"))), "work")
        store = client(url)
        lease = UpkeepLease(QUICK, 1.0)  # of more use than the manager's, which is slower
        for _ in range(3):
            assert lease.take(store, steady=True) is None
            assert not lease.is_held
        reaper = Reaper(StoreHost(store), QUICK, steady=lambda: True)
        for _ in range(3):
            reaper.round()
        assert "failed" not in caplog.text
        holders = [holding_in(value.text) for value in store.values(KIND, [NAME])]
        assert all(one is not None and one.every != QUICK for one in holders)

    def test_a_publication_takes_the_roles_of_all_that_it_does(self, start: Start, client: Client) -> None:
        manager = start(limited(token("work", "receive"), token("shop", "push")))
        shop = client(url_of(manager, "shop"))
        shop.push([new_job()])
        (row,) = claim(client(url_of(manager, "work")))
        assert row.token is not None
        for refused in (
            Publication("w", value=ValueChange("partitions", "orders", "{}", 0)),
            Publication("w", value=ValueChange("stream", "s", "{}", 0)),
            *(
                Publication("w", value=ValueChange(kind, "x", "{}", 0))
                for kind in ("web-audit", "web-bulk", "web-settings", "web-secret", "web-push")
            ),
            *(
                Publication("w", value=ValueChange(kind, "x", "{}", 0))
                for kind in ("on-it", "alerts", "pipeline", "a kind of later")
            ),
            Publication("w", finish=Finish("orders", row.token, 1)),
        ):
            with pytest.raises(NotPermitted, match="takes the role"):
                shop.publish(refused)
        assert shop.publish(Publication("w", value=ValueChange("write", "x", "{}", 0)))
        assert shop.fetch([row.id])[row.id].state == "running"

    def test_a_batch_ends_in_queues_of_the_caller_alone(self, start: Start, client: Client) -> None:
        manager = start(limited(token("etl", "push receive", ("orders",))))
        etl = client(url_of(manager, "etl"))
        etl.push([new_job()])
        (row,) = claim(etl)
        for elsewhere in (new_job(queue="secret"), new_job(dead_from="secret", attempts=1)):
            end = Commit(row.lease, jobs=(elsewhere,))
            with pytest.raises(NotPermitted, match="may not use queue 'secret'"):
                etl.publish(Publication("w", finish=Finish("orders", row.token or "", 1, (end,))))
        assert etl.fetch([row.id])[row.id].state == "running"

    def test_admin_may_all_but_what_is_the_managers(self, start: Start, client: Client) -> None:
        store = client(url_of(start(limited(token("root", "admin"))), "root"))
        job = new_job()
        store.push([job])
        assert len(claim(store)) == 1
        store.configure("orders", {"paused": True})
        for kind in ("manager.session", "manager.slice"):
            with pytest.raises(NotPermitted, match="managers' own"):
                store.compare_and_set(kind, "x", "1", 0)
            with pytest.raises(NotPermitted, match="managers' own"):
                store.compare_and_set(kind, "x", None, 0)
            with pytest.raises(NotPermitted, match="managers' own"):
                store.publish(Publication("w", value=ValueChange(kind, "x", "1", 0)))

    @pytest.mark.parametrize("queues", [None, ("etl.*",)])
    def test_who_pushes_into_a_pipeline_works_without_a_record_of_it(
        self, start: Start, client: Client, queues: tuple[str, ...] | None
    ) -> None:
        manager = start(limited(token("root"), token("shop", "push", queues)))
        shop = Stanchion(store=client(url_of(manager, "shop")))
        root = Stanchion(store=client(url_of(manager, "root")))
        etl = []
        for app in (shop, root):
            etl.append(app.pipeline("etl"))
            etl[-1].station("load")(len)
        root.setup()  # stores the settings of its queues, and the stations
        (stored,) = root.store.values("pipeline")
        assert root.store.compare_and_set("pipeline", "etl", None, stored.version)
        etl[0].push("x", "load")
        etl[0].push("y", "load")
        assert recorded(root.store) == []
        assert root.queue("etl.load").size().ready == 2


def failing_into(queue: str) -> FlowNode:
    """Return a node of a flow whose failure stores a job in this queue."""
    node = new_id()
    return FlowNode(node, node, on_failure=failure_text(new_job(queue=queue)))


def test_a_job_that_its_worker_may_not_let_go_on_elsewhere_is_dead(start: Start) -> None:
    """A retry would be refused in the same way; outcomes of other jobs are stored."""
    manager = start(limited(token("root"), token("mail", "receive", ("mail",))))
    with closing(Stanchion(url_of(manager, "root"))) as root, closing(Stanchion(url_of(manager, "mail"))) as mail:
        order = mail.task(name="order", queue="orders")(len)

        @mail.task(name="sort", queue="mail")
        def sort(text: str) -> Any:
            return order.s(text) if text else None

        refused, *others = [root.enqueue("sort", text, queue="mail") for text in ("order", "", "")]
        with working(mail, ["mail"]):
            until(lambda: {handle.state for handle in others} == {JobState.DONE})
            until(lambda: refused.state is JobState.DEAD)
        job = refused.job()
        assert job.attempts == 1
        assert "the outcome can't be stored: the token of mail" in job.errors[-1]["error"]


class TestQueues:
    @pytest.fixture
    def root(self, start: Start, client: Client) -> Store:
        self.manager = start(limited(token("root"), token("mail", "push receive admin", ("mail", "mail.*"))))
        return client(url_of(self.manager, "root"))

    @pytest.fixture
    def mail(self, root: Store, client: Client) -> Store:
        root.push([new_job(queue="orders"), new_job(queue="mail")])
        return client(url_of(self.manager, "mail"))

    def test_its_own(self, mail: Store) -> None:
        mail.configure("mail", {"partitioned": True})
        mail.push([new_job(queue="mail.fast"), new_job(queue="mail#3")])
        (row,) = claim(mail, queue="mail")
        assert mail.settle([Move(row.lease, "mail.slow")]) == ["ready"]
        assert mail.stats(["mail", "mail.slow"], ["states"])["mail.slow"].states.ready == 1
        mail.configure("mail", {"paused": True})
        assert mail.lane_depths("mail") == {}
        assert mail.compare_and_set("output", "mail 17", "{}", 0)

    def test_no_others(self, mail: Store, root: Store) -> None:
        (mine,) = claim(mail, queue="mail")
        (other,) = claim(root, queue="orders")
        part, other_part = new_job(queue="mail"), new_job(queue="orders")
        for refused in (
            lambda: mail.push([new_job(queue="mail"), new_job(queue="orders")]),
            lambda: mail.push([new_job(queue="mailbox")]),
            lambda: claim(mail, queue="orders"),
            lambda: mail.settle([Commit(other.lease)]),
            lambda: mail.settle([Move(mine.lease, "orders")]),
            lambda: mail.settle([Commit(mine.lease, jobs=(new_job(queue="orders"),))]),
            lambda: mail.settle([Continue(mine.lease, new_job(queue="mail"), nodes=(failing_into("orders"),))]),
            lambda: mail.push([new_job(queue="mail", dead_from="orders")]),
            lambda: mail.settle([Commit(mine.lease, jobs=(part,), tallies=(Tally("orders", "moved", 1),))]),
            lambda: mail.settle([Pass(mine.lease, (Passage("orders"), Passage("mail")), Commit(mine.lease))]),
            lambda: mail.settle([Pass(mine.lease, (Passage("mail"),), Move(mine.lease, "orders"))]),
            lambda: mail.settle([Pass(mine.lease, (Passage("mail"),), Commit(mine.lease, jobs=(other_part,)))]),
            lambda: mail.settle([Pass(mine.lease, (Passage("mail"),), Continue(mine.lease, new_job(queue="orders")))]),
            lambda: mail.change_flows([OpenFlow([failing_into("orders")], [new_job(queue="mail")])]),
            lambda: mail.stage("write", "attempt", [new_job(queue="orders")]),
            lambda: mail.adopt([other._replace(state="queued")]),
            lambda: mail.stats(["mail", "orders"], ["states"]),
            lambda: mail.lane_depths("orders"),
            lambda: mail.configure("orders", {"paused": True}),
            lambda: mail.configure("mail", {"dead_letter": "orders"}),
            lambda: mail.drop_queue("orders"),
            lambda: mail.cancel([mine.id, other.id]),
            lambda: mail.retry([other.id]),
            lambda: mail.delete([other.ref]),
            lambda: mail.select(Query()),
            lambda: mail.select(Query(where=(Condition("queue", "in", ("mail", "orders")),))),
            lambda: mail.select(Query(where=(Condition("queue", ">", "mail"),))),
            lambda: mail.partition(Query(), 2),
            lambda: mail.flow_nodes("x"),
            lambda: mail.set_semaphore("s", 1),
            lambda: mail.compare_and_set("partitions", "orders", "{}", 0),
            lambda: mail.compare_and_set("output", "orders 17", "{}", 0),
            lambda: mail.publish(Publication("w", value=ValueChange("partitions", "orders", "{}", 0))),
        ):
            with pytest.raises(NotPermitted, match="mail"):
                refused()
        assert root.fetch([other.id])[other.id] == other
        assert root.stats(["orders"], ["states"])["orders"].states.total == 1

    def test_others_are_left_out_of_answers(self, mail: Store, root: Store) -> None:
        (mine,) = claim(mail, queue="mail")
        (other,) = claim(root, queue="orders", worker="gone")
        assert list(mail.fetch([mine.id, other.id])) == [mine.id]
        assert [one.name for one in mail.queues()] == ["mail"]
        for kind, name in (("partitions", "orders"), ("partitions", "mail"), ("schedule", "x"), ("topic", "t")):
            root.compare_and_set(kind, name, "{}", 0)
        mail.compare_and_set("spark-rounds", "mail", "{}", 0)
        for queue in ("orders", "mail"):
            root.compare_and_set("output", f"{queue} 17", "{}", 0)
        assert [one.name for one in mail.values("output")] == ["mail 17"]
        assert [one.name for one in mail.values("partitions")] == ["mail"]
        assert [one.name for one in mail.values("spark-rounds")] == ["mail"]
        assert mail.values("schedule") == []
        assert [one.name for one in mail.values("topic")] == ["t"]
        where = (Condition("queue", "=", "mail"),)
        assert [row.id for row in mail.select(Query(where=where)).rows] == [mine.id]

    def test_who_may_only_push_is_held_to_the_schema(self, start: Start, client: Client) -> None:
        manager = start(limited(token("admin", "admin"), token("mail", "push", ("mail",))))
        root, pushes = (Stanchion(store=client(url_of(manager, name))) for name in ("admin", "mail"))
        root.queue("mail", schema="id bigint not null, note string").push({"id": 1})
        with pytest.raises(PayloadMisfit):
            pushes.queue("mail").push({"id": "2"})
        older = Stanchion(store=pushes.store).queue("mail", schema="id bigint not null")
        older.push({"id": 3})
        with pytest.raises(NotPermitted, match="admin"):
            Stanchion(store=pushes.store).queue("mail", schema="id bigint not null, new string").push({"id": 4})
        assert root.queue("mail").size().total == 2

    def test_a_worker_gets_by(self, mail: Store) -> None:
        app = Stanchion(store=mail)
        ran = []

        @app.task(queue="mail.tasks")
        def task(number: int) -> None:
            ran.append(number)

        for number in range(3):
            task.enqueue(number)
        app.run(queues=["mail.tasks"], threads=2, until_empty=True)
        assert sorted(ran) == [0, 1, 2]


class TestStart:
    TLS = Tls(b"certificate", b"key")

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "manager.example.com"])
    def test_off_loopback_callers_identify_themselves(self, host: str) -> None:
        listen = Listen(host, 7117)
        for open_to_all in (ServerSettings(listen), ServerSettings(listen, tls=self.TLS)):
            with pytest.raises(InvalidInput, match=r"STANCHION_MANAGER_TOKEN.*--tls-cert"):
                open_to_all.check()
        ServerSettings(listen, Tokens([token("shop")])).check()
        ServerSettings(listen, tls=self.TLS._replace(callers_authority=b"authority")).check()

    @pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
    def test_on_loopback_they_need_not(self, host: str) -> None:
        ServerSettings(Listen(host, 7117)).check()

    def test_addresses(self) -> None:
        assert listen_address("127.0.0.1:80") == Listen("127.0.0.1", 80)
        assert listen_address("[::1]:80").text == "[::1]:80"
        assert listen_address("localhost").text == "localhost:7117"
        for wrong in ("", ":80", "host:x", "host:99999", "user@host:1", "host:1/path", "[::1"):
            with pytest.raises(InvalidInput, match="host:port"):
                listen_address(wrong)

    def test_a_taken_port(self, start: Start, manager: object) -> None:
        taken = listen_address(manager.address)  # type: ignore[attr-defined]
        with pytest.raises(InvalidInput, match="can't listen"):
            start(ServerSettings(taken))


class TestFile:
    def test_tokens(self, tmp_path: Path) -> None:
        digest = hashlib.sha256(secret("two").encode()).hexdigest()
        path = tmp_path / "tokens.toml"
        path.write_text(
            f"[[token]]\nname = 'one'\ntoken = '{secret('one')}'\nroles = ['push']\nqueues = ['a', 'b.*']\n"
            f"[[token]]\nname = 'two'\nsha256 = '{digest}'\n"
        )
        tokens = Tokens(tokens_in(path))
        one, two = tokens.caller_of(secret("one")), tokens.caller_of(secret("two"))
        assert one == Caller("one", frozenset([Role.PUSH]), ("a", "b.*"))
        assert two == Caller("two")
        assert tokens.caller_of(secret("three")) is None

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ("", "no token"),
            ("token = 1", "no token"),
            ("[[tokens]]\nname = 'a'", "tokens"),
            ("[[token]]\ntoken = 'the-secret-of-a'", "name"),
            ("[[token]]\nname = 'a'", "either token or sha256"),
            ("[[token]]\nname = 'a'\ntoken = 'short'", "at least 16"),
            ("[[token]]\nname = 'a'\ntoken = \"the-secret-of-a\\n-----\"", "printable"),
            ("[[token]]\nname = 'a'\nsha256 = 'abc'", "64 hexadecimal"),
            ("[[token]]\nname = 'a'\ntoken = 'the-secret-of-aa'\nroles = ['root']", "role"),
            ("[[token]]\nname = 'a'\ntoken = 'the-secret-of-aa'\nroles = []", "roles"),
            ("[[token]]\nname = 'a'\ntoken = 'the-secret-of-aa'\nqueues = []", "queues"),
            ("[[token]]\nname = 'a'\ntoken = 'the-secret-of-aa'\nqueues = 'a'", "queues"),
            ("[[token]]\nname = 'a'\ntoken = 'the-secret-of-aa", "TOML"),
            (2 * "[[token]]\nname = 'a'\ntoken = 'the-secret-of-aa'\n", "twice"),
        ],
    )
    def test_wrong_ones(self, tmp_path: Path, text: str, match: str) -> None:
        path = tmp_path / "tokens.toml"
        path.write_text(text)
        with pytest.raises(InvalidInput, match=match) as caught:
            tokens_in(path)
        assert "the-secret-of" not in str(caught.value)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="can't read"):
            tokens_in(tmp_path / "none.toml")

    def test_equal_tokens_by_digest(self) -> None:
        assert token_of(secret("one"), Caller("one")).digest == hashlib.sha256(secret("one").encode()).digest()
