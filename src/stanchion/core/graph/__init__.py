"""Graphs of named nodes and links: laid out once, then drawn as text, SVG, Mermaid or DOT."""
