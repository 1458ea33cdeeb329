"""Made from the protocol by `python -m tests.manager.wire.generate`; not edited by hand."""
