"""The schema of SQLite as a file of the package; `python -m tests.sql.schema_file` writes it."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from stanchion.stores.registry import open_store

FILE = Path(__file__).parents[2] / "src/stanchion/stores/sqlite/generated/schema.sql"


def schema() -> str:
    """Return the statements that make the schema in an empty file."""
    with TemporaryDirectory() as folder, closing(open_store(f"sqlite:///{folder}/none.db")) as store:
        steps = store.setup(dry_run=True)
    # SQLAlchemy keeps the indexes of a table in a set: their order differs from run to run.
    indexes = sorted(step for step in steps if step.startswith(("CREATE INDEX", "CREATE UNIQUE INDEX")))
    tables = [step for step in steps if step.startswith("CREATE TABLE")]
    return "\n\n".join([*tables, *indexes, *(step for step in steps if step not in {*tables, *indexes})]) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema(), encoding="utf-8")
