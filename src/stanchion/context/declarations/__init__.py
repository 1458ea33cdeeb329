"""What code declares besides queues, stored for processes without the code."""
