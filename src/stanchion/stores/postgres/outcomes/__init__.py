"""PostgreSQL's outcomes: how reserved jobs end or go on, each kind by a statement."""
