"""The project of the shop."""
