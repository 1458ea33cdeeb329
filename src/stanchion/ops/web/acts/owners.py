"""Record who is handling an alert."""

from __future__ import annotations

from stanchion.alerts import owners
from stanchion.ops.web.visit import Visit


def set_owner(visit: Visit, key: str) -> None:
    """Write down that the caller looks after an alert; it hides nothing. Raises InvalidInput."""
    visit.audit("on it", owners.checked_key(key), 0)
    owners.set_owner(visit.store, key, visit.session.caller.name, visit.now)
    visit.site.sampler.renew()
