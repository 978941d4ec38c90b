"""The silence of a partition: promised once the log has it, and kept after a restart."""

from pathlib import Path

from tests.kit.exactly_once.partitions import Partition, opened
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage, Nack

HOUR = 3_600_000_000


def told_ends(partition: Partition) -> list[int]:
    return [message.end for _, message in partition.told if isinstance(message, KnowledgeMessage)]


def test_who_waits_for_silence_gets_it_once_it_is_durable(tmp_path: Path) -> None:
    """Without another look; and no message is put there, now or after a restart with a clock that is behind."""
    with opened(tmp_path, clock=lambda: 1.0) as partition:
        partition.core.join("child")
        partition.core.look()
        partition.settle()
        partition.core.nack("child", Nack(0, ((1_000_000, HOUR),), 1000))
        assert max(told_ends(partition)) < HOUR
        partition.settle()
        end = max(told_ends(partition))
        assert end >= HOUR
        partition.send(0, b"a")
        partition.settle()
        assert partition.core.written_tick >= end
    with opened(tmp_path, clock=lambda: 1.0) as partition:
        before = partition.core.written_tick
        partition.send(0, b"a", b"b")
        partition.settle()
        assert partition.core.written_tick > max(before, HOUR)
