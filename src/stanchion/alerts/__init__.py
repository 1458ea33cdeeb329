"""Alerts: problems that need a person, found by rules over one bounded reading of the store.

store ──reader──► Snapshot ──rules──► found ──merge──► alerts, by level, band and percent
                      └────monitor──► figures by band and queue
"""
