"""`tx=connection` of Django in a test: the job appears when Django runs what waits for the commit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import django
from django.conf import settings

settings.configure(
    DATABASES={name: {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"} for name in ("default", "other")},
    INSTALLED_APPS=["django.contrib.contenttypes"],
    USE_TZ=True,
)
django.setup()

from django.db import connection, connections, transaction
from django.test import TestCase, TransactionTestCase
from django.test.runner import DiscoverRunner

from stanchion import Stanchion

app = Stanchion("postgresql://app@db/shop")


@app.task(name="mail", queue="mail")
def mail(user: int) -> None: ...


def users():
    return sorted(job.payload["args"][0] for job in app.queue("mail").find())


def orders(tx, alias="default"):
    with transaction.atomic(using=alias):
        first = mail.using(tx=tx, key="k").enqueue(1)
        try:
            with transaction.atomic(using=alias):
                assert mail.using(tx=tx, key="k").enqueue(1).duplicate
                mail.using(tx=tx, key="other").enqueue(2)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        assert not mail.using(tx=tx, key="other").enqueue(3).duplicate
        assert users() == []


class InTransaction(TestCase):
    databases = {"default", "other"}

    def test_on_commit(self):
        with app.testing():
            with self.captureOnCommitCallbacks(execute=True):
                orders(connection)
            self.assertEqual(users(), [1, 3])
            with self.captureOnCommitCallbacks(using="other", execute=True):
                with transaction.atomic(using="other"):
                    mail.using(tx=connections["other"]).enqueue(4)
            self.assertEqual(users(), [1, 3, 4])


class FromCoroutines(TransactionTestCase):
    async def test_another_thread(self):
        from stanchion.errors import CannotJoin

        with app.testing():
            with self.assertRaisesRegex(CannotJoin, "sync_to_async"):
                await mail.using(tx=connection).aenqueue(1)
            self.assertEqual(users(), [])


class Committing(TransactionTestCase):
    databases = {"default", "other"}

    def test_commit(self):
        with app.testing(run="at_once"):
            orders(connection)
            self.assertEqual(users(), [1, 3])
            app.assert_enqueued(mail, times=2)
            try:
                with transaction.atomic():
                    mail.using(tx=connection).enqueue(5)
                    raise ZeroDivisionError
            except ZeroDivisionError:
                pass
            mail.using(tx=connection).enqueue(6)
            self.assertEqual(users(), [1, 3, 6])


class Runner(DiscoverRunner):
    def build_suite(self, *args, **options):
        import unittest

        return unittest.defaultTestLoader.loadTestsFromModule(__import__("__main__"))


raise SystemExit(Runner(verbosity=0, interactive=False).run_tests([]))
"""


def test_djangos_own_test_cases(tmp_path: Path) -> None:
    pytest.importorskip("django")
    (tmp_path / "cases.py").write_text(SCRIPT)
    ran = subprocess.run([sys.executable, "cases.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "Ran 3 tests" in ran.stderr
