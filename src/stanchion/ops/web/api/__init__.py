"""The JSON API: the functions of the pages, and push, reserve and outcomes, for clients of any language."""
