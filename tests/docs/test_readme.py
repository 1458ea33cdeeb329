"""The program on the first screen of the README does what its comments say."""

import runpy
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from tests.docs.pages import ROOT, blocks


def test_the_first_program_enqueues_in_its_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = blocks(ROOT / "README.md")[0]
    assert first.file == "shop.py"
    (tmp_path / "shop.py").write_text(first.text)
    monkeypatch.chdir(tmp_path)
    shop = runpy.run_path("shop.py", run_name="shop")
    app, engine = shop["app"], shop["engine"]
    app.setup()
    with engine.begin() as made:
        made.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
    shop["buy"](17)
    with pytest.raises(IntegrityError):
        shop["buy"](17)
    assert app.drain() == 1
    assert [job.result for job in app.find(task="shop.send_receipt")] == ["receipt 17 sent"]
    app.close()
    engine.dispose()


def test_the_first_screen_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    code = lines.index("```python")
    assert code < 6
    assert lines.index("```", code) - code < 25
