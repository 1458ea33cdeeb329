"""Dispatch, in an event loop whose time passes only when there is nothing to do."""
