"""The parts of upkeep: stored shapes, wrong types, locked jobs, and queues without work."""
