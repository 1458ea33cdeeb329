"""The shop under test: its jobs, and a client on an empty database."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from sqlalchemy import StaticPool, create_engine
from sqlalchemy.orm import sessionmaker

from stanchion import Stanchion
from tests.shops.flask_shop import jobs
from tests.shops.flask_shop.models import Base
from tests.shops.flask_shop.web import create_app


@pytest.fixture(scope="session")
def stanchion_project() -> Stanchion:
    """The app of the shop's jobs."""
    return jobs.app


@pytest.fixture(autouse=True)
def _services() -> None:
    jobs.shipped.clear()
    jobs.closed.clear()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FlaskClient:
    """A client of the web server, whose database is empty."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    Base.metadata.create_all(engine)
    monkeypatch.setattr(jobs, "Session", sessionmaker(engine))
    return create_app().test_client()
