"""Schemas of queues: the fields that the payloads of a queue have, with their types."""
