"""The version of the suite: that of the Stanchion that it tests."""

__version__ = "0.1.0"
