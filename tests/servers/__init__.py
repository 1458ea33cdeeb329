"""Real servers, and a network between, for the tests."""
