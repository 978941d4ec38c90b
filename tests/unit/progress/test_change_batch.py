from tidewheel.progress import ChangeBatch


def test_what_cancels_out_is_gone() -> None:
    """Only net changes remain, in the order in which their keys came in."""
    batch = ChangeBatch([("a", 1), ("b", 2), ("c", 0)])
    batch.update("a", -1)
    assert list(batch) == [("b", 2)]
    assert len(batch) == 1
    batch.extend([("b", -3), ("a", 5)])
    assert list(batch) == [("b", -1), ("a", 5)]
    assert repr(batch) == "ChangeBatch([('b', -1), ('a', 5)])"


def test_an_empty_batch_is_false() -> None:
    """Whoever has nothing to tell can see it."""
    assert not ChangeBatch[str]()
    assert ChangeBatch([("a", 1)])


def test_drain_starts_anew() -> None:
    """What was drained is the caller's: later changes do not touch it."""
    batch = ChangeBatch([("a", 1)])
    drained = batch.drain()
    batch.update("a", 1)
    assert drained == [("a", 1)]
    assert batch.drain() == [("a", 1)]
    assert batch.drain() == []
