"""The operators of a snapshot, matched with those of a later program.

If the program has named an operator, the name decides. Generated names depend on the order of operators, so an unnamed
operator is found by its method, its arguments, and the inputs and sources whose records reach it. If several match, the
program must name them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from tidewheel.runtime.description.origin import Origin
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.errors import SnapshotError

Keeps: TypeAlias = Literal["state", "records", ""]
"""What a snapshot has of an operator: its state, only records that wait for it, or nothing."""


@dataclass(frozen=True, slots=True)
class KnownOperator:
    """One operator of a program. A fused chain counts as its first operator.

    Attributes:
        inputs: the names of the operators without inputs whose records can reach it.
        part_name: the operator's name in the files of a snapshot, if that differs.
    """

    name: str
    base_name: str
    origin: Origin
    inputs: tuple[str, ...] = ()
    keeps: Keeps = ""
    part_name: str = ""

    @property
    def kept_as(self) -> str:
        return self.part_name or self.name


class Changed(NamedTuple):
    """An operator that differs from the snapshot only in functions: those in ``arguments``."""

    name: str
    arguments: tuple[str, ...]


_Pair: TypeAlias = tuple[KnownOperator, KnownOperator]
"""An operator of a snapshot, and the operator of the program that continues it."""


@dataclass(slots=True)
class Found:
    """The operators of a snapshot, found in a program.

    Attributes:
        names: an operator's name in the program, by its name in the files of the snapshot.
        changed: operators with changed functions that the program does not accept.
        moved: the new names of operators with state, where these differ from the snapshot.
    """

    names: dict[str, str] = field(default_factory=dict)
    gone_on: set[str] = field(default_factory=set)
    changed: list[Changed] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)


def known_operators(plan: Plan) -> list[KnownOperator]:
    reaches: list[set[int]] = [set() for _ in plan.operators]
    readers: list[list[int]] = [[] for _ in plan.operators]
    for number, operator in enumerate(plan.operators):
        for source in operator.sources:
            readers[source.operator].append(number)
    for first, operator in enumerate(plan.operators):
        left = [first] if not operator.sources else []
        while left:
            number = left.pop()
            if first not in reaches[number]:
                reaches[number].add(first)
                left += readers[number]
    return [
        KnownOperator(
            operator.stages[0].name if operator.stages else operator.name,
            operator.base_name,
            operator.origin,
            tuple(sorted(plan.operators[number].name for number in reaches[place])),
            part_name=operator.name,
        )
        for place, operator in enumerate(plan.operators)
    ]


def without_own_names(operators: Sequence[KnownOperator]) -> list[str]:
    """Return the operators with state that have only generated names, and are not parts of other operators."""
    own = _own_names(operators)
    unnamed = [one for one in operators if one.keeps == "state" and one.name not in own]
    return [one.name for one in unnamed if not one.origin.part] or [one.name for one in unnamed]


def find_operators(
    saved: Sequence[KnownOperator],
    program: Sequence[KnownOperator],
    *,
    where: str,
    accept: Collection[str] = (),
    compares_functions: bool = True,
) -> Found:
    """Return which operator of a program continues the state of each operator of a snapshot.

    Raises:
        SnapshotError: an operator differs in kind, arguments or types, or several operators without names match.
    """
    if not compares_functions:
        saved, program = _without_digests(saved), _without_digests(program)
    pairs = _pairs(saved, program, where)
    found = Found({had.kept_as: has.kept_as for had, has in pairs}, {had.name for had, _ in pairs})
    for had, has in pairs:
        if had.keeps == "state":
            if had.name != has.name:
                found.moved[had.name] = has.name
            arguments = _check_alike(had, has, where, is_accepted=has.name in accept)
            if arguments and has.name not in accept:
                found.changed.append(Changed(has.name, tuple(arguments)))
    return found


def _pairs(saved: Sequence[KnownOperator], program: Sequence[KnownOperator], where: str) -> list[_Pair]:
    had_own, own = _own_names(saved), _own_names(program)
    by_name = {one.base_name: one for one in saved if one.name in had_own} | {one.name: one for one in saved}
    pairs = [(by_name[one.base_name], one) for one in program if one.name in own and one.base_name in by_name]
    had, has = _left(saved, program, pairs)
    pairs += _alike([one for one in had if one.name not in had_own], has, where)
    had, has = _left(saved, program, pairs)
    for base in dict.fromkeys(one.base_name for one in had):
        of_base = [one for one in has if one.base_name == base and one.name not in own]
        pairs += _in_order([one for one in had if one.base_name == base], of_base, where)
    return pairs


def _left(
    saved: Sequence[KnownOperator], program: Sequence[KnownOperator], pairs: Sequence[_Pair]
) -> tuple[list[KnownOperator], list[KnownOperator]]:
    had, has = {one.name for one, _ in pairs}, {one.name for _, one in pairs}
    return [one for one in saved if one.name not in had], [one for one in program if one.name not in has]


def _alike(had: Sequence[KnownOperator], has: Sequence[KnownOperator], where: str) -> list[_Pair]:
    pairs: list[_Pair] = []
    now = _grouped(has)
    for content, ones in _grouped(had).items():
        others = now.get(content, [])
        if others and len(ones) != len(others):
            _check_nothing_kept(ones, others, where)
        pairs += zip(ones, others, strict=False)
    return pairs


def _in_order(had: Sequence[KnownOperator], has: Sequence[KnownOperator], where: str) -> list[_Pair]:
    pairs = list(zip(had, has, strict=False))
    inputs = [(set(before.inputs), set(now.inputs)) for before, now in pairs]
    if pairs and (len(had) != len(has) or not all(one <= other or other <= one for one, other in inputs)):
        _check_nothing_kept(had, has, where)
    return pairs


def _check_nothing_kept(had: Sequence[KnownOperator], has: Sequence[KnownOperator], where: str) -> None:
    kept = [one for one in had if one.keeps]
    if kept:
        names = ", ".join(f"name={one.name.rpartition('/')[2]!r}" for one in kept)
        raise SnapshotError(
            f"{where} has something of {_listed(kept)}, whose names come from the order in which operators are added. "
            f"The dataflow has {_listed(has)}, and it is not clear which of them goes on with it. Give each that does "
            f"the name that it had, {names}, and the others names of their own"
        )


def _grouped(operators: Iterable[KnownOperator]) -> Mapping[object, list[KnownOperator]]:
    groups: dict[object, list[KnownOperator]] = defaultdict(list)
    for one in operators:
        groups[_content(one)].append(one)
    return groups


def _content(operator: KnownOperator) -> object:
    origin = operator.origin
    return origin.method, origin.part, tuple(sorted(origin.parameters.items(), key=lambda it: it[0])), operator.inputs


def _own_names(operators: Iterable[KnownOperator]) -> set[str]:
    operators = list(operators)
    bases = Counter(one.base_name for one in operators)
    return {one.name for one in operators if one.origin.is_named and bases[one.base_name] == 1}


def _without_digests(operators: Sequence[KnownOperator]) -> list[KnownOperator]:
    def without(origin: Origin) -> Origin:
        return replace(origin, parameters={name: replace(it, functions=()) for name, it in origin.parameters.items()})

    return [replace(one, origin=without(one.origin)) for one in operators]


def _check_alike(had: KnownOperator, has: KnownOperator, where: str, *, is_accepted: bool) -> list[str]:
    before, now = had.origin, has.origin
    anew = f"To begin anew, give it another name and drop what it had, Snapshots(..., without=[{had.name!r}])"
    if before.method and now.method and (before.method, before.part) != (now.method, now.part):
        raise SnapshotError(
            f"operator {has.name!r} comes from {now.method}(), and in {where} from {before.method}(): give this name "
            f"to the one that goes on. {anew}"
        )
    changed: list[str] = []
    both = before.parameters.keys() & now.parameters.keys() if before.method == now.method else ()
    for name in sorted(both):
        old, new = before.parameters[name], now.parameters[name]
        text = f"operator {has.name!r} has {name} {new}, and {old} in {where}. What it keeps is made with the latter"
        if old.value != new.value:
            raise SnapshotError(f"{text}: let it be as it was. {anew}")
        if old.types != new.types and not is_accepted:
            raise SnapshotError(
                f"{text}: let it be as it was. If what it keeps fits nonetheless, run with Snapshots(..., "
                f"accept=[{has.name!r}]). {anew}"
            )
        if old.functions != new.functions:
            changed.append(name)
    return changed


def _listed(operators: Iterable[KnownOperator]) -> str:
    return ", ".join(repr(one.name) for one in operators)
