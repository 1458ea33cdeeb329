"""The worker as processes of its own."""
