"""A migration that enqueues a task, as one for existing rows would."""

from django.db import migrations


def remind(_apps: object, schema_editor: object) -> None:
    """Enqueue a task, in the default database only."""
    if schema_editor.connection.alias == "default":  # type: ignore[attr-defined]
        from orders.tasks import remind

        remind.enqueue("migrated")


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial")]
    operations = [migrations.RunPython(remind, migrations.RunPython.noop)]
