"""Made from the protocol by `python -m tests.wire.generate`; not edited by hand."""
