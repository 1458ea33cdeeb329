"""Budgets of the code: its size, what it loads, and what the calls on the hot path take."""
