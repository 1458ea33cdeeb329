"""Who may see and do what: tokens, sessions, and the checks of requests."""
