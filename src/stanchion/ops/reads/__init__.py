"""Bounded reads of the store, and what they mean: for the page, the API and the command line alike."""
