"""The version of the suite: that of the Stanchion it is made for."""

__version__ = "0.1.0"
