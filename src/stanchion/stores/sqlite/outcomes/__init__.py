"""SQLite's outcomes: how reserved jobs end or go on, each kind by statements about sets."""
