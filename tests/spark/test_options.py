"""The options of the data source: each mistake is one sentence, and no secret is shown."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.options import Place, Use, checked_options, job_defaults, place_of

URL = "postgresql://me:secret@db/jobs"


def options(use: Use = "read", **given: str) -> dict[str, Any]:
    return checked_options({"url": URL, **given}, use)


class TestNames:
    def test_case_and_underscores_make_no_difference(self) -> None:
        for name in ("writeId", "writeid", "write_id", "WRITE_ID"):
            assert options("write", **{name: "x"})["writeId"] == "x"

    def test_an_unknown_one_is_guessed_at(self) -> None:
        with pytest.raises(InvalidInput, match=r"no option 'partition' for read; did you mean partitions\?"):
            options(partition="3")

    def test_one_of_another_use_is_said_to_be_so(self) -> None:
        with pytest.raises(InvalidInput, match="writeId is for write and writeStream, not for read"):
            options(writeId="x")

    def test_what_spark_adds_is_passed_over(self) -> None:
        assert "checkpointLocation" not in options("write", checkpointLocation="/tmp/x")
        assert "queryName" not in options("writeStream", queryName="orders", queue="clean")


class TestValues:
    def test_defaults(self) -> None:
        values = options()
        assert (values["of"], values["partitions"], values["by"], values["queue"]) == ("jobs", 4, "id", None)

    @pytest.mark.parametrize(
        ("use", "name", "value", "message"),
        [
            ("read", "partitions", "many", "option partitions must be a whole number from 1 to 10,000, not 'many'"),
            ("read", "partitions", "0", "option partitions must be"),
            ("read", "of", "archive", "option of must be jobs or history, not 'archive'"),
            ("read", "by", "queue", "option by must be id or lane"),
            ("read", "queue", "", "option queue must be 1 to 200 printable characters"),
            ("readStream", "ui", "javascript:alert(1)", "ui must be an address such as http://etl-1:4040"),
            ("readStream", "lanes", "5-2", "lanes must be a range within 0 to 1023, such as 0-15"),
            ("readStream", "maxRecordsPerBatch", "-1", "option maxRecordsPerBatch must be"),
            ("write", "priority", "high", "priority must be a whole number from -100 to 100, or interactive or"),
            ("write", "runAt", "tomorrow", "option runAt must be a time such as"),
            ("writeStream", "mode", "upsert", "option mode must be append or move or finish"),
        ],
    )
    def test_wrong_ones_say_what_is_right(self, use: Use, name: str, value: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            options(use, **{name: value})

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("priority", "101", "priority must be a whole number from -100 to 100"),
            ("delay", "-1", "delay must be from 0 seconds"),
            ("runAt", "2026-01-01T00:00:00", "no time zone"),
            ("onDuplicate", "ignore", "on_duplicate must be one of"),
            ("rate", "often", "rate must be starts per second"),
            ("maxAttempts", "0", "max_attempts must be"),
        ],
    )
    def test_defaults_of_jobs_are_checked_as_in_an_enqueue(self, name: str, value: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            job_defaults(options("write", **{name: value}))

    def test_defaults_of_jobs(self) -> None:
        given = options("write", priority="5", maxAttempts="3", limits="a, b", onDuplicate="replace")
        wanted = {"priority": 5, "max_attempts": 3, "limits": ("a", "b"), "on_duplicate": "replace"}
        assert job_defaults(given) == wanted
        assert job_defaults(options("write", priority="reporting")) == {"priority": -60}


class TestTheAddress:
    def test_it_must_be_given(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("STANCHION_URL", raising=False)
        with pytest.raises(InvalidInput, match="the option url is missing"):
            checked_options({}, "read")

    def test_the_environment_has_it_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("STANCHION_URL", URL)
        assert checked_options({}, "read")["url"] == URL

    def test_a_file_is_the_same_from_any_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        found = options(url="sqlite:///jobs.db?synchronous=off")["url"]
        assert found == f"sqlite:///{tmp_path}/jobs.db?synchronous=off"

    def test_memory_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="Spark uses several"):
            options(url="memory://")


class TestSecrets:
    def test_a_place_shows_neither_password_nor_keys(self) -> None:
        key = Fernet.generate_key().decode()
        place = place_of(options(keys=key))
        assert place == Place(URL, (key,))
        assert "secret" not in repr(place)
        assert key not in repr(place)

    def test_a_wrong_key_is_not_shown(self) -> None:
        with pytest.raises(InvalidInput, match="keys must be Fernet keys") as caught:
            options(keys="hush")
        assert "hush" not in str(caught.value)

    def test_the_environment_has_the_keys_where_the_work_is_done(self, monkeypatch: pytest.MonkeyPatch) -> None:
        key = Fernet.generate_key().decode()
        monkeypatch.setenv("STANCHION_KEYS", key)
        with Place("memory://").app() as app:
            assert context_of(app).codec.encode({"n": 1}).startswith("enc:")
