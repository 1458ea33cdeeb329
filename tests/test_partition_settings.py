"""Each setting of queues is decided on for partitioned ones."""

from stanchion.context.queues.settings import SETTINGS
from stanchion.partitions.settings import COPIED, OF_THE_QUEUE, REFUSED


def test_each_setting_is_copied_refused_or_read_from_the_queue() -> None:
    assert sorted(SETTINGS) == sorted([*COPIED, *REFUSED, *OF_THE_QUEUE])
