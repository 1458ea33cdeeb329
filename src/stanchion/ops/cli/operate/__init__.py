"""Commands that change."""
