"""Side-by-side measurements of Stanchion, its peers and hand-written statements."""
