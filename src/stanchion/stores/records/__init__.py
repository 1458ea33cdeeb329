"""Plain, immutable records exchanged between the model and a store."""
