"""The check that times have a total order, as state across epochs requires."""

from tidewheel.progress import GraphError, IntegerDomain, TimeDomain, UnitDomain
from tidewheel.runtime.description.scope import Scope


def is_total(domain: TimeDomain) -> bool:
    """Tell whether the times of ``domain`` are known to have a total order.

    >>> from tidewheel.progress import ProductDomain
    >>> is_total(IntegerDomain()), is_total(ProductDomain(IntegerDomain(), IntegerDomain()))
    (True, False)
    """
    return any(
        isinstance(domain, kind) and type(domain).less_equal is kind.less_equal for kind in (IntegerDomain, UnitDomain)
    )


def check_total_order(name: str, scope: Scope) -> None:
    """Raise GraphError unless the times of ``scope`` have a total order."""
    if not is_total(scope.nesting.domain):
        raise GraphError(
            f"operator {name!r} processes one epoch after the other, but times in {scope.describe()} are "
            "not all before or after one another. Put it outside of loops, in a dataflow whose epochs are integers"
        )
