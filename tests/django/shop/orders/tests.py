"""The shop under Django's test runner: transactions, the worker's side, the admin, and the page under WSGI and ASGI."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import AsyncClient, Client, TestCase, TransactionTestCase, override_settings

from stanchion.django import app_of
from stanchion.django.management.commands.stanchion import Command as Stanchion

from .models import Order
from .tasks import charge, remind, report

BOTH = frozenset({"default", "reports"})


class Nothing:
    """A router that keeps all applications out."""

    def allow_migrate(self, *_: object, **__: object) -> bool:
        """Refuse."""
        return False


class Orders(TransactionTestCase):
    """Orders whose transactions commit, in the real store of the test database."""

    databases = BOTH

    def test_an_order_and_its_task_are_one(self) -> None:
        placed = self.client.post("/orders/", {"article": "tea"}).json()
        assert self.client.get(f"/orders/{placed['order']}/").json()["status"] == "READY"
        app_of().drain()
        answer = self.client.get(f"/orders/{placed['order']}/").json()
        assert answer == {"status": "SUCCESSFUL", "paid": True, "value": "receipt for tea"}

    def test_a_rolled_back_order_has_no_task(self) -> None:
        before = len(app_of().find(task="orders.tasks.charge"))
        assert self.client.post("/orders/", {"article": "sold out"}).status_code == 409
        assert not Order.objects.exists()
        assert len(app_of().find(task="orders.tasks.charge")) == before

    def test_a_savepoint_takes_its_task_with_it(self) -> None:
        with transaction.atomic():
            kept = remind.enqueue("kept")
            try:
                with transaction.atomic():
                    lost = remind.enqueue("lost")
                    raise LookupError
            except LookupError:
                pass
        assert app_of().get(kept.id) is not None
        assert app_of().get(lost.id) is None

    def test_each_backend_has_its_database(self) -> None:
        found = report.enqueue("2031-05-01")
        assert app_of().get(found.id) is None
        assert app_of("reports").get(found.id) is not None
        with transaction.atomic("reports"):
            lost = report.enqueue("2031-05-02")
            transaction.set_rollback(True, "reports")
        assert app_of("reports").get(lost.id) is None
        app_of("reports").drain()
        found.refresh()
        assert found.return_value == "report of 2031-05-01"

    def test_a_router_keeps_the_shop_out_of_the_other_database(self) -> None:
        tables = connections["reports"].introspection.table_names()
        assert "orders_order" not in tables
        assert "stanchion_jobs" in tables

    def test_a_router_that_keeps_stanchion_out_is_obeyed_and_reported(self) -> None:
        with connections["reports"].cursor() as cursor:
            cursor.execute("UPDATE stanchion_meta SET version = 5")
        out = StringIO()
        with override_settings(DATABASE_ROUTERS=["orders.tests.Nothing"]):
            call_command("migrate", database="reports", stdout=out, stderr=out)
            call_command("check", databases=["reports"], stderr=out)
        assert "Run manage.py stanchion setup --backend reports" in out.getvalue(), out.getvalue()
        with redirect_stdout(out):
            call_command("stanchion", "--backend", "reports", "setup")
        out = StringIO()
        call_command("check", databases=["reports"], stderr=out)
        assert "stanchion" not in out.getvalue(), out.getvalue()

    def test_migrate_again_changes_nothing(self) -> None:
        kept = remind.enqueue("kept")
        for alias in sorted(BOTH):
            out = StringIO()
            call_command("migrate", database=alias, stdout=out)
            assert "No migrations to apply" in out.getvalue()
            out = StringIO()
            call_command("check", databases=[alias], stderr=out)
            assert "stanchion" not in out.getvalue(), out.getvalue()
        assert app_of().get(kept.id) is not None

    def test_plans_and_scripts_name_the_tables(self) -> None:
        out = StringIO()
        call_command("sqlmigrate", "stanchion", "0001", stdout=out)
        assert "Create or upgrade the tables of Stanchion" in out.getvalue()
        assert "CANNOT BE WRITTEN AS SQL" in out.getvalue()
        call_command("makemigrations", "--check", "--dry-run", stdout=out)
        assert "No changes detected" in out.getvalue()

    def test_migrate_mends_what_an_older_release_lacks(self) -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("UPDATE stanchion_meta SET version = 5")
        out = StringIO()
        call_command("check", databases=["default"], stderr=out)
        assert "stanchion.W002" in out.getvalue(), out.getvalue()
        assert "manage.py migrate --database default" in out.getvalue()
        call_command("migrate", stdout=StringIO(), stderr=StringIO())
        out = StringIO()
        call_command("check", databases=["default"], stderr=out)
        assert "stanchion" not in out.getvalue(), out.getvalue()

    def test_tables_of_a_newer_release_ask_for_that_release(self) -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT version FROM stanchion_meta")
            (version,) = cursor.fetchone()
            cursor.execute("UPDATE stanchion_meta SET version = 99")
        out = StringIO()
        call_command("check", databases=["default"], stderr=out)
        with connections["default"].cursor() as cursor:
            cursor.execute("UPDATE stanchion_meta SET version = %s", [version])
        assert "stanchion.W002" in out.getvalue(), out.getvalue()
        assert "Install that release here, too." in out.getvalue(), out.getvalue()
        assert "migrate" not in out.getvalue(), out.getvalue()


class Rehearsed(TestCase):
    """Orders within `app.testing()`, whose jobs appear with the functions of `transaction.on_commit`."""

    databases = BOTH

    def test_the_task_comes_with_the_commit(self) -> None:
        with app_of().testing() as clock:
            with self.captureOnCommitCallbacks(execute=True):
                placed = self.client.post("/orders/", {"article": "tea"}).json()
            app_of().assert_enqueued("orders.tasks.charge", args=(placed["order"],), times=1)
            app_of().drain()
            assert self.client.get(f"/orders/{placed['order']}/").json()["status"] == "SUCCESSFUL"
            clock.advance(1)


def staff(*permissions: str) -> User:
    """Return a new member of the staff with these permissions on jobs."""
    user = User.objects.create_user("ana", password="secret", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__in=permissions))
    return user


def csrf_of(text: str) -> str:
    """Return the CSRF token in a form of the page."""
    found = re.search(r'name="csrf" value="([^"]+)"', text)
    assert found is not None, text[:2000]
    return found[1]


class Admin(TransactionTestCase):
    """Jobs in the admin."""

    databases = BOTH

    def failed(self) -> Any:
        """Return the job of an order that failed for good."""
        placed = self.client.post("/orders/", {"article": "broken"}).json()
        app = app_of()
        app.drain()
        job = app.get(placed["result"])
        assert job is not None
        return job

    def test_strangers_see_nothing(self) -> None:
        job = self.failed()
        for path in ("/admin/stanchion/job/", f"/admin/stanchion/job/{job.id}/change/"):
            assert self.client.get(path).status_code == 302
        self.client.force_login(staff())
        for path in ("/admin/stanchion/job/", f"/admin/stanchion/job/{job.id}/change/"):
            assert self.client.get(path).status_code == 403

    def test_viewers_read_the_story_and_change_nothing(self) -> None:
        job = self.failed()
        self.client.force_login(staff("view_job"))
        assert "Jobs" in self.client.get("/admin/").content.decode()
        listed = self.client.get("/admin/stanchion/job/", {"task": "orders.tasks.charge"}).content.decode()
        assert f"/admin/stanchion/job/{job.id}/change/" in listed
        assert "BankRefusesError" in listed
        assert '<select name="act"' not in listed
        told = self.client.get(f"/admin/stanchion/job/{job.id}/change/").content.decode()
        assert "Attempt 1 failed" in told
        assert f"no money for order {job.payload['args'][0]}" in told
        assert 'name="act"' not in told
        refused = self.client.post(f"/admin/stanchion/job/{job.id}/change/", {"act": "cancel"})
        assert refused.status_code == 403
        assert self.client.get("/admin/stanchion/job/add/").status_code in (302, 404)
        assert self.client.post(f"/admin/stanchion/job/{job.id}/delete/").status_code in (302, 404)
        assert app_of().get(job.id) is not None

    def test_operators_cancel_retry_and_replay(self) -> None:
        job, app = self.failed(), app_of()
        assert job.state == "scheduled"
        self.client.force_login(staff("view_job", "operate_job"))
        path = f"/admin/stanchion/job/{job.id}/change/"
        told = self.client.post(path, {"act": "cancel"}, follow=True).content.decode()
        assert "1 job cancelled." in told
        assert app.get(job.id).state == "cancelled"  # type: ignore[union-attr]
        listed = {"act": "retry", "_selected_action": [job.id]}
        assert "1 job retried." in self.client.post("/admin/stanchion/job/", listed, follow=True).content.decode()
        assert app.get(job.id).state == "ready"  # type: ignore[union-attr]
        assert "is not in history" in self.client.post(path, {"act": "replay"}, follow=True).content.decode()
        self.client.post(path, {"act": "cancel"})
        assert "1 job replayed." in self.client.post(path, {"act": "replay"}, follow=True).content.decode()
        [copy] = [one for one in app.find(task="orders.tasks.charge") if one.origin == job.id]
        app.cancel(copy.id)

    def test_the_acts_are_in_the_audit_log(self) -> None:
        job = self.failed()
        self.client.force_login(staff("view_job", "operate_job"))
        self.client.post(f"/admin/stanchion/job/{job.id}/change/", {"act": "cancel"})
        page = self.client.get("/queues/audit").content.decode()
        assert "ana" in page
        assert job.id in page

    def test_forms_need_a_token(self) -> None:
        job = self.failed()
        client = Client(enforce_csrf_checks=True)
        client.force_login(staff("view_job", "operate_job"))
        assert client.post(f"/admin/stanchion/job/{job.id}/change/", {"act": "cancel"}).status_code == 403
        assert app_of().get(job.id).state == "scheduled"  # type: ignore[union-attr]

    def test_lists_are_filtered_and_paged(self) -> None:
        ids = [remind.enqueue(f"page {number}").id for number in range(55)]
        self.client.force_login(staff("view_job"))
        first = self.client.get("/admin/stanchion/job/", {"queue": "mail", "state": "ready"}).content.decode()
        found = re.search(r'href="(\?[^"]*after=[^"]*)"', first)
        assert found is not None
        second = self.client.get(f"/admin/stanchion/job/{found[1].replace('&amp;', '&')}").content.decode()
        seen = [[one for one in ids if one in text] for text in (first, second)]
        assert [len(one) for one in seen] == [50, 5]
        wrong = self.client.get("/admin/stanchion/job/", {"state": "lost"})
        assert "the states are" in wrong.content.decode()
        assert self.client.get("/admin/stanchion/job/", {"backend": "none"}).status_code == 404
        app_of().drain(["mail"])

    def test_the_other_backend_has_a_list_of_its_own(self) -> None:
        job = report.enqueue("2031-05-01").id
        self.client.force_login(staff("view_job"))
        assert job not in self.client.get("/admin/stanchion/job/").content.decode()
        assert job in self.client.get("/admin/stanchion/job/", {"backend": "reports"}).content.decode()
        story = self.client.get(f"/admin/stanchion/job/{job}/change/", {"backend": "reports"}).content.decode()
        assert "Enqueued in reports" in story
        gone = self.client.get(f"/admin/stanchion/job/{job}/change/", follow=True).content.decode()
        assert "may have been purged" in gone

    def test_a_store_elsewhere_is_listed_and_one_without_an_answer_is_named(self) -> None:
        job = remind.using(backend="elsewhere", queue_name="default").enqueue("elsewhere").id
        self.client.force_login(staff("view_job"))
        assert job in self.client.get("/admin/stanchion/job/", {"backend": "elsewhere"}).content.decode()
        story = self.client.get(f"/admin/stanchion/job/{job}/change/", {"backend": "elsewhere"}).content.decode()
        assert "Enqueued in default" in story
        for path in ("/admin/stanchion/job/", f"/admin/stanchion/job/{job}/change/"):
            answer = self.client.get(path, {"backend": "gone"})
            assert (answer.status_code, "errornote" in answer.content.decode()) == (200, True)


class Page(TransactionTestCase):
    """The page below a path of the shop."""

    databases = BOTH

    def test_strangers_log_in_first(self) -> None:
        answer = self.client.get("/queues/jobs?state=dead")
        assert answer.status_code == 302
        assert answer.headers["Location"] == "/admin/login/?next=/queues/jobs%3Fstate%3Ddead"
        self.client.force_login(staff())
        assert self.client.get("/queues/").status_code == 403

    def test_it_is_read_under_its_prefix_with_its_files(self) -> None:
        remind.enqueue("read")
        self.client.force_login(staff("view_job"))
        page = self.client.get("/queues/")
        assert page.status_code == 200
        links = re.findall(r'\s(?:href|src|action|hx-get)="(/[^"]*)"', page.content.decode())
        assert links
        assert not [link for link in links if not link.startswith("/queues/")]
        for link in {link.partition("?")[0] for link in links if "/static/" in link}:
            file = self.client.get(link)
            assert file.status_code == 200, link
            assert file.content
        assert "script-src" in page.headers["Content-Security-Policy"]
        assert "mail" in self.client.get("/queues/queues").content.decode()
        assert "/ops/reports/" in self.client.get("/ops/reports/").content.decode()

    def test_readers_may_not_act(self) -> None:
        remind.enqueue("read")
        self.client.force_login(staff("view_job"))
        form = {"csrf": csrf_of(self.client.get("/queues/more").content.decode()), "note": "not allowed"}
        refused = self.client.post("/queues/pause/mail", _encoded(form), **FORM)
        assert refused.status_code == 403
        assert not app_of().queue("mail").settings.paused

    def test_operators_act_with_the_token_of_their_forms(self) -> None:
        remind.enqueue("read")
        self.client.force_login(staff("view_job", "operate_job"))
        token = csrf_of(self.client.get("/queues/pause/mail").content.decode())
        for form, status in (
            ({"note": "-"}, 403),
            ({"csrf": "wrong"}, 403),
            ({"csrf": token, "note": "the mail server moves"}, 303),
        ):
            answer = self.client.post("/queues/pause/mail", _encoded(form), **FORM)
            assert answer.status_code == status, answer.content
        assert app_of().queue("mail").settings.paused
        app_of().queue("mail").resume()
        foreign = self.client.post(
            "/queues/pause/mail", _encoded({"csrf": token}), headers={"sec-fetch-site": "cross-site"}, **FORM
        )
        assert foreign.status_code == 403

    def test_under_wsgi_a_tab_polls(self) -> None:
        self.client.force_login(staff("view_job"))
        answer = self.client.get("/queues/events?topics=verdict")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")

    def test_the_api_takes_the_session(self) -> None:
        self.client.force_login(staff("view_job"))
        queues = self.client.get("/queues/api/v1/queues")
        assert queues.status_code == 200
        assert (
            self.client.post("/queues/api/v1/queues/mail/pause", "{}", content_type="application/json").status_code
            == 403
        )


class AtomicRequests(TransactionTestCase):
    """The admin and the page where each request has a transaction."""

    databases = BOTH

    def setUp(self) -> None:
        """Turn it on for all databases."""
        for alias in BOTH:
            self.enterContext(patch.dict(connections.settings[alias], ATOMIC_REQUESTS=True))

    def test_the_admin_acts(self) -> None:
        job = remind.enqueue("later").id
        self.client.force_login(staff("view_job", "operate_job"))
        path = f"/admin/stanchion/job/{job}/change/"
        assert "1 job cancelled." in self.client.post(path, {"act": "cancel"}, follow=True).content.decode()
        listed = {"act": "retry", "_selected_action": [job]}
        assert "1 job retried." in self.client.post("/admin/stanchion/job/", listed, follow=True).content.decode()
        app_of().cancel(job)

    def test_the_page_answers(self) -> None:
        self.client.force_login(staff("view_job"))
        for path in ("/queues/", "/queues/jobs", "/ops/reports/", "/queues/static/stanchion.css"):
            assert self.client.get(path).status_code == 200


class PageUnderAsgi(TransactionTestCase):
    """The page in an event loop."""

    databases = BOTH

    async def test_pages_files_and_events(self) -> None:
        user = await User.objects.acreate(username="ana", is_staff=True, is_superuser=True)
        client = AsyncClient()
        assert (await client.get("/queues/")).status_code == 302
        await client.aforce_login(user)
        page = await client.get("/queues/")
        assert page.status_code == 200
        assert b"/queues/static/" in page.content
        stream = await client.get("/queues/events", query_params={"topics": "verdict"})
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        parts: Any = aiter(stream.streaming_content)
        first = await asyncio.wait_for(anext(parts), 60)
        assert b"event: hello" in first
        await parts.aclose()


FORM: dict[str, Any] = {"content_type": "application/x-www-form-urlencoded"}


def _encoded(form: dict[str, str]) -> str:
    return urlencode(form)


class Line(TransactionTestCase):
    """The commands."""

    databases = BOTH

    def test_any_command_runs_on_a_backend(self) -> None:
        found = charge.enqueue(4711)
        out = json_of("jobs", "--queue", "default")
        assert found.id in [one["id"] for one in out]
        assert found.id not in [one["id"] for one in json_of("jobs", backend="reports")]
        app_of().cancel(found.id)

    def test_an_unknown_backend_is_named(self) -> None:
        for command in ("stanchion_worker", "stanchion_web"):
            with self.assertRaisesMessage(CommandError, "no Stanchion backend 'none'; it has default, reports"):
                call_command(command, backend="none")
        with redirect_stderr(StringIO()) as errors, self.assertRaisesMessage(SystemExit, "1"):
            Stanchion().run_from_argv(["manage.py", "stanchion", "--backend", "none", "jobs"])
        assert "no Stanchion backend 'none'" in errors.getvalue()


def json_of(*arguments: str, backend: str = "default") -> Any:
    """Return what a command prints with --json."""
    out = StringIO()
    with redirect_stdout(out):
        call_command("stanchion", "--backend", backend, arguments[0], "--json", *arguments[1:])
    return json.loads(out.getvalue())
