"""This package's backend in the place of those that Django's tests name."""
