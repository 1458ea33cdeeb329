"""Each setting of queues, and each optional port of the store, is decided on for partitioned queues."""

from typing import Any

from stanchion.context.queues.settings import SETTINGS
from stanchion.partitions.settings import COPIED, OF_THE_QUEUE, REFUSED
from stanchion.partitions.store import PartitionedStore
from stanchion.stores import ports
from stanchion.stores.memory import MemoryStore


def test_each_setting_is_copied_refused_or_read_from_the_queue() -> None:
    assert sorted(SETTINGS) == sorted([*COPIED, *REFUSED, *OF_THE_QUEUE])


class Able(MemoryStore):
    """A store that claims to have each optional port but that of partitions."""

    def extension(self, port: type[Any]) -> Any:
        return None if port is ports.Partitions else self

    def spread(self, physical: Any) -> None:
        pass


def test_ports_that_name_queues_translate_them() -> None:
    inner = Able()
    store = PartitionedStore(inner)
    found: dict[type[Any], Any] = {port: store.extension(port) for port in PORTS}
    assert [port for port, one in found.items() if one is store] == [
        ports.ArrowReads,
        ports.PreparedJobs,
        ports.Partitions,
    ]
    assert [port for port, one in found.items() if one is None] == [ports.SelectText]
    assert all(one is inner for one in found.values() if one not in (store, None))
    assert all(
        PartitionedStore(MemoryStore()).extension(port) is None for port in PORTS if port is not ports.Partitions
    )


PORTS: list[type[Any]] = [
    *(ports.Transactions, ports.BehindManagers, ports.OverShards, ports.ArrowReads, ports.SelectText),
    *(ports.PreparedJobs, ports.Partitions, ports.FollowsTransactions),
]
