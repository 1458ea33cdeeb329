"""Commands that go on showing: `top`, and events as they happen."""
