"""Commands of the wings, found by the table in `stanchion/wings.py`."""
