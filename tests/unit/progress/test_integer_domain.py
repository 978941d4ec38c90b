from tidewheel.progress import IntegerDomain


def test_a_summary_is_what_is_added() -> None:
    """Integers move by addition, from 0, in their usual order."""
    epochs = IntegerDomain()
    assert epochs.minimum() == 0
    assert epochs.results_in(3, 4) == 7
    assert epochs.followed_by(3, 4) == 7
    assert epochs.less_equal(3, 3)
    assert not epochs.less_equal(4, 3)
    assert epochs.less_than(3, 4)
    assert not epochs.less_than(3, 3)


def test_nothing_passes_the_maximum() -> None:
    """The greatest time itself can be reached; what would be later does not pass."""
    rounds = IntegerDomain(maximum=3)
    assert rounds.results_in(1, 2) == 3
    assert rounds.results_in(1, 3) is None
    assert rounds.followed_by(1, 2) == 3
    assert rounds.followed_by(2, 2) is None


def test_contains_whole_numbers_up_to_the_maximum() -> None:
    """A bool, a fraction and a number outside the range are no times."""
    rounds = IntegerDomain(maximum=3)
    assert [rounds.contains(value) for value in (0, 3)] == [True, True]
    assert not any(rounds.contains(value) for value in (-1, 4, True, 1.0, "1", None))


def test_the_default_maximum_fits_a_signed_64_bit_integer() -> None:
    """Epochs can be written as 64-bit integers anywhere."""
    assert IntegerDomain().contains(2**63 - 1)
    assert not IntegerDomain().contains(2**63)


def test_domains_are_equal_by_their_maximum() -> None:
    """Two scopes whose rounds count alike have equal domains; a bounded one is another domain."""
    assert IntegerDomain() == IntegerDomain()
    assert IntegerDomain(3) != IntegerDomain()


def test_integers_are_sorted() -> None:
    """In their usual order, which is a matter of n log n; a subclass that compares in another way keeps its own."""

    class Backwards(IntegerDomain):
        __slots__ = ()

        def less_equal(self, a: int, b: int) -> bool:
            return a >= b

    assert IntegerDomain().in_order(iter([3, 1, 2])) == [1, 2, 3]
    assert Backwards().in_order(iter([3, 1, 2])) == [3, 2, 1]
    many = list(range(200_000, 0, -1))
    assert IntegerDomain().in_order(many) == many[::-1]
