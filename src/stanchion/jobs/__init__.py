"""Jobs: enqueued, looked up, reserved and settled."""
