"""Migrations of the application; stores have versions of their own."""
