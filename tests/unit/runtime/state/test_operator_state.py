"""The state of one operator, found again by name on as many workers as before, more, or fewer."""

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.token_bench import TokenBench
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.state import keyed_state
from tidewheel.runtime.state.keyed_state import GoneKeys, KeyedChanges, KeyedState
from tidewheel.runtime.state.operator_state import CAPTURED, OperatorCut, OperatorState, SavedOperator


@pytest.fixture
def bench() -> TokenBench:
    return TokenBench()


def new_list() -> list[Any]:
    return []


def fresh(bench: TokenBench) -> OperatorState:
    return OperatorState("count", None, is_tracked=True, make_token=bench.make)


def changes_of(cut: OperatorCut, name: str) -> KeyedChanges:
    keyed = cut.keyed[name] = cut.keyed[name]._replace(unchanging=list(cut.keyed[name].unchanging))
    return [
        *map(pickle.dumps, keyed.unchanging),
        *([keyed.pickled.data] if keyed.pickled else []),
        GoneKeys(keyed.gone),
    ]


def saved_of(cuts: Sequence[OperatorCut], worker: int = 0, workers: int = 1) -> SavedOperator:
    """Return what a worker finds of what several have saved."""
    return SavedOperator(
        worker,
        workers,
        is_rescaled=len(cuts) != workers,
        states={name: [cut.states[name] for cut in cuts] for name in cuts[0].states},
        keyed={name: [changes_of(cut, name) for cut in cuts] for name in cuts[0].keyed},
        times=[list(each) for each in zip(*(cut.times for cut in cuts), strict=True)],
    )


def again(bench: TokenBench, *cuts: OperatorCut, worker: int = 0, workers: int = 1) -> OperatorState:
    """Return what a worker goes on with."""
    return OperatorState("count", saved_of(cuts, worker, workers), is_tracked=True, make_token=bench.make)


def test_what_was_kept_is_there_again(bench: TokenBench) -> None:
    """In one piece, by key and in notificators; nothing is made anew, and tokens are where they were."""
    kept = fresh(bench)
    kept.state("total", new_list).append(3)
    kept.keyed("counts").update(a=1, b=[bench.token(2)])
    kept.add(tw.types.Notificator()).notify_at(bench.token(7))
    assert not kept.is_restored
    restored = again(bench, kept.cut())
    assert restored.is_restored
    assert restored.state("total", not_called) == [3]
    found = restored.keyed("counts")
    assert isinstance(found, KeyedState)
    assert (found["a"], found["b"][0].time) == (1, 2)
    assert restored.add(tw.types.Notificator()).times == (7,)
    restored.check_all_taken()
    assert bench.live == {2: 1, 7: 1}


def not_called() -> Any:
    raise AssertionError("make() is called where a snapshot has the state")


def test_a_name_is_asked_for_as_often_as_one_likes(bench: TokenBench) -> None:
    """It is the same object each time, in a new operator and in one that goes on."""
    kept = fresh(bench)
    assert kept.state("total", new_list) is kept.state("total", not_called)
    assert kept.keyed("counts") is kept.keyed("counts")
    restored = again(bench, kept.cut())
    assert restored.state("total", not_called) is restored.state("total", not_called)
    assert restored.keyed("counts") is restored.keyed("counts")


def test_new_names_begin_empty(bench: TokenBench) -> None:
    """The operator of a newer program keeps more than the old one did."""
    kept = fresh(bench)
    kept.state("total", new_list).append(1)
    restored = again(bench, kept.cut())
    restored.state("total", new_list)
    assert restored.state("new", dict) == {}
    assert restored.keyed("newer") == {}
    assert restored.add(tw.types.Notificator()).times == ()
    restored.check_all_taken()


@pytest.mark.parametrize("is_tracked", [False, True])
def test_a_state_by_key_has_a_default(bench: TokenBench, *, is_tracked: bool) -> None:
    """With snapshots and without."""
    counts = OperatorState("count", None, is_tracked=is_tracked, make_token=bench.make).keyed("counts", int)
    counts["a"] += 2
    assert counts == {"a": 2}


def test_a_job_without_snapshots_has_plain_dicts(bench: TokenBench) -> None:
    """Who takes no snapshot pays nothing for them."""
    kept = OperatorState("count", None, is_tracked=False, make_token=bench.make)
    assert type(kept.keyed("counts")) is dict
    kept.write_all_next()


def test_captures_are_found_in_their_order(bench: TokenBench) -> None:
    """The pairs of time and batch, without their keys."""
    kept = fresh(bench)
    assert kept.captured == []
    kept.keyed(CAPTURED).update({0: (5, ["a"]), 1: (4, ["b"])})
    kept.cut()
    assert kept.captured == [(5, ["a"]), (4, ["b"])]


def test_captures_are_read_while_more_comes(bench: TokenBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver asks on another thread, here between any two steps of what looks at values; no snapshot is larger."""
    monkeypatch.setattr(keyed_state, "_LEAST_SWEPT", 2)
    kept = fresh(bench)
    captured = kept.keyed(CAPTURED)
    captured.update({n: (n, [n]) for n in range(100)})
    kept.cut()

    def capture_one_more(value: Any) -> bool:
        captured[len(captured)] = (0, ["more"])
        return False

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(keyed_state, "is_unchanging", capture_one_more)
        assert kept.captured == [(n, [n]) for n in range(100)]
    captured[100] = (100, [100])
    cut = kept.cut().keyed[CAPTURED]
    assert cut.pickled is not None
    assert pickle.loads(cut.pickled.data)[0] == [100]
    for _ in cut.unchanging:
        pass
    pickled = kept.cut().keyed[CAPTURED].pickled
    assert pickled is not None
    assert pickle.loads(pickled.data)[0] == [0, 1]  # what the sweep has left


def test_the_stamps_of_all_tokens_are_in_a_cut(bench: TokenBench) -> None:
    """Also of those whose keys have not changed since the last one: who checks tokens has to find each."""
    kept = fresh(bench)
    kept.state("held", new_list).append(bench.token(1))
    kept.keyed("by key").update((key, [bench.token(2)] if key % 2 else key) for key in range(10_000))
    kept.add(tw.types.Notificator()).notify_at(bench.token(3, 1))
    expected = [(10, 1), *[(10, 2)] * 5_000, (11, 3)]
    assert kept.cut().stamps == expected
    assert kept.cut().stamps == expected
    kept.by_key["by key"][1] = 0
    kept.by_key["by key"][3][0].discard()
    del kept.by_key["by key"][5]
    kept.by_key["by key"][7][0].downgrade(9)
    assert sorted(kept.cut().stamps) == [(10, 1), *[(10, 2)] * 4_996, (10, 9), (11, 3)]
    kept.by_key["by key"].clear()
    assert kept.cut().stamps == [(10, 1), (11, 3)]


def test_tokens_are_found_beside_a_cut_of_numbers(bench: TokenBench) -> None:
    """A cut that writes nothing but numbers has the stamps of tokens that earlier cuts have written."""
    kept = fresh(bench)
    kept.keyed("by key").update([*((key, key) for key in range(20_000)), ("held", [bench.token(2)])])
    assert kept.cut().stamps == [(10, 2)]
    kept.by_key["by key"][0] = 1
    cut = kept.cut()
    assert cut.keyed["by key"].pickled is None
    assert cut.stamps == [(10, 2)]


def test_a_cut_is_what_was_there_then(bench: TokenBench) -> None:
    """The operator changes its states right after."""
    kept = fresh(bench)
    kept.state("total", new_list).append(1)
    notificator = kept.add(tw.types.Notificator())
    notificator.notify_at(bench.token(4))
    cut = kept.cut()
    kept.states["total"].append(2)
    notificator.take(4).discard()
    restored = again(bench, cut)
    assert restored.state("total", new_list) == [1]
    assert restored.add(tw.types.Notificator()).times == (4,)


def test_a_part_that_was_not_written_is_made_up_for(bench: TokenBench) -> None:
    """The next cut has all keys."""
    kept = fresh(bench)
    kept.keyed("counts").update((key, key) for key in range(10_000))
    kept.cut()
    assert sum(len(keys) for keys, _ in kept.cut().keyed["counts"].unchanging) < 10_000
    kept.write_all_next()
    assert sum(len(keys) for keys, _ in kept.cut().keyed["counts"].unchanging) == 10_000


# ---------------------------------------------------------------------- another number of workers


def split_list(values: list[Any], workers: int) -> list[list[Any]]:
    return [values[worker::workers] for worker in range(workers)]


def merged(one: list[Any], other: list[Any]) -> list[Any]:
    return one + other


def test_a_token_in_one_piece_needs_a_division(bench: TokenBench) -> None:
    """The error says so; ``make``, which would take the initial token, is not called."""
    kept = fresh(bench)
    kept.state("token", lambda: bench.token(2))
    with raises(tw.errors.SnapshotError):
        again(bench, kept.cut(), worker=1, workers=2).state("token", not_called)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (3, 2), (2, 5)])
def test_a_state_is_divided_and_merged(before: int, after: int) -> None:
    """All that the workers had is there once, whatever their number; so are the tokens in it, and no others."""
    cuts = []
    for worker in range(before):
        kept = fresh(TokenBench())
        kept.state("held", new_list).extend([(f"{worker} {number}", TokenBench().token(number)) for number in range(4)])
        cuts.append(kept.cut())
    found, live = [], []
    for worker in range(after):
        bench = TokenBench()
        restored = again(bench, *cuts, worker=worker, workers=after)
        held = restored.state("held", new_list, split_list, merged)
        found += [name for name, _ in held]
        live += [token.time for _, token in held]
        assert sum(bench.live.values()) == len(held)
    assert sorted(found) == [f"{worker} {number}" for worker in range(before) for number in range(4)]
    assert sorted(live) == sorted([0, 1, 2, 3] * before)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (3, 2), (2, 5)])
def test_keys_go_to_the_workers_that_own_their_shards(before: int, after: int) -> None:
    """With their values and tokens; the tokens of others' keys, and of older values, are discarded."""
    cuts = []
    for worker in range(before):
        bench = TokenBench()
        kept = fresh(bench)
        counts = kept.keyed("counts")
        for key in range(100):
            if owner_of(key, before) == worker:
                counts[key] = [bench.token(key)] if key % 10 == 0 else key
        cuts.append(kept.cut())
    found: dict[int, Any] = {}
    for worker in range(after):
        bench = TokenBench()
        counts = again(bench, *cuts, worker=worker, workers=after).keyed("counts")
        assert all(owner_of(key, after) == worker for key in counts)
        assert bench.live == {key: 1 for key in counts if key % 10 == 0}
        found |= {key: value if isinstance(value, int) else value[0].time for key, value in dict(counts).items()}
    assert found == {key: key for key in range(100)}


def test_tokens_of_older_values_are_discarded(bench: TokenBench) -> None:
    """The files of a keyed state have a key several times; only its last value counts."""
    before = TokenBench()
    kept = fresh(before)
    counts = kept.keyed("counts")
    counts.update({1: [before.token(1)], 2: [before.token(2)], 3: [before.token(3)]})
    older = changes_of(kept.cut(), "counts")
    counts[1] = [before.token(5)]
    del counts[2]
    saved = saved_of([kept.cut()])
    saved.keyed["counts"] = [[*older, GoneKeys([2]), *saved.keyed["counts"][0]]]
    restored = OperatorState("count", saved, is_tracked=True, make_token=bench.make).keyed("counts")
    assert {key: value[0].time for key, value in restored.items()} == {1: 5, 3: 3}
    assert bench.live == {5: 1, 3: 1}


def test_a_state_that_nobody_has_used_needs_no_division(bench: TokenBench) -> None:
    """If all workers have what make() returns, a new one begins with that."""
    cuts = []
    for _ in range(2):
        kept = fresh(bench)
        kept.state("total", new_list)
        cuts.append(kept.cut())
    assert again(bench, *cuts, workers=3).state("total", new_list) == []


# ---------------------------------------------------------------------- errors


def test_a_state_that_cannot_be_divided_is_refused(bench: TokenBench) -> None:
    """The message names operator, state, both numbers of workers and the remedy."""
    kept = fresh(bench)
    kept.state("total", new_list).append(1)
    restored = again(bench, kept.cut(), workers=2)
    expected = (
        "operator 'count' keeps 'total' in one piece, so it cannot go on with 2 workers instead of 1. Go "
        "on with as many as before, or give context.state() split= and merge=, or keep it by key, "
        "context.keyed_state()"
    )
    assert error_of(lambda: restored.state("total", new_list)) == expected


def test_a_division_into_a_wrong_number_of_parts_is_refused(bench: TokenBench) -> None:
    """Else something would be lost."""
    kept = fresh(bench)
    kept.state("total", new_list).append(1)
    restored = again(bench, kept.cut(), workers=2)
    found = error_of(lambda: restored.state("total", new_list, lambda state, workers: [state], merged))
    assert found == ("operator 'count' divides 'total' by a split= that has not returned 2 parts, one for each worker")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            lambda kept: kept.state("a", new_list),
            lambda kept: kept.keyed("a"),
            "operator 'count' keeps 'a' in one piece: give the state by key another name",
        ),
        (
            lambda kept: kept.keyed("a"),
            lambda kept: kept.state("a", new_list),
            "operator 'count' keeps 'a' by key: give the other state another name",
        ),
    ],
)
def test_a_name_is_of_one_kind(first: Any, second: Any, expected: str, bench: TokenBench) -> None:
    """Else a snapshot would not tell which is which."""
    kept = fresh(bench)
    first(kept)
    assert error_of(lambda: second(kept)) == expected


@pytest.mark.parametrize("name", ["", "a" * 201, "two\nlines", "half \ud800", 7, None, ["list"]], ids=ascii)
def test_what_cannot_be_a_name_is_refused(name: Any, bench: TokenBench) -> None:
    """By the rule for all names, where the state is asked for; a state by key as well."""
    kept = fresh(bench)
    for ask in (lambda: kept.state(name, new_list), lambda: kept.keyed(name)):
        with raises(tw.GraphError):
            ask()
    assert kept.state("今" * 200, new_list) == []


def test_what_is_not_asked_for_is_an_error(bench: TokenBench) -> None:
    """Nothing that was saved is lost unnoticed."""
    kept = fresh(bench)
    kept.state("total", new_list)
    kept.keyed("counts")
    kept.add(tw.types.Notificator())
    restored = again(bench, kept.cut())
    assert error_of(restored.check_all_taken) == (
        "operator 'count' had 'counts', 'total' in the snapshot, and its build function has not asked for that"
    )
    restored.state("total", new_list)
    restored.keyed("counts")
    assert error_of(restored.check_all_taken) == (
        "operator 'count' had 1 notificators in the snapshot, and its build function has made 0"
    )
    restored.add(tw.types.Notificator())
    restored.check_all_taken()


def test_what_cannot_be_pickled_is_named(bench: TokenBench) -> None:
    """By operator and name, in one piece and by key."""
    keeps: list[Any] = [
        lambda kept: kept.state("total", new_list).append(number for number in "ab"),
        lambda kept: kept.keyed("total").update(a=(number for number in "ab")),
    ]
    for keep in keeps:
        kept = fresh(bench)
        keep(kept)
        found = error_of(kept.cut)
        assert found.startswith("operator 'count' keeps something in 'total' that cannot be pickled: TypeError: ")
        assert "generator" in found


def test_a_lent_token_is_no_state(bench: TokenBench) -> None:
    """The error says to retain it."""
    kept = fresh(bench)
    lent = tw.types.LentToken.__new__(tw.types.LentToken)
    lent._input = type("Lender", (), {"owner": bench.owner})()
    kept.state("held", new_list).append(lent)
    assert "retain() the token" in error_of(kept.cut)


def test_what_cannot_be_read_is_named(bench: TokenBench) -> None:
    """By operator and name; the class of a state may be gone."""
    saved = SavedOperator(states={"total": [b"cnowhere\nGone\n."]}, keyed={"counts": [[b"cnowhere\nGone\n."]]})
    restored = OperatorState("count", saved, is_tracked=True, make_token=bench.make)
    reason = (
        "from the snapshot: ModuleNotFoundError: No module named 'nowhere'. Let the program have the classes that were "
        "saved, and give migrate= what converts them"
    )
    assert error_of(lambda: restored.state("total", new_list)) == f"operator 'count' cannot read 'total' {reason}"
    assert error_of(lambda: restored.keyed("counts")) == f"operator 'count' cannot read 'counts' {reason}"


def error_of(act: Callable[[], object]) -> str:
    with pytest.raises(tw.errors.SnapshotError) as error:
        act()
    return str(error.value)
