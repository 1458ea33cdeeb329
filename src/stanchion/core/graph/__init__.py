"""Graphs of named nodes and links, with one layout, drawn as text, SVG, Mermaid or DOT."""
