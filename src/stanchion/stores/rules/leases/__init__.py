"""Leases and heartbeats: who is alive, which jobs are lost, and who serves which lanes."""
