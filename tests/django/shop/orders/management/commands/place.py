"""manage.py place ARTICLE..."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.test import Client


class Command(BaseCommand):
    """Orders of customers."""

    help = "Place an order for each article; print the answers of the shop as JSON."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the articles."""
        parser.add_argument("articles", nargs="+")

    def handle(self, *_: Any, **options: Any) -> None:
        """Place the orders."""
        client = Client()
        answers = [client.post("/orders/", {"article": article}) for article in options["articles"]]
        self.stdout.write(json.dumps([{"status": answer.status_code, **answer.json()} for answer in answers]))
