"""The faults seeded into the cores, each of which the checks must catch: how we know that they check."""

from tests.kit.simulation.fault import Fault
from tests.simulation_pubsub import delivery_faults, epoch_faults, hold_faults, queue_faults
from tests.simulation_pubsub.scenario import PLENTY, Scenario


def _several(scenario: Scenario) -> bool:
    return scenario.partitions > 1


def _dropping(scenario: Scenario) -> bool:
    return scenario.capacity_bytes < PLENTY and any(reading.may_drop for reading in scenario.readers)


def _holding(scenario: Scenario) -> bool:
    return scenario.capacity_bytes < PLENTY and any(reading.slow == "block" for reading in scenario.readers)


_ATOMICITY = frozenset({"atomicity", "agreement"})
_DROPS = frozenset({"dropped", "statistics", "atomicity", "missed", "hole"})

FAULTS: tuple[Fault[Scenario], ...] = (
    Fault("the seed's own rule", epoch_faults.upper_frontiers_only, _ATOMICITY, _several),
    Fault("a filter without upper frontiers", epoch_faults.lower_frontiers_only, _ATOMICITY),
    Fault("a filter by active epochs", epoch_faults.active_epochs_only, _ATOMICITY | {"hole", "statistics"}),
    Fault("only what is after all upper elements", epoch_faults.strictly_later_only, frozenset({"missed", "hole"})),
    Fault("an upper frontier of one element", epoch_faults.upper_frontier_forgotten, _ATOMICITY | {"hole"}),
    Fault("a frontier merged by maximum", epoch_faults.frontier_of_the_quickest, frozenset({"frontier"}), _several),
    Fault("an end that does not retract its frontier", epoch_faults.ended_partition_holds_back, frozenset({"end"})),
    Fault(
        "a gap that is not noticed",
        delivery_faults.gap_unnoticed,
        frozenset({"frontier", "end", "rest", "missed"}) | _DROPS,
    ),
    Fault("a message lost", delivery_faults.message_lost, frozenset({"protocol"})),
    Fault(
        "a message twice",
        delivery_faults.duplicates_delivered,
        frozenset({"atomicity", "end", "rest", "frontier", "dropped"}),
    ),
    Fault(
        "numbers that begin anew",
        delivery_faults.numbering_restarts,
        frozenset({"protocol", "missed", "stuck", "rest", "frontier", "end"}),
    ),
    Fault("numbers left out in silence", delivery_faults.skipped_untold, frozenset({"protocol"})),
    Fault("part of an epoch dropped", queue_faults.part_of_an_epoch_dropped, frozenset({"dropped"}), _dropping),
    Fault("begun epochs forgotten", queue_faults.begun_epochs_forgotten_once_passed, frozenset({"dropped"}), _dropping),
    Fault("a dropped epoch not told", queue_faults.drops_untold, _DROPS | {"rest", "end"}, _dropping),
    Fault("the rest of a dropped epoch sent", queue_faults.rest_of_a_dropped_epoch_sent, _DROPS, _dropping),
    Fault("a dropped epoch delivered", queue_faults.drop_heeded_by_one_partition, _DROPS, _dropping),
    Fault("no waiting for whole epochs", queue_faults.dropping_without_holding, _DROPS, _dropping),
    Fault("no bound", queue_faults.no_bound, frozenset({"memory"}), _dropping),
    Fault("fullness forgotten", hold_faults.fullness_forgotten, frozenset({"memory"}), _holding),
    Fault("a publisher that goes on while held", hold_faults.goes_on_while_held, frozenset({"memory"}), _holding),
    Fault("full for ever", hold_faults.full_for_ever, frozenset({"held"}), _holding),
    Fault("cut off while it takes", hold_faults.cut_off_while_it_takes, frozenset({"held"}), _holding),
    Fault("no waiting for who asked for it", hold_faults.does_not_wait, frozenset({"cut off"}), _holding),
    Fault("the last word lost", hold_faults.last_word_under_an_old_number, frozenset({"stuck"}), _holding),
    Fault("everybody may hold", hold_faults.everybody_holds, frozenset({"held"}), _holding),
    Fault("the last one forgotten", delivery_faults.last_one_forgotten, frozenset({"stuck", "isolation", "protocol"})),
    Fault("everybody cut off", delivery_faults.condition_of_somebody_else, frozenset({"cut off", "isolation"})),
    Fault("everything decoded", epoch_faults.decoded_at_once, frozenset({"statistics"})),
    Fault(
        "epochs complete too early", epoch_faults.epochs_complete_too_early, frozenset({"atomicity", "order", "rest"})
    ),
    Fault("what waited is lost", epoch_faults.one_partition_late, _ATOMICITY | {"missed", "hole", "rest"}, _several),
)
