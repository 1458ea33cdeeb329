"""Cases of schedules."""

from stanchion_conformance.cron.cron import TestManySchedulers, TestTicks
from stanchion_conformance.cron.cron_clock import TestMissedTicks, TestTheClock
from stanchion_conformance.cron.cron_deaths import TestDeath
from stanchion_conformance.cron.cron_declaring import TestDeclaring, TestWhatIsStored
from stanchion_conformance.cron.cron_operating import TestANewRelease, TestOperatingSchedules
from stanchion_conformance.cron.schedules import calendar

__all__ = [
    "TestANewRelease",
    "TestDeath",
    "TestDeclaring",
    "TestManySchedulers",
    "TestMissedTicks",
    "TestOperatingSchedules",
    "TestTheClock",
    "TestTicks",
    "TestWhatIsStored",
    "calendar",
]
