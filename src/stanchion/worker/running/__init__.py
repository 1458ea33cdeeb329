"""Attempts at claimed jobs: in threads and on event loops, within their time-outs."""
