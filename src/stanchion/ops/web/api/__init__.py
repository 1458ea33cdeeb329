"""The JSON API: what the pages show and do, and push, reserve and outcomes, for clients of any language."""
