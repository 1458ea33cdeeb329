"""The settings of queues: checked, declared in code, cached; their schemas and pauses."""
