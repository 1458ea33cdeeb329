"""Access control: tokens, sessions, and the checks of requests."""
