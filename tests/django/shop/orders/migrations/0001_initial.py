"""The table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = [("stanchion", "0001_initial")]
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("article", models.CharField(max_length=100)),
                ("paid", models.BooleanField(default=False)),
                ("attempts", models.IntegerField(default=0)),
                ("result_id", models.CharField(blank=True, max_length=64)),
            ],
        ),
    ]
