"""Record who is handling an alert."""

from __future__ import annotations

from stanchion.alerts import on_it
from stanchion.ops.web.visit import Visit


def be_on_it(visit: Visit, key: str) -> None:
    """Write down that the caller looks after an alert; it hides nothing. Raises InvalidInput."""
    visit.audit("on it", on_it.checked_key(key), 0)
    on_it.be_on_it(visit.store, key, visit.session.caller.name, visit.now)
    visit.site.sampler.renew()
