"""Tests of held tokens: since when each is held."""

from tidewheel.runtime.telemetry.held_tokens import MOST_TOLD, HeldTokens


def test_a_token_keeps_the_moment_of_the_first_look() -> None:
    """The oldest come first; one that comes again is new."""
    held = HeldTokens()
    held.look({(0, 5): {0: 1}}, {}, 1.0)
    told = held.look({(0, 6): {0: 1}, (0, 5): {0: 2, 1: 1}}, {(0, 5): {0: 2}}, 2.0)[0]
    assert [(one["time"], one["worker"], one["count"], one["since"], one["awaited"]) for one in told] == [
        ("5", 0, 2, 1.0, True),
        ("6", 0, 1, 2.0, False),
        ("5", 1, 1, 2.0, False),
    ]
    held.look({}, {}, 3.0)
    assert held.look({(0, 5): {0: 1}}, {}, 4.0)[0][0]["since"] == 4.0


def test_only_the_oldest_are_told() -> None:
    """An operator with ten thousand tokens does not make a document of ten thousand texts."""
    held = HeldTokens()
    held.look({(3, time): {0: 1} for time in range(5, 10)}, {}, 1.0)
    told = held.look({(3, time): {0: 1} for time in range(1000)}, {}, 2.0)[3]
    assert len(told) == MOST_TOLD
    assert [one["time"] for one in told[:5]] == ["5", "6", "7", "8", "9"]
