"""The databases of Django's settings: as stores, in transactions, and in test runs."""
