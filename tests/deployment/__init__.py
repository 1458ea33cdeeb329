"""The files of `stanchion deploy`."""
