from tidewheel.progress import Source, Target


def test_an_output_is_no_input() -> None:
    """Ports of the same numbers on both sides of an operator are different locations."""
    locations: set[Source | Target] = {Source(1, 0), Target(1, 0), Source(1, 0)}
    assert len(locations) == 2
