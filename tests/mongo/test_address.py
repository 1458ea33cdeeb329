"""The URL of a MongoDB store: what is taken, what is refused, and that no password shows."""

import subprocess
import sys
from contextlib import closing

import pytest

from stanchion import Stanchion
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.registry import open_store, shown_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mongodb://h/db", "mongodb://h/db"),
        ("mongodb://u:secret@h/db", "mongodb://u:***@h/db"),
        ("mongodb://u:secret@h1:1,h2:2,h3/db?replicaSet=rs", "mongodb://u:***@h1:1,h2:2,h3/db"),
        ("mongodb+srv://u:sec%40ret@cluster.example/db?w=1", "mongodb+srv://u:***@cluster.example/db"),
        ("mongodb://u:sec@ret@h/db", "mongodb://u:***@h/db"),
        ("mongodb://u@h/db?tlsCertificateKeyFilePassword=secret", "mongodb://u@h/db"),
        ("mongodb://u:secret@h", "mongodb://..."),
        ("mongodb:secret", "mongodb:secret://..."),
    ],
)
def test_the_password_is_not_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("mongodb://h", "names no database"),
        ("mongodb://h/", "names no database"),
        ("mongodb:///db", "names no host"),
        ("mongodb://h/db?w=0", "w=0"),
        ("mongodb://h:port/db", "is not valid"),
        ("mongodb://u:p@ss@h/db", "is not valid"),
        ("mongodb://h/a b", "is not valid"),
        ("mongodb+srv://h1,h2/db", "one host"),
    ],
)
def test_a_wrong_url_is_refused_at_once(url: str, word: str) -> None:
    with pytest.raises(InvalidInput, match=word) as caught:
        open_store(url)
    assert "p@ss" not in str(caught.value)


def test_the_store_of_a_url_is_not_opened_before_it_is_used() -> None:
    with closing(open_store("mongodb+srv://u:secret@no.such.host.invalid/db")) as store:
        assert store.capabilities.name == "mongodb"
        with pytest.raises(StoreUnavailable) as caught:
            store.now()
        assert "secret" not in str(caught.value)
    assert "secret" not in repr(Stanchion("mongodb://u:secret@h1,h2/db"))


def test_without_the_driver_it_says_what_to_install() -> None:
    script = """
import sys
sys.modules["pymongo"] = sys.modules["bson"] = None
from stanchion.errors import MissingExtra
from stanchion.stores.registry import open_store, shown_url
from stanchion.stores.mongo import CAPABILITIES
print(CAPABILITIES.name, shown_url("mongodb://u:secret@h1,h2/db"))
try:
    open_store("mongodb://h/db")
except MissingExtra as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "mongodb mongodb://u:***@h1,h2/db",
        "the MongoDB store needs an optional dependency: pip install 'stanchion[mongo]'",
    ]
