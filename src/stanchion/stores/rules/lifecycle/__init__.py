"""The row of a job through its life: created, claimed, moved and ended; its waits, errors and trail."""
