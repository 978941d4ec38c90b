"""The faults seeded into the code, each of which a simulated world must catch: how we know that its checks check.

A row has the name of a fault, what injects it, the promises that it breaks if not any, the scenarios in which it can
show if not all, and a seed from which on it is soon caught, if one is known. The rows stand under the parts that the
world needs for them.

`tests/simulation/test_faults.py` begins at the seed of a row; its long form begins at seed 0 and prints where it ended.
"""

from dataclasses import replace

from tests.kit.simulation.fault import Fault
from tests.simulation.faults import epoch_faults as epochs
from tests.simulation.faults import flow_faults as flow
from tests.simulation.faults import hold_faults as holds
from tests.simulation.faults import job_faults as jobs
from tests.simulation.faults import link_faults as links
from tests.simulation.faults import machine_faults as machines
from tests.simulation.faults import message_faults as messages
from tests.simulation.faults import queue_faults as queues
from tests.simulation.faults import report_faults as reports
from tests.simulation.faults import saved_substream_faults as saved
from tests.simulation.faults import snapshot_faults as snapshots
from tests.simulation.faults import substream_faults as substreams
from tests.simulation.faults import travel_faults as travel
from tests.simulation.faults import view_faults as views
from tests.simulation.scenario import DELIVERY, JOBS, SNAPSHOTS, SUBSTREAMS, TOKENS, TOPICS, Has, Scenario
from tests.simulation.snapshots.snapshot_simulation import SnapshotSimulation
from tests.simulation.topics.topic_options import PLENTY, TopicOptions
from tidewheel.runtime.messages.credit import DEFAULT_BYTES_IN_FLIGHT


def _several(scenario: Scenario) -> bool:
    return scenario.lives[0].workers > 1


def _leaking(scenario: Scenario) -> bool:
    return scenario.lives[0].leaks


def _held_back(scenario: Scenario) -> bool:
    return _several(scenario) and scenario.lives[0].hold_back


def _limited(scenario: Scenario) -> bool:
    return _several(scenario) and scenario.lives[0].bytes_in_flight < DEFAULT_BYTES_IN_FLIGHT


def _accumulated(scenario: Scenario) -> bool:
    return _held_back(scenario) and scenario.lives[0].progress == "accumulated"


def _begins_again(scenario: Scenario) -> bool:
    return len(scenario.lives) > 1


def _has_partitions(scenario: Scenario) -> bool:
    return _begins_again(scenario) and _several(scenario)


def _rescaled(scenario: Scenario) -> bool:
    return scenario.is_rescaled


def _swept(scenario: Scenario) -> bool:
    return scenario.least_swept < 4


def _divided(scenario: Scenario) -> bool:
    return bool(SnapshotSimulation(scenario).plan.declarations)


def _divided_several(scenario: Scenario) -> bool:
    return _several(scenario) and _divided(scenario)


def _divided_rescaled(scenario: Scenario) -> bool:
    return _rescaled(scenario) and _divided(scenario)


def _topic(scenario: Scenario) -> TopicOptions:
    assert scenario.topic is not None, "the world has a topic without a log"
    return scenario.topic


def _several_partitions(scenario: Scenario) -> bool:
    return _topic(scenario).partitions > 1


def _dropping(scenario: Scenario) -> bool:
    topic = _topic(scenario)
    return topic.capacity_bytes < PLENTY and any(reading.may_drop for reading in topic.readers)


def _holding(scenario: Scenario) -> bool:
    topic = _topic(scenario)
    return topic.capacity_bytes < PLENTY and any(reading.slow == "block" for reading in topic.readers)


_ENDS = frozenset({"safety", "overtaken", "once"})
_SUBSTREAMS = _ENDS | {"liveness", "left", "divided"}
_ATOMICITY = frozenset({"atomicity", "agreement"})
_DROPS = frozenset({"dropped", "statistics", "atomicity", "missed", "hole"})
_SAVED = frozenset({"restored", "outputs", "liveness"})
_SAVED_ENDS = _SAVED | {"ends", "border", "safety", "raised"}


def _shown_by(has: Has, *faults: Fault[Scenario]) -> tuple[Fault[Scenario], ...]:
    """Return faults that a world with some parts can show."""
    return tuple(replace(fault, has=has) for fault in faults)


FAULTS: tuple[Fault[Scenario], ...] = (
    *_shown_by(
        TOKENS,
        Fault("a batch split in two", links.split_batch, concerns=_several, seed=1),
        Fault("a reordered channel", links.reordered_channel, concerns=_several, seed=133),
        Fault("a batch applied twice", links.applied_twice, concerns=_several, seed=1),
        Fault("a consumed message whose token is not reported", reports.retained_token_lost, seed=1),
        Fault("a consumed message whose token is reported a step later", reports.retained_token_late, seed=1),
        Fault("a downgrade reported in halves", reports.downgrade_in_halves, seed=0),
        Fault(
            "a message reported as consumed before it is read", reports.consumed_before_read, concerns=_several, seed=1
        ),
        Fault("a message sent and not reported", reports.sent_uncounted, seed=1),
        Fault("a message counted for its sender", reports.counted_for_the_sender, concerns=_several, seed=2),
        Fault("an empty batch counted as a message", reports.empty_batch_counted, seed=1),
        Fault("a leak not reported", reports.leak_unreported, concerns=_leaking, seed=3),
        Fault("a leaked token that lives on", reports.leaked_token_kept, concerns=_leaking, seed=3),
        Fault("hold-back that drops an update", views.held_update_dropped, concerns=_held_back, seed=1),
        Fault("hold-back that never looks again", views.held_never_looked_at_again, concerns=_held_back, seed=1),
        Fault("hold-back for ever", views.held_for_ever, concerns=_held_back, seed=1),
        Fault("hold-back of what only covers itself", views.covered_by_itself, concerns=_held_back, seed=1),
        Fault("one worker's initial count missing", views.initial_count_missing, seed=1),
        Fault("a summary dropped", views.summary_dropped, seed=1),
        Fault(
            "other workers' messages that lead nowhere",
            views.other_workers_messages_lead_nowhere,
            concerns=_several,
            seed=2,
        ),
        Fault("only one of several summaries kept", views.one_summary_of_several, seed=1),
        Fault("a negative count that cancels a positive one elsewhere", views.counts_cancel, concerns=_several, seed=5),
        Fault("a frontier not renewed", views.frontier_not_renewed, seed=0),
        Fault("an operator not woken when its frontier moves", views.operator_not_woken, seed=1),
        Fault("no initial counts in loops", views.no_counts_in_loops, seed=0),
        Fault(
            "an accumulator that waits for one more",
            views.accumulator_waits_for_one_more,
            concerns=_accumulated,
            seed=3,
        ),
        Fault("asleep with progress to send", views.asleep_with_something_to_tell, concerns=_accumulated, seed=3),
        Fault("unread messages forgotten", views.unread_messages_forgotten, seed=6),
        Fault("a set of tokens downgraded in part", reports.set_downgraded_in_part, seed=7),
        Fault("a message lost", messages.message_lost, seed=1),
        Fault("a message repeated", messages.message_repeated, seed=1),
        Fault("records brought astray", messages.records_astray, concerns=_several, seed=1),
        Fault("an early command lost", messages.early_command_lost, seed=17),
        Fault("an activation that does not wake", messages.activation_unheard, seed=0),
        Fault("an operator scheduled twice in a step", messages.scheduled_twice, seed=1),
        Fault("a token that goes back", messages.token_that_goes_back, seed=1),
        Fault("a token lent for ever", messages.token_lent_for_ever, seed=1),
        Fault("congestion that is never over", flow.congestion_never_over, concerns=_limited, seed=3),
        Fault("credit that nobody hears of", flow.credit_unheard, concerns=_limited, seed=3),
        Fault("a source that is held back and forgotten", flow.held_source_forgotten, concerns=_limited, seed=3),
    ),
    *_shown_by(
        SUBSTREAMS,
        Fault("what has come to be told a batch later", substreams.split_batch, _ENDS, _several, seed=0),
        Fault("a retained token not counted", substreams.retained_uncounted, _ENDS | {"liveness", "refused"}, seed=0),
        Fault("a key used again before it is over", substreams.gate_reopens_early, _SUBSTREAMS, seed=0),
        Fault("records that overtake an end on the way", substreams.heard_ignored, _ENDS, _several, seed=2),
        Fault("a message consumed on arrival", substreams.consumed_on_arrival, _SUBSTREAMS, _several, seed=1),
        Fault(
            "all closed once one worker has finished", substreams.finished_by_the_first, _SUBSTREAMS, _several, seed=1
        ),
        Fault("a worker's closing counted twice", substreams.closed_twice, _SUBSTREAMS | {"refused"}, _several, seed=1),
        Fault("records of a key before the end that waits", substreams.reused_not_held, _ENDS | {"liveness"}, seed=2),
        Fault(
            "a key over before its end is told",
            substreams.over_before_told,
            _ENDS | {"liveness", "order", "border"},
            seed=8,
        ),
        Fault("ends told in reverse", substreams.ends_reversed, frozenset({"order"}), seed=3),
        Fault("two ends of a key told as one", substreams.told_once, _ENDS | {"liveness"}, seed=21),
        Fault(
            "workers not asked what is about to end",
            substreams.never_asked,
            frozenset({"liveness", "complete", "refused"}),
            _several,
            seed=0,
        ),
        Fault("records of what has ended let in", substreams.closed_let_in, _SUBSTREAMS | {"refused"}, seed=0),
        Fault("a firm bound that holds nothing", substreams.firm_let_through, _SUBSTREAMS | {"border"}, seed=1),
        Fault("what a firm bound holds not counted", substreams.held_uncounted, _SUBSTREAMS, seed=5),
        Fault("an end before the substream", substreams.end_before_piece, _SUBSTREAMS | {"border"}, seed=1),
    ),
    *_shown_by(
        SNAPSHOTS,
        Fault("a late envelope missed", snapshots.late_envelope_missed, _SAVED, seed=12),
        Fault("a message recorded twice", snapshots.message_recorded_twice, _SAVED, _several, seed=12),
        Fault("a message applied and recorded", snapshots.applied_and_recorded, _SAVED, seed=10),
        Fault("late envelopes recorded too short", snapshots.recorded_until_any_marker, _SAVED, _several, seed=2),
        Fault(
            "a part taken after the first envelope", snapshots.taken_after_the_first_envelope, _SAVED, _several, seed=43
        ),
        Fault("a marker not sent", snapshots.marker_not_sent, frozenset({"snapshot"}), _several, seed=2),
        Fault("a token lost", snapshots.token_lost, _SAVED, seed=0),
        Fault("a token saved twice", snapshots.token_twice, _SAVED, seed=0),
        Fault("tokens of old values stay", snapshots.old_tokens_stay, _SAVED, _swept, seed=26),
        Fault("a changed key not noted", snapshots.change_not_noted, _SAVED, _swept, seed=18),
        Fault("a gone key that comes back", snapshots.gone_key_comes_back, _SAVED, _swept, seed=18),
        Fault("a sweep that ends too early", snapshots.sweep_ends_early, _SAVED, _swept, seed=65),
        Fault("an old value that wins", snapshots.old_value_wins, _SAVED, _swept, seed=18),
        Fault(
            "changes lost with a snapshot that is given up",
            snapshots.given_up_changes_lost,
            _SAVED | {"raised"},
            _swept,
            seed=21,
        ),
        Fault("positions before the marker", snapshots.positions_before_the_marker, _SAVED | {"raised"}, seed=9),
        Fault(
            "a feeder waited for that has left",
            snapshots.left_feeder_waited_for,
            frozenset({"snapshot"}),
            _several,
            seed=1,
        ),
        Fault("a feeder that joins unheard", snapshots.joins_unheard, frozenset({"snapshot"}), _several, seed=582),
        Fault("a handle forgotten that nobody has claimed", snapshots.unclaimed_handle_forgotten, _SAVED, seed=30),
        Fault("a command lost", snapshots.command_lost, _SAVED, seed=17),
        Fault("a handle at an old time", snapshots.handle_at_old_time, _SAVED, seed=17),
        Fault("a broadcast repeated", snapshots.broadcast_repeated, _SAVED, _rescaled, seed=115),
        Fault("a key to the wrong worker", snapshots.key_to_wrong_worker, _SAVED, _rescaled, seed=17),
        Fault(
            "messages that stay where they were", snapshots.messages_stay_where_they_were, _SAVED, _rescaled, seed=115
        ),
        Fault("an open key lost", saved.open_key_lost, _SAVED_ENDS, _divided, seed=17),
        Fault("a closed key that is open again", saved.closed_key_open_again, _SAVED_ENDS, _divided, seed=17),
        Fault("a key forgotten that something waits for", saved.waiting_key_forgotten, _SAVED_ENDS, _divided, seed=346),
        Fault("news of substreams missed", saved.news_missed, _SAVED_ENDS, _divided_several, seed=95),
        Fault("ends told again", saved.ends_told_again, _SAVED_ENDS, _divided),
        Fault("a held piece lost", saved.held_piece_lost, _SAVED_ENDS, _divided, seed=9),
        Fault("an end of a handle lost", saved.end_of_a_handle_lost, _SAVED_ENDS, _divided, seed=48),
        Fault("last ends forgotten", saved.last_ends_forgotten, _SAVED_ENDS, _divided_rescaled, seed=61),
        Fault("a key closed too early", saved.closed_for_all_too_early, _SAVED_ENDS, _divided_rescaled, seed=145),
        Fault("ends done by each worker", saved.ends_done_by_each, _SAVED_ENDS, _divided_rescaled, seed=145),
        Fault("gates that keep their keys", saved.gates_keep_their_keys, _SAVED_ENDS, _divided_rescaled, seed=61),
    ),
    *_shown_by(
        JOBS,
        Fault("an epoch under way not taken back", jobs.not_taken_back, concerns=_begins_again, seed=0),
        Fault(
            "a digest without a partition",
            jobs.digest_without_a_partition,
            frozenset({"compared"}),
            _has_partitions,
            seed=32,
        ),
        Fault("a position advanced early", jobs.confirmed_early, concerns=_begins_again, seed=26),
        Fault("a rollback not told", jobs.rollback_not_told, concerns=_begins_again, seed=0),
        Fault("silence promised too far", jobs.silence_too_far, seed=0),
        Fault("an epoch left out that one log has", jobs.complete_at_one, concerns=_has_partitions, seed=63),
        Fault("an epoch of two generations", jobs.generations_mixed, concerns=_has_partitions, seed=0),
        Fault("a snapshot without what is not durable", jobs.unsaved, concerns=_begins_again, seed=0),
        Fault("an acknowledgement of what is not read", jobs.acknowledged_unread, seed=47),
        Fault(
            "an acknowledgement of a return that is not read", jobs.return_acknowledged_unread, concerns=_begins_again
        ),
        Fault("an epoch acknowledged in part", jobs.parts_not_agreed_on, concerns=_has_partitions, seed=32),
        Fault("void batches not acknowledged", jobs.void_not_acknowledged, concerns=_begins_again, seed=0),
        Fault("messages merged early", jobs.merged_early, frozenset({"order"}), _has_partitions, seed=8),
    ),
    *_shown_by(
        DELIVERY,
        Fault("TellsBeforeTheSync", machines.machine(machines.TellsBeforeTheSync), seed=0),
        Fault("UsesTicksAgain", machines.machine(machines.UsesTicksAgain), seed=2),
        Fault("IgnoresReservations", machines.machine(machines.IgnoresReservations), seed=6),
        Fault("AnswersFromMemoryOnly", machines.machine(machines.AnswersFromMemoryOnly), seed=0),
        Fault("RefusesLargeMessages", machines.machine(machines.RefusesLargeMessages), seed=0),
        Fault("TakesForeignTicks", machines.machine(machines.TakesForeignTicks), seed=0),
        Fault("GoesByItsClock", machines.machine(machines.GoesByItsClock), seed=3),
        Fault("BreaksPromises", machines.machine(machines.BreaksPromises), seed=0),
        Fault("ForgetsEarly", machines.machine(machines.ForgetsEarly), seed=603),
        Fault("BeginsAnew", machines.machine(machines.BeginsAnew), seed=602),
        Fault("TakesAcksOfWhoHasGone", machines.machine(machines.TakesAcksOfWhoHasGone), seed=607),
        Fault("MakesFinalWhatItForgets", machines.machine(machines.MakesFinalWhatItForgets), seed=603),
        Fault("LosesNacks", machines.machine(machines.LosesNacks), seed=600),
        Fault("ForgetsWhoAsked", machines.machine(machines.ForgetsWhoAsked), seed=600),
        Fault("AcknowledgesForAll", machines.machine(machines.AcknowledgesForAll), seed=603),
        Fault("NamesReadersOnce", machines.machine(machines.NamesReadersOnce), seed=653),
        Fault("ForgetsToCountWhoLeft", machines.machine(machines.ForgetsToCountWhoLeft), seed=623),
        Fault("TakesFilteredForSilent", machines.machine(machines.TakesFilteredForSilent), seed=608),
        Fault("ForgetsAFilter", machines.machine(machines.ForgetsAFilter), seed=600),
        Fault("TakesAnyUnion", machines.machine(machines.TakesAnyUnion), seed=605),
        Fault("KeepsLosses", machines.machine(machines.KeepsLosses), seed=658),
        Fault("MergesEarly", machines.machine(machines.MergesEarly), seed=604),
        Fault("SkipsGaps", machines.machine(machines.SkipsGaps), seed=600),
        Fault("AcknowledgesWhatComes", machines.machine(machines.AcknowledgesWhatComes), seed=602),
        Fault("AcknowledgesWhatIsTaken", machines.machine(machines.AcknowledgesWhatIsTaken), seed=636),
        Fault("DeliversAgain", machines.machine(machines.DeliversAgain), seed=603),
        Fault("NeverAsks", machines.machine(machines.NeverAsks), seed=600),
        Fault("WaitsForClocks", machines.machine(machines.WaitsForClocks), seed=604),
        Fault("KeepsEverything", machines.machine(machines.KeepsEverything), seed=603),
    ),
    *_shown_by(
        TOPICS,
        Fault("the seed's own rule", epochs.upper_frontiers_only, _ATOMICITY, _several_partitions, seed=7),
        Fault("a filter without upper frontiers", epochs.lower_frontiers_only, _ATOMICITY, seed=2),
        Fault("a filter by active epochs", epochs.active_epochs_only, _ATOMICITY | {"hole", "statistics"}, seed=25),
        Fault(
            "only what is after all upper elements", epochs.strictly_later_only, frozenset({"missed", "hole"}), seed=76
        ),
        Fault("an upper frontier of one element", epochs.upper_frontier_forgotten, _ATOMICITY | {"hole"}, seed=55),
        Fault(
            "a frontier merged by maximum",
            epochs.frontier_of_the_quickest,
            frozenset({"frontier"}),
            _several_partitions,
            seed=2,
        ),
        Fault(
            "an end that does not retract its frontier", epochs.ended_partition_holds_back, frozenset({"end"}), seed=0
        ),
        Fault(
            "a gap that is not noticed", travel.gap_unnoticed, _DROPS | {"frontier", "end", "rest", "missed"}, seed=0
        ),
        Fault("a message lost on its way", travel.message_lost, frozenset({"protocol"}), seed=0),
        Fault(
            "a message twice",
            travel.duplicates_delivered,
            frozenset({"atomicity", "end", "rest", "frontier", "dropped"}),
            seed=0,
        ),
        Fault(
            "numbers that begin anew",
            travel.numbering_restarts,
            frozenset({"protocol", "missed", "stuck", "rest", "frontier", "end"}),
            seed=2,
        ),
        Fault("numbers left out in silence", travel.skipped_untold, frozenset({"protocol"}), seed=2),
        Fault("part of an epoch dropped", queues.part_of_an_epoch_dropped, frozenset({"dropped"}), _dropping, seed=18),
        Fault(
            "begun epochs forgotten",
            queues.begun_epochs_forgotten_once_passed,
            frozenset({"dropped"}),
            _dropping,
            seed=85,
        ),
        Fault("a dropped epoch not told", queues.drops_untold, _DROPS | {"rest", "end"}, _dropping, seed=61),
        Fault("the rest of a dropped epoch sent", queues.rest_of_a_dropped_epoch_sent, _DROPS, _dropping, seed=51),
        Fault("a dropped epoch delivered", queues.drop_heeded_by_one_partition, _DROPS, _dropping, seed=140),
        Fault("no waiting for whole epochs", queues.dropping_without_holding, _DROPS, _dropping, seed=83),
        Fault("no bound", queues.no_bound, frozenset({"memory"}), _dropping, seed=41),
        Fault("fullness forgotten", holds.fullness_forgotten, frozenset({"memory"}), _holding, seed=1),
        Fault("a publisher that goes on while held", holds.goes_on_while_held, frozenset({"memory"}), _holding, seed=1),
        Fault("full for ever", holds.full_for_ever, frozenset({"held"}), _holding, seed=1),
        Fault("cut off while it takes", holds.cut_off_while_it_takes, frozenset({"held"}), _holding, seed=25),
        Fault("no waiting for who asked for it", holds.does_not_wait, frozenset({"cut off"}), _holding, seed=1),
        Fault("the last word lost", holds.last_word_under_an_old_number, frozenset({"stuck"}), _holding, seed=145),
        Fault("everybody may hold", holds.everybody_holds, frozenset({"held"}), _holding, seed=1),
        Fault(
            "the last one forgotten", travel.last_one_forgotten, frozenset({"stuck", "isolation", "protocol"}), seed=1
        ),
        Fault("everybody cut off", travel.condition_of_somebody_else, frozenset({"cut off", "isolation"}), seed=3),
        Fault("everything decoded", epochs.decoded_at_once, frozenset({"statistics"}), seed=0),
        Fault(
            "epochs complete too early",
            epochs.epochs_complete_too_early,
            frozenset({"atomicity", "order", "rest"}),
            seed=0,
        ),
        Fault(
            "what waited is lost",
            epochs.one_partition_late,
            _ATOMICITY | {"missed", "hole", "rest"},
            _several_partitions,
            seed=2,
        ),
    ),
)
