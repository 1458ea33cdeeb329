"""stanchion streams: list and release."""

from stanchion import Stanchion
from stanchion.streams import StreamSource
from tests.cli.conftest import Run


def read(app: Stanchion, count: int) -> None:
    """Reserve jobs as a driver does."""
    app.queue("raw").push_many(list(range(count)))
    source = StreamSource(app.store, "etl", "raw")
    source.latest(source.initial(), count)


def test_none_is_nothing_found(run: Run) -> None:
    run("setup")
    assert run("streams").code == 1
    assert run("streams", "--json").json == []


def test_lists_them(run: Run, app: Stanchion) -> None:
    read(app, 3)
    for words in (["streams"], ["streams", "list"]):
        heading, line = run(*words).out.splitlines()
        assert heading.split()[:4] == ["STREAM", "QUEUE", "RESERVED", "ACKED"]
        assert line.split()[:5] == ["etl", "raw", "1", "0", "0"]
        assert line.endswith("reading")
    (one,) = run("streams", "--json").json
    assert (one["name"], one["queue"], one["reserved"], one["acked"], one["reserved_jobs"]) == ("etl", "raw", 1, 0, 3)
    assert (one["state"], one["behind"], one["live"]) == ("reading", 0, True)


def test_release_of_a_live_one_wants_a_yes(run: Run, app: Stanchion) -> None:
    read(app, 2)
    refused = run("streams", "release", "etl")
    assert refused.code == 2
    assert "--yes" in refused.error
    assert app.queue("raw").size().running == 2
    assert run("streams", "release", "etl", "--yes").out == "etl: released, with 2 reserved jobs\n"
    assert app.queue("raw").size().ready == 2


def test_release_of_one_whose_driver_is_gone(run: Run, app: Stanchion) -> None:
    read(app, 1)
    app.store.leave("stream:etl:1")
    assert run("streams", "release", "etl", "--json").json == {"stream": "etl", "released": 1}


def test_release_of_an_unknown_one(run: Run) -> None:
    run("setup")
    assert "no stream 'nowhere'" in run("streams", "release", "nowhere").error
