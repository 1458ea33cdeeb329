"""Tests of the protocol between a manager and its clients: its messages, and what stands for them in Python."""
