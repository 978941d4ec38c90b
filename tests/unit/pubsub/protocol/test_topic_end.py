"""The end of a topic in two phases, as the driver decides it."""

from random import Random

import pytest

from tidewheel.pubsub.protocol.topic_end import PartitionEnd, TopicEnd


def test_what_a_dead_publisher_knew_does_not_count() -> None:
    """The end is not final with it, though the job has not gone back yet."""
    end = TopicEnd(2)
    end.receive(0, PartitionEnd(4, 0))
    end.lose(0)
    assert not end.receive(1, PartitionEnd(5, 0))
    assert not end.is_final
    assert end.receive(0, PartitionEnd(4, 0))


def test_it_becomes_final_once() -> None:
    """Then neither a repetition, nor a death, nor a return of the job changes it."""
    end = TopicEnd(1)
    assert end.receive(0, PartitionEnd(4, 0))
    assert not end.receive(0, PartitionEnd(7, 0))
    end.lose(0)
    end.go_back(1)
    assert end.is_final
    assert end.ends == {0: PartitionEnd(4, 0)}


@pytest.mark.parametrize("seed", range(50))
def test_it_is_final_when_all_have_said_so_since_the_last_return(seed: int) -> None:
    """Whatever the order of what publishers say, late or repeated, of deaths, and of returns."""
    random = Random(seed)
    end, generation, known = TopicEnd(3), 0, set[int]()
    for _ in range(40):
        partition = random.randrange(3)
        match random.choice(["says", "says", "late", "dies", "back"]):
            case "says":
                known.add(partition)
                end.receive(partition, PartitionEnd(1, generation))
            case "late":
                end.receive(partition, PartitionEnd(1, generation - 1))
            case "dies":
                known.discard(partition)
                end.lose(partition)
            case _:
                generation += 1
                known.clear()
                end.go_back(generation)
        assert end.is_final == (len(known) == 3), f"seed {seed}"
        if end.is_final:
            return
