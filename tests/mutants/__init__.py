"""Faults that the tests of `make test` must find: small changes to the product, and the tests that then fail."""
