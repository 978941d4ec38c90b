"""Pickled state of operators: tokens become their places, everything else is what it was."""

import gc
import pickle
import sys
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.token_bench import TokenBench
from tidewheel.runtime.state.state_pickling import TokenPlace, declare_frozen, pickle_state, unpickle_state
from tidewheel.runtime.tokens.token_set import TokenSet


@pytest.fixture
def bench() -> TokenBench:
    return TokenBench()


def test_a_token_is_pickled_as_its_place(bench: TokenBench) -> None:
    """Its output, its time and its substream; and who takes the snapshot is told which tokens there are."""
    held = {"first": bench.token(3), "second": [bench.token(5, 1, (2, "key"))]}
    pickled = pickle_state(held)
    assert [token.time for token in pickled.tokens] == [3, 5]
    again = unpickle_state(pickled.data, bench.make)
    assert bench.made == [TokenPlace(0, 3, None), TokenPlace(1, 5, (2, "key"))]
    assert (again["first"].time, again["second"][0]._output, again["second"][0].key) == (3, 1, "key")


def test_one_token_twice_is_one_token(bench: TokenBench) -> None:
    """Within one value, as pickle has it."""
    token = bench.token(1)
    pickled = pickle_state([token, token])
    assert len(pickled.tokens) == 1
    first, second = unpickle_state(pickled.data, bench.make)
    assert first is second
    assert len(bench.made) == 1


def test_a_token_that_was_discarded_is_dead_again(bench: TokenBench) -> None:
    """It counts for nothing, and using it is the error that it was before."""
    token = bench.token(1)
    token.discard()
    assert pickle_state([token]).tokens == ()
    (again,) = bench.again([token])
    assert not again.is_live
    with raises(tw.errors.TokenError):
        again.delayed(2)


class Frozen:
    """A value that never changes."""


def test_a_frozen_value_has_a_name(bench: TokenBench) -> None:
    """The same each time, and it is one object again in all that names it."""
    declare_frozen(Frozen)
    one = Frozen()
    pickled = pickle_state([one, one], names_frozen=True)
    ((name, found),) = pickled.frozen.items()
    assert found is one
    assert pickle_state({"again": one}, names_frozen=True).frozen == {name: one}
    assert unpickle_state(pickled.data, bench.make, {name: "it"}.__getitem__) == ["it", "it"]
    assert pickle_state([one]).frozen == {}
    assert isinstance(bench.again([one])[0], Frozen)


def test_a_token_set_is_there_again(bench: TokenBench) -> None:
    """With all its tokens."""
    held = TokenSet([bench.token(4)])
    again = bench.again({"held": held})["held"]
    assert again.times == (4,)
    again.downgrade([7])
    assert again.times == (7,)


def test_a_token_is_pickled_where_a_lambda_needs_pickling_by_value(bench: TokenBench) -> None:
    """Two picklers have to know it."""
    pickled = pickle_state([bench.token(2), lambda number: number + 1])
    assert [token.time for token in pickled.tokens] == [2]
    token, function = unpickle_state(pickled.data, bench.make)
    assert (token.time, function(1)) == (2, 2)


def test_a_token_goes_nowhere_else(bench: TokenBench) -> None:
    """What pickles state does not change what `pickle` refuses."""
    token = bench.token(2)
    pickle_state([token])
    for dumps in (pickle.dumps, cloudpickle.dumps):
        with raises(tw.errors.TokenError):
            dumps(token)


@pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatch])
def test_a_slice_of_arrow_takes_only_its_rows_along(kind: Any, bench: TokenBench) -> None:
    """And a slice is the same slice again."""
    whole = kind.from_pydict({"number": list(range(100_000)), "text": ["a"] * 100_000})
    part = whole.slice(500, 10)
    assert len(pickle_state([part]).data) < 10_000
    (again,) = bench.again([part])
    assert type(again) is kind
    assert again.equals(part)


def test_a_thread_may_import_arrow_meanwhile(monkeypatch: pytest.MonkeyPatch, bench: TokenBench) -> None:
    """The module is there already, and has no classes yet: so no state has values of them."""
    monkeypatch.setitem(sys.modules, "pyarrow", ModuleType("pyarrow"))
    assert unpickle_state(pickle_state([1]).data, bench.make) == [1]


def test_columns_of_all_kinds_are_there_again(bench: TokenBench) -> None:
    """Tables without columns know how many rows they have, and arrays their types."""
    empty = pa.table({"number": [1, 2]}).select([])
    array = np.arange(10, dtype=np.int16)[2:4]
    found, numbers = bench.again([empty, array])
    assert found.num_rows == 2
    assert (numbers.dtype, list(numbers)) == (np.int16, [2, 3])


def test_an_error_says_what_cannot_be_pickled() -> None:
    """That is for the operator whose state it is to say where."""
    with raises(TypeError):
        pickle_state({"key": (letter for letter in "ab")})


def test_tokens_of_a_value_inside_of_another_are_its_own(bench: TokenBench) -> None:
    """What makes the tokens of one value is forgotten behind it."""
    other = TokenBench()

    class Nested:
        def __reduce__(self) -> Any:
            return _unpickled_by_itself, (pickle_state([other.token(9)]).data,)

    _OTHERS.append(other)
    inner, token = bench.again([Nested(), bench.token(1)])
    assert (inner[0].time, token.time) == (9, 1)
    assert [place.time for place in bench.made] == [1]


_OTHERS: list[TokenBench] = []


def _unpickled_by_itself(data: bytes) -> Any:
    return unpickle_state(data, _OTHERS.pop().make)


@pytest.fixture
def main_program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A main program that defines classes."""
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    define(program)
    return program


def define(program: ModuleType) -> None:
    """Define the classes of the main program, as a program does each time it is started."""
    source = (
        "from dataclasses import dataclass\nfrom enum import Enum\n"
        "@dataclass(frozen=True)\nclass Point:\n    x: int\n    def far(self):\n        return self.x * 10\n"
        "class Colour(Enum):\n    RED = 1\n"
        "class Outer:\n    class Inner:\n        pass\n"
    )
    exec(compile(source, "<main>", "exec"), program.__dict__)


def test_a_class_of_the_main_program_is_the_one_that_it_defines_now(
    main_program: ModuleType, bench: TokenBench
) -> None:
    """A program that goes on from a snapshot has new classes: what was saved equals new records, and has new code."""
    token = bench.token(4)
    saved = pickle_state({main_program.Point(1): [token, main_program.Colour.RED, main_program.Outer.Inner]}).data
    define(main_program)
    again = unpickle_state(saved, bench.make)
    found, colour, inner = again[main_program.Point(1)]
    assert found.time == 4
    assert colour is main_program.Colour.RED
    assert inner is main_program.Outer.Inner


def test_a_class_of_the_main_program_is_found_where_the_dataflow_has_brought_it(
    main_program: ModuleType, bench: TokenBench
) -> None:
    """In a worker of Ray, the main program is another one; the classes came with the functions of the operators."""
    saved = pickle_state([main_program.Point(1)]).data
    define(main_program)
    gc.collect()
    brought = main_program.Point
    cloudpickle.dumps(brought)
    vars(main_program).clear()
    (again,) = unpickle_state(saved, bench.make)
    assert type(again) is brought


def test_a_class_of_the_main_program_that_is_gone_is_as_it_was(main_program: ModuleType, bench: TokenBench) -> None:
    """Nothing that was saved is lost with it."""
    saved = pickle_state([main_program.Point(3)]).data
    vars(main_program).clear()
    gc.collect()
    (again,) = unpickle_state(saved, bench.make)
    assert again.far() == 30


def test_a_class_that_a_function_has_made_is_the_one_that_the_next_run_makes(
    main_program: ModuleType, bench: TokenBench
) -> None:
    """It has another id in each run, so it is found by its name if one class has that."""
    make = "def make():\n    class Local:\n        pass\n    return Local\n"
    exec(make, main_program.__dict__)
    saved = pickle_state([main_program.make()()]).data
    gc.collect()
    exec(make, main_program.__dict__)
    again = main_program.make()
    cloudpickle.dumps(again)
    (found,) = unpickle_state(saved, bench.make)
    assert type(found) is again
