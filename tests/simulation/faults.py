"""The faults seeded into the core, each of which the observer must catch: how we know that the checker checks."""

from tests.kit.simulation.fault import Fault
from tests.simulation import delivery_faults, flow_faults, link_faults, report_faults, view_faults
from tests.simulation.scenario import Scenario
from tidewheel.runtime.messages.credit import DEFAULT_BYTES_IN_FLIGHT


def _several_workers(scenario: Scenario) -> bool:
    return scenario.workers > 1


def _leaking(scenario: Scenario) -> bool:
    return scenario.leaks


def _held_back(scenario: Scenario) -> bool:
    return _several_workers(scenario) and scenario.hold_back


def _limited(scenario: Scenario) -> bool:
    return _several_workers(scenario) and scenario.bytes_in_flight < DEFAULT_BYTES_IN_FLIGHT


def _accumulated(scenario: Scenario) -> bool:
    return _held_back(scenario) and scenario.progress == "accumulated"


FAULTS: tuple[Fault[Scenario], ...] = (
    Fault("a batch split in two", link_faults.split_batch, concerns=_several_workers),
    Fault("a reordered channel", link_faults.reordered_channel, concerns=_several_workers),
    Fault("a batch applied twice", link_faults.applied_twice, concerns=_several_workers),
    Fault("a consumed message whose token is not reported", report_faults.retained_token_lost),
    Fault("a consumed message whose token is reported a step later", report_faults.retained_token_late),
    Fault("a downgrade reported in halves", report_faults.downgrade_in_halves),
    Fault(
        "a message reported as consumed before it is read",
        report_faults.consumed_before_read,
        concerns=_several_workers,
    ),
    Fault("a message sent and not reported", report_faults.sent_uncounted),
    Fault("a message counted for its sender", report_faults.counted_for_the_sender, concerns=_several_workers),
    Fault("an empty batch counted as a message", report_faults.empty_batch_counted),
    Fault("a leak not reported", report_faults.leak_unreported, concerns=_leaking),
    Fault("a leaked token that lives on", report_faults.leaked_token_kept, concerns=_leaking),
    Fault("hold-back that drops an update", view_faults.held_update_dropped, concerns=_held_back),
    Fault("hold-back that never looks again", view_faults.held_never_looked_at_again, concerns=_held_back),
    Fault("hold-back for ever", view_faults.held_for_ever, concerns=_held_back),
    Fault("hold-back of what only covers itself", view_faults.covered_by_itself, concerns=_held_back),
    Fault("one worker's initial count missing", view_faults.initial_count_missing),
    Fault("a summary dropped", view_faults.summary_dropped),
    Fault(
        "other workers' messages that lead nowhere",
        view_faults.other_workers_messages_lead_nowhere,
        concerns=_several_workers,
    ),
    Fault("only one of several summaries kept", view_faults.one_summary_of_several),
    Fault(
        "a negative count that cancels a positive one elsewhere", view_faults.counts_cancel, concerns=_several_workers
    ),
    Fault("a frontier not renewed", view_faults.frontier_not_renewed),
    Fault("an operator not woken when its frontier moves", view_faults.operator_not_woken),
    Fault("no initial counts in loops", view_faults.no_counts_in_loops),
    Fault("an accumulator that waits for one more", view_faults.accumulator_waits_for_one_more, concerns=_accumulated),
    Fault("asleep with progress to send", view_faults.asleep_with_something_to_tell, concerns=_accumulated),
    Fault("unread messages forgotten", view_faults.unread_messages_forgotten),
    Fault("a set of tokens downgraded in part", report_faults.set_downgraded_in_part),
    Fault("a message lost", delivery_faults.message_lost),
    Fault("a message repeated", delivery_faults.message_repeated),
    Fault("records brought astray", delivery_faults.records_astray, concerns=_several_workers),
    Fault("an early command lost", delivery_faults.early_command_lost),
    Fault("an activation that does not wake", delivery_faults.activation_unheard),
    Fault("an operator scheduled twice in a step", delivery_faults.scheduled_twice),
    Fault("a token that goes back", delivery_faults.token_that_goes_back),
    Fault("a token lent for ever", delivery_faults.token_lent_for_ever),
    Fault("congestion that is never over", flow_faults.congestion_never_over, concerns=_limited),
    Fault("credit that nobody hears of", flow_faults.credit_unheard, concerns=_limited),
    Fault("a source that is held back and forgotten", flow_faults.held_source_forgotten, concerns=_limited),
)
