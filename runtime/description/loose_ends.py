"""Warnings about unread streams: mostly a forgotten sink, sometimes lost records."""

import logging

from tidewheel.runtime.description.dataflow_description import DataflowDescription

_LOG = logging.getLogger(__name__)


def loose_ends(description: DataflowDescription) -> list[str]:
    """Return the names of useless operators: their outputs are neither read nor probed, and they have no effect.

    A loop is useful if an operator in it has an effect. Linear, plus O(n) for each loop.
    """
    operators, effects = description.operators, description.effects
    read = {source.operator for source in (*description.probes.values(), *description.ignored)}
    for index in reversed(range(len(operators))):  # operators come before their readers
        if index in read or effects.get(index, True):
            read |= {source.operator for source in operators[index].sources if source is not None}
    found: list[str] = []
    for index, operator in enumerate(operators):
        if index in read or index in effects or not operator.output_scopes:
            continue
        left = [scope for scope in operator.input_scopes if scope.path and scope not in operator.output_scopes]
        loops = tuple(f"{scope.path}/" for scope in left)
        within = (
            at for at, one in enumerate(operators) if any(f"{s.path}/".startswith(loops) for s in one.input_scopes)
        )
        if not any(at in effects or not operators[at].output_scopes for at in within):
            found.append(operator.name)
    return found


def unread_outputs(description: DataflowDescription) -> list[str]:
    """Return the unread outputs, such as ``'window'.late``, of operators whose other outputs are read; linear.

    A probe and `Stream.ignore` count as readers.
    """
    read = {source for operator in description.operators for source in operator.sources}
    read |= {*description.probes.values(), *description.ignored}
    return [
        f"{description.operators[next(iter(outputs.values())).operator].name!r}{name}"
        for outputs in description.side_by_side
        if not read.isdisjoint(outputs.values())
        for name, source in outputs.items()
        if source not in read
    ]


def warn_of_loose_ends(description: DataflowDescription) -> None:
    if not description.size:
        _LOG.warning("dataflow %r is empty: it ends at once. Add streams with its input(), source()", description.name)
    if names := loose_ends(description):
        _LOG.warning(
            "dataflow %r: nothing reads what %s sends, so those records are lost. Add capture(name), publish(topic) or "
            "another sink, probe(name) to wait for it, or use inspect(function) for an effect",
            description.name,
            " and ".join(map(repr, names)),
        )
    if unread := unread_outputs(description):
        _LOG.warning(
            "dataflow %r: nothing reads %s, so records that leave there are lost. Add capture(name), publish(topic) "
            "or another sink to each, or call its ignore() if that is meant. job.statistics() counts these records as "
            "dropped",
            description.name,
            ", ".join(unread),
        )
