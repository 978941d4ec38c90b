"""The faults seeded into the core, each of which the observer must catch: how we know that the checker checks."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation import delivery_faults, flow_faults, link_faults, report_faults, view_faults
from tests.simulation.injection import Injection
from tests.simulation.scenario import Scenario
from tidewheel.runtime.worker.flow_control import DEFAULT_BYTES_IN_FLIGHT


def _several_workers(scenario: Scenario) -> bool:
    return scenario.workers > 1


@dataclass(frozen=True, slots=True)
class Fault:
    """One way for the core to be wrong.

    Attributes:
        name: what is wrong, in a few words.
        inject: returns a context in which the core is wrong.
        concerns: whether the fault can show in a scenario at all.
    """

    name: str
    inject: Callable[[], Injection]
    concerns: Callable[[Scenario], bool] = _several_workers


def _always(scenario: Scenario) -> bool:
    return True


def _leaking(scenario: Scenario) -> bool:
    return scenario.leaks


def _held_back(scenario: Scenario) -> bool:
    return _several_workers(scenario) and scenario.hold_back


def _limited(scenario: Scenario) -> bool:
    return _several_workers(scenario) and scenario.bytes_in_flight < DEFAULT_BYTES_IN_FLIGHT


def _accumulated(scenario: Scenario) -> bool:
    return _held_back(scenario) and scenario.progress == "accumulated"


FAULTS = (
    Fault("a batch split in two", link_faults.split_batch),
    Fault("a reordered channel", link_faults.reordered_channel),
    Fault("a batch applied twice", link_faults.applied_twice),
    Fault("a consumed message whose token is not reported", report_faults.retained_token_lost, _always),
    Fault("a consumed message whose token is reported a step later", report_faults.retained_token_late, _always),
    Fault("a downgrade reported in halves", report_faults.downgrade_in_halves, _always),
    Fault("a message reported as consumed before it is read", report_faults.consumed_before_read),
    Fault("a message sent and not reported", report_faults.sent_uncounted, _always),
    Fault("an empty batch counted as a message", report_faults.empty_batch_counted, _always),
    Fault("a leak not reported", report_faults.leak_unreported, _leaking),
    Fault("a leaked token that lives on", report_faults.leaked_token_kept, _leaking),
    Fault("hold-back that drops an update", view_faults.held_update_dropped, _held_back),
    Fault("hold-back that never looks again", view_faults.held_never_looked_at_again, _held_back),
    Fault("hold-back for ever", view_faults.held_for_ever, _held_back),
    Fault("hold-back of what only covers itself", view_faults.covered_by_itself, _held_back),
    Fault("one worker's initial count missing", view_faults.initial_count_missing, _always),
    Fault("a summary dropped", view_faults.summary_dropped, _always),
    Fault("only one of several summaries kept", view_faults.one_summary_of_several, _always),
    Fault("a negative count that cancels a positive one elsewhere", view_faults.counts_cancel),
    Fault("a frontier not renewed", view_faults.frontier_not_renewed, _always),
    Fault("an operator not woken when its frontier moves", view_faults.operator_not_woken, _always),
    Fault("no initial counts in loops", view_faults.no_counts_in_loops, _always),
    Fault("an accumulator that waits for one more", view_faults.accumulator_waits_for_one_more, _accumulated),
    Fault("asleep with progress to send", view_faults.asleep_with_something_to_tell, _accumulated),
    Fault("unread messages forgotten", view_faults.unread_messages_forgotten, _always),
    Fault("a set of tokens downgraded in part", report_faults.set_downgraded_in_part, _always),
    Fault("a message lost", delivery_faults.message_lost, _always),
    Fault("a message repeated", delivery_faults.message_repeated, _always),
    Fault("records brought astray", delivery_faults.records_astray),
    Fault("an early command lost", delivery_faults.early_command_lost, _always),
    Fault("an activation that does not wake", delivery_faults.activation_unheard, _always),
    Fault("an operator scheduled twice in a step", delivery_faults.scheduled_twice, _always),
    Fault("a token that goes back", delivery_faults.token_that_goes_back, _always),
    Fault("a token lent for ever", delivery_faults.token_lent_for_ever, _always),
    Fault("congestion that is never over", flow_faults.congestion_never_over, _limited),
    Fault("credit that nobody hears of", flow_faults.credit_unheard, _limited),
    Fault("a source that is held back and forgotten", flow_faults.held_source_forgotten, _limited),
)
