from collections.abc import Iterator

import pytest

from stanchion import Pipeline, Stanchion
from tests.pipeline.watched import Watched


@pytest.fixture(params=["memory", "sqlite"])
def app(request, tmp_path) -> Iterator[Stanchion]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db?synchronous=off"
    app = Stanchion(url)
    yield app
    app.close()


@pytest.fixture
def etl(app: Stanchion) -> Pipeline:
    return app.pipeline("etl")


@pytest.fixture
def watched(app: Stanchion) -> Watched:
    app.setup()
    return Watched(app)
