"""Bounded reads of the store and their interpretation, shared by the page, the API and the command line."""
