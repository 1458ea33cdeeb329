"""Queues copied from one store to another."""
