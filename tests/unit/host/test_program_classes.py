"""The tracker of classes: which class of a process a definition stands for, with a tracker for each process."""

import pickle
import threading
from types import ModuleType
from typing import Any

import pytest

from tests.kit.classes.main_programs import execute, program, runs
from tests.kit.messages import raises
from tidewheel.host.class_definition import parsed
from tidewheel.host.program_classes import CLASSES, ClassChanged, ProgramClasses, checked, dump_by_value
from tidewheel.progress import TidewheelError

POINT = "@dataclass(frozen=True)\nclass Point:\n    x: int\n    def far(self):\n        return self.x * {}\n"


def id_in(main: ModuleType, tracker: ProgramClasses) -> str:
    """Return the id of the class that a main program has now."""
    with runs(main):
        return tracker.id_of(main.__dict__["Point"])


def came(cell: str) -> Any:
    """Return a class as it comes by value to another process."""
    return program(cell).__dict__["Point"]


@pytest.fixture
def elsewhere() -> ProgramClasses:
    """The tracker of a process that has another main program."""
    return ProgramClasses()


def test_another_run_of_the_program_has_its_own_class() -> None:
    """Also if it has one more method by now."""
    first = program(POINT.format(1))
    id_ = id_in(first, ProgramClasses())
    for cell in (POINT.format(1), POINT.format(1) + "    def near(self): return 0\n"):
        second, tracker = program(cell), ProgramClasses()
        with runs(second):
            assert tracker.tracked(id_, came(POINT.format(1))) is second.__dict__["Point"]


def test_another_run_of_the_program_cannot_have_other_fields() -> None:
    """The error names both, and can be pickled."""
    id_ = id_in(program(POINT.format(1)), ProgramClasses())
    with (
        runs(program("@dataclass\nclass Point:\n    y: int\n")),
        checked(),
        raises(ClassChanged) as raised,
    ):
        ProgramClasses().tracked(id_, came(POINT.format(1)))
    assert isinstance(pickle.loads(pickle.dumps(raised.value)), TidewheelError)


def test_a_class_comes_once_to_a_process(elsewhere: ProgramClasses) -> None:
    """The one that came first stays, and has the same id when it is sent on."""
    id_ = id_in(program(POINT.format(1)), ProgramClasses())
    first = came(POINT.format(1))
    assert elsewhere.tracked(id_, first) is first
    assert elsewhere.tracked(id_, came(POINT.format(1))) is first
    assert elsewhere.id_of(first) == id_


def test_a_class_that_nothing_uses_is_forgotten(elsewhere: ProgramClasses) -> None:
    """A process that runs for long, such as a gateway, does not collect classes of programs."""
    import gc

    id_ = id_in(program(POINT.format(1)), ProgramClasses())
    elsewhere.tracked(id_, came(POINT.format(1)))
    gc.collect()
    definition = parsed(id_)
    assert definition is not None
    assert elsewhere.of(definition) is None


def test_a_cell_that_is_executed_again_unchanged_is_the_same_class(elsewhere: ProgramClasses) -> None:
    """What comes back is of the class that the program has now."""
    main, tracker = program(POINT.format(1)), ProgramClasses()
    before = id_in(main, tracker)
    execute(main, POINT.format(1))
    assert id_in(main, tracker) == before
    with runs(main):
        assert tracker.tracked(before, None) is main.__dict__["Point"]


def test_a_class_that_was_defined_again_is_an_error_for_the_program_and_its_workers(elsewhere: ProgramClasses) -> None:
    """In both directions; another process, which is no part of the program, has both."""
    main, tracker, worker = program(POINT.format(1)), ProgramClasses(), ProgramClasses()
    worker.is_worker = True
    before, old, new = id_in(main, tracker), came(POINT.format(1)), came(POINT.format(2))
    assert worker.tracked(before, old) is old
    with runs(main):
        execute(main, POINT.format(2))
        with checked(), raises(ClassChanged):
            tracker.tracked(before, old)
    after = id_in(main, tracker)
    with raises(ClassChanged):
        worker.tracked(after, new)
    assert elsewhere.tracked(before, old) is old
    assert elsewhere.tracked(after, new) is new


def test_what_a_program_does_with_ray_besides_is_its_own() -> None:
    """What it gets from actors of its own is of the class that it was of, though the program has another one by now."""
    main, tracker = program(POINT.format(1)), ProgramClasses()
    before, old = id_in(main, tracker), main.__dict__["Point"]
    execute(main, POINT.format(2))
    with runs(main):
        assert tracker.tracked(before, came(POINT.format(1))) is old


def test_a_new_worker_has_the_new_class() -> None:
    """Only those that have the old one cannot have it."""
    main, tracker, worker = program(POINT.format(1)), ProgramClasses(), ProgramClasses()
    worker.is_worker = True
    id_in(main, tracker)
    execute(main, POINT.format(2))
    new = came(POINT.format(2))
    assert worker.tracked(id_in(main, tracker), new) is new


def test_two_programs_meet_in_a_third_process(elsewhere: ProgramClasses) -> None:
    """With fields that fit they mean the same class: a condition of one's subscriber meets the other's records."""
    one, other = (id_in(program(POINT.format(by)), ProgramClasses()) for by in (1, 2))
    third = id_in(program("@dataclass\nclass Point:\n    y: int\n"), ProgramClasses())
    first, last = came(POINT.format(1)), came("@dataclass\nclass Point:\n    y: int\n")
    assert elsewhere.tracked(one, first) is elsewhere.tracked(other, came(POINT.format(2))) is first
    assert elsewhere.tracked(third, last) is last


def test_classes_that_a_name_does_not_lead_to_have_ids_of_their_own() -> None:
    """Those of functions, those whose name another class has, and the one that a dataclass with slots replaces."""
    cell = "@dataclass(frozen=True, slots=True)\nclass Point:\n    x: int\n"
    main, tracker = program(cell, "def made():\n    class Local: pass\n    return Local\n"), ProgramClasses()
    with runs(main):
        names = main.__dict__
        ids = [
            tracker.id_of(kind)
            for kind in (names["made"](), names["made"](), type("Point", (), {"__module__": "__main__"}))
        ]
        assert [parsed(id_) for id_ in ids] == [None] * 3
        assert len(set(ids)) == 3
        again = pickle.loads(dump_by_value([names["Point"](1), names["Point"]], 5))
        assert again == [names["Point"](1), names["Point"]]


def test_a_class_that_refers_to_one_of_the_same_name_is_not_mistaken_for_it(elsewhere: ProgramClasses) -> None:
    """A dataclass with slots has come by value, with the class that it has replaced; then another version comes."""
    cell = "@dataclass(frozen=True, slots=True)\nclass Point:\n    x: int\n"
    id_, newer = (id_in(program(text), ProgramClasses()) for text in (cell, cell + "    def far(self): return 1\n"))
    replaced, real = came(cell.replace(", slots=True", "")), came(cell)
    assert elsewhere.tracked("0c", replaced) is replaced
    assert elsewhere.tracked(id_, real) is real
    assert elsewhere.tracked(newer, came(cell)) is real


def test_what_another_tracker_has_is_adopted() -> None:
    """With random ids, as Ray had given them before tidewheel was imported: then the definitions are compared."""
    id_, tracker = id_in(program(POINT.format(1)), ProgramClasses()), ProgramClasses()
    first, local = came(POINT.format(1)), type("Local", (), {})
    tracker.adopt([(first, "0a"), (local, "0b")])
    assert tracker.tracked(id_, came(POINT.format(1))) is first
    assert tracker.tracked("0a", None) is first
    assert (tracker.tracked("0b", None), tracker.id_of(local)) == (local, "0b")


def test_a_programs_own_class_keeps_its_attributes() -> None:
    """When it comes back by value: its methods use the variables of the program, and copies would use copies."""
    with runs(program(POINT.format(1))) as main:
        far = main.Point.far
        by_value = CLASSES.pickled(main.Point)
        assert pickle.loads(by_value) is main.Point
        assert main.Point.far is far


def test_an_unfinished_class_is_not_seen_by_another_thread(elsewhere: ProgramClasses) -> None:
    """A class is filled where it is not known to be; only then is it taken for what it is."""
    id_ = id_in(program(POINT.format(1)), ProgramClasses())
    empty = came("class Point: pass\n")
    assert elsewhere.tracked(id_, empty) is empty
    assert not elsewhere.is_filled(empty)
    seen: list[bool] = []

    def set_state(kind: Any, state: Any) -> None:
        thread = threading.Thread(target=lambda: seen.append(elsewhere.is_filled(kind)))
        thread.start()
        thread.join()

    elsewhere.fill(empty, {}, set_state)
    assert seen == [False]
    assert elsewhere.is_filled(empty)
