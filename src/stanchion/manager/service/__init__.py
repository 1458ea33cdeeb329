"""A whole manager: its server, its engine and its part in the leadership."""
