"""The map_actors operator: `MapAsync`, whose calls go to the actors of a pool."""

from tidewheel.operators.base.setting_aside import Caught
from tidewheel.operators.pools.actor_pool import pool_name
from tidewheel.operators.pools.pool_calls import PoolCalls
from tidewheel.operators.records.map_async import CallPolicy, MapAsync
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of


def build_map_actors(policy: CallPolicy, *, ordered: bool, caught: Caught = ()) -> Build:
    """Build an operator that calls the pool of its name, and sets aside records with a ``caught`` error."""

    def build(context: OperatorContext) -> Schedule:
        pool = instance_of(context).attachments[pool_name(context.name)]
        calls = PoolCalls(pool, context.worker, context.workers)
        return MapAsync(context, calls, policy, ordered=ordered, caught=caught).schedule

    return build
