"""How values are shown: words, payloads, templates."""
