"""A shop in Django, written with docs/django.md; tests/django/test_shop.py runs it."""
