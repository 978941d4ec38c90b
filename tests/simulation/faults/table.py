"""The faults seeded into the code, each of which a simulated world must catch: how we know that its checks check.

Each row says which parts of the world can show the fault, which promises it breaks, and the first seed at which it is
caught. `tests/simulation/test_faults.py` begins there; its long form begins at seed 0 and prints where it found it.
"""

from tests.kit.simulation.fault import Fault
from tests.simulation.faults import flow_faults as flow
from tests.simulation.faults import job_faults as jobs
from tests.simulation.faults import link_faults as links
from tests.simulation.faults import message_faults as messages
from tests.simulation.faults import report_faults as reports
from tests.simulation.faults import saved_substream_faults as saved
from tests.simulation.faults import snapshot_faults as snapshots
from tests.simulation.faults import substream_faults as substreams
from tests.simulation.faults import view_faults as views
from tests.simulation.scenario import JOBS, SNAPSHOTS, SUBSTREAMS, TOKENS, Scenario
from tests.simulation.snapshots.snapshot_simulation import SnapshotSimulation
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


_ENDS = frozenset({"safety", "overtaken", "once"})
_SUBSTREAMS = _ENDS | {"liveness", "left", "divided"}
_SAVED = frozenset({"restored", "outputs", "liveness"})
_SAVED_ENDS = _SAVED | {"ends", "border", "safety", "raised"}

FAULTS: tuple[Fault[Scenario], ...] = (
    # ------------------------------------------------------------------ tokens
    Fault("a batch split in two", links.split_batch, concerns=_several, has=TOKENS, seed=0),
    Fault("a reordered channel", links.reordered_channel, concerns=_several, has=TOKENS, seed=0),
    Fault("a batch applied twice", links.applied_twice, concerns=_several, has=TOKENS, seed=0),
    Fault("a consumed message whose token is not reported", reports.retained_token_lost, has=TOKENS, seed=0),
    Fault("a consumed message whose token is reported a step later", reports.retained_token_late, has=TOKENS, seed=0),
    Fault("a downgrade reported in halves", reports.downgrade_in_halves, has=TOKENS, seed=0),
    Fault(
        "a message reported as consumed before it is read",
        reports.consumed_before_read,
        concerns=_several,
        has=TOKENS,
        seed=0,
    ),
    Fault("a message sent and not reported", reports.sent_uncounted, has=TOKENS, seed=0),
    Fault("a message counted for its sender", reports.counted_for_the_sender, concerns=_several, has=TOKENS, seed=0),
    Fault("an empty batch counted as a message", reports.empty_batch_counted, has=TOKENS, seed=0),
    Fault("a leak not reported", reports.leak_unreported, concerns=_leaking, has=TOKENS, seed=0),
    Fault("a leaked token that lives on", reports.leaked_token_kept, concerns=_leaking, has=TOKENS, seed=0),
    Fault("hold-back that drops an update", views.held_update_dropped, concerns=_held_back, has=TOKENS, seed=0),
    Fault(
        "hold-back that never looks again", views.held_never_looked_at_again, concerns=_held_back, has=TOKENS, seed=0
    ),
    Fault("hold-back for ever", views.held_for_ever, concerns=_held_back, has=TOKENS, seed=0),
    Fault("hold-back of what only covers itself", views.covered_by_itself, concerns=_held_back, has=TOKENS, seed=0),
    Fault("one worker's initial count missing", views.initial_count_missing, has=TOKENS, seed=0),
    Fault("a summary dropped", views.summary_dropped, has=TOKENS, seed=0),
    Fault(
        "other workers' messages that lead nowhere",
        views.other_workers_messages_lead_nowhere,
        concerns=_several,
        has=TOKENS,
        seed=0,
    ),
    Fault("only one of several summaries kept", views.one_summary_of_several, has=TOKENS, seed=0),
    Fault(
        "a negative count that cancels a positive one elsewhere",
        views.counts_cancel,
        concerns=_several,
        has=TOKENS,
        seed=0,
    ),
    Fault("a frontier not renewed", views.frontier_not_renewed, has=TOKENS, seed=0),
    Fault("an operator not woken when its frontier moves", views.operator_not_woken, has=TOKENS, seed=0),
    Fault("no initial counts in loops", views.no_counts_in_loops, has=TOKENS, seed=0),
    Fault(
        "an accumulator that waits for one more",
        views.accumulator_waits_for_one_more,
        concerns=_accumulated,
        has=TOKENS,
        seed=0,
    ),
    Fault(
        "asleep with progress to send", views.asleep_with_something_to_tell, concerns=_accumulated, has=TOKENS, seed=0
    ),
    Fault("unread messages forgotten", views.unread_messages_forgotten, has=TOKENS, seed=0),
    Fault("a set of tokens downgraded in part", reports.set_downgraded_in_part, has=TOKENS, seed=0),
    Fault("a message lost", messages.message_lost, has=TOKENS, seed=0),
    Fault("a message repeated", messages.message_repeated, has=TOKENS, seed=0),
    Fault("records brought astray", messages.records_astray, concerns=_several, has=TOKENS, seed=0),
    Fault("an early command lost", messages.early_command_lost, has=TOKENS, seed=0),
    Fault("an activation that does not wake", messages.activation_unheard, has=TOKENS, seed=0),
    Fault("an operator scheduled twice in a step", messages.scheduled_twice, has=TOKENS, seed=0),
    Fault("a token that goes back", messages.token_that_goes_back, has=TOKENS, seed=0),
    Fault("a token lent for ever", messages.token_lent_for_ever, has=TOKENS, seed=0),
    Fault("congestion that is never over", flow.congestion_never_over, concerns=_limited, has=TOKENS, seed=0),
    Fault("credit that nobody hears of", flow.credit_unheard, concerns=_limited, has=TOKENS, seed=0),
    Fault(
        "a source that is held back and forgotten", flow.held_source_forgotten, concerns=_limited, has=TOKENS, seed=0
    ),
    # ------------------------------------------------------------------ substreams
    Fault("what has come to be told a batch later", substreams.split_batch, _ENDS, _several, has=SUBSTREAMS, seed=0),
    Fault(
        "a retained token not counted",
        substreams.retained_uncounted,
        _ENDS | {"liveness", "refused"},
        has=SUBSTREAMS,
        seed=0,
    ),
    Fault("a key used again before it is over", substreams.gate_reopens_early, _SUBSTREAMS, has=SUBSTREAMS, seed=0),
    Fault("records that overtake an end on the way", substreams.heard_ignored, _ENDS, _several, has=SUBSTREAMS, seed=0),
    Fault(
        "a message consumed on arrival", substreams.consumed_on_arrival, _SUBSTREAMS, _several, has=SUBSTREAMS, seed=0
    ),
    Fault(
        "all closed once one worker has finished",
        substreams.finished_by_the_first,
        _SUBSTREAMS,
        _several,
        has=SUBSTREAMS,
        seed=0,
    ),
    Fault(
        "a worker's closing counted twice",
        substreams.closed_twice,
        _SUBSTREAMS | {"refused"},
        _several,
        has=SUBSTREAMS,
        seed=0,
    ),
    Fault(
        "records of a key before the end that waits",
        substreams.reused_not_held,
        _ENDS | {"liveness"},
        has=SUBSTREAMS,
        seed=0,
    ),
    Fault(
        "a key over before its end is told",
        substreams.over_before_told,
        _ENDS | {"liveness", "order", "border"},
        has=SUBSTREAMS,
        seed=0,
    ),
    Fault("ends told in reverse", substreams.ends_reversed, frozenset({"order"}), has=SUBSTREAMS, seed=0),
    Fault("two ends of a key told as one", substreams.told_once, _ENDS | {"liveness"}, has=SUBSTREAMS, seed=0),
    Fault(
        "workers not asked what is about to end",
        substreams.never_asked,
        frozenset({"liveness", "complete", "refused"}),
        _several,
        has=SUBSTREAMS,
        seed=0,
    ),
    Fault(
        "records of what has ended let in", substreams.closed_let_in, _SUBSTREAMS | {"refused"}, has=SUBSTREAMS, seed=0
    ),
    Fault(
        "a firm bound that holds nothing", substreams.firm_let_through, _SUBSTREAMS | {"border"}, has=SUBSTREAMS, seed=0
    ),
    Fault("what a firm bound holds not counted", substreams.held_uncounted, _SUBSTREAMS, has=SUBSTREAMS, seed=0),
    Fault("an end before the substream", substreams.end_before_piece, _SUBSTREAMS | {"border"}, has=SUBSTREAMS, seed=0),
    # ------------------------------------------------------------------ snapshots
    Fault("a late envelope missed", snapshots.late_envelope_missed, _SAVED, has=SNAPSHOTS, seed=12),
    Fault("a message recorded twice", snapshots.message_recorded_twice, _SAVED, _several, has=SNAPSHOTS, seed=12),
    Fault("a message applied and recorded", snapshots.applied_and_recorded, _SAVED, has=SNAPSHOTS, seed=10),
    Fault(
        "late envelopes recorded too short",
        snapshots.recorded_until_any_marker,
        _SAVED,
        _several,
        has=SNAPSHOTS,
        seed=2,
    ),
    Fault(
        "a part taken after the first envelope",
        snapshots.taken_after_the_first_envelope,
        _SAVED,
        _several,
        has=SNAPSHOTS,
        seed=43,
    ),
    Fault("a marker not sent", snapshots.marker_not_sent, frozenset({"snapshot"}), _several, has=SNAPSHOTS, seed=2),
    Fault("a token lost", snapshots.token_lost, _SAVED, has=SNAPSHOTS, seed=0),
    Fault("a token saved twice", snapshots.token_twice, _SAVED, has=SNAPSHOTS, seed=0),
    Fault("tokens of old values stay", snapshots.old_tokens_stay, _SAVED, _swept, has=SNAPSHOTS, seed=26),
    Fault("a changed key not noted", snapshots.change_not_noted, _SAVED, _swept, has=SNAPSHOTS, seed=18),
    Fault("a gone key that comes back", snapshots.gone_key_comes_back, _SAVED, _swept, has=SNAPSHOTS, seed=18),
    Fault("a sweep that ends too early", snapshots.sweep_ends_early, _SAVED, _swept, has=SNAPSHOTS, seed=0),
    Fault("an old value that wins", snapshots.old_value_wins, _SAVED, _swept, has=SNAPSHOTS, seed=0),
    Fault(
        "changes lost with a snapshot that is given up",
        snapshots.given_up_changes_lost,
        _SAVED | {"raised"},
        _swept,
        has=SNAPSHOTS,
        seed=0,
    ),
    Fault(
        "positions before the marker", snapshots.positions_before_the_marker, _SAVED | {"raised"}, has=SNAPSHOTS, seed=0
    ),
    Fault(
        "a feeder waited for that has left",
        snapshots.left_feeder_waited_for,
        frozenset({"snapshot"}),
        _several,
        has=SNAPSHOTS,
        seed=0,
    ),
    Fault(
        "a feeder that joins unheard", snapshots.joins_unheard, frozenset({"snapshot"}), _several, has=SNAPSHOTS, seed=0
    ),
    Fault(
        "a handle forgotten that nobody has claimed",
        snapshots.unclaimed_handle_forgotten,
        _SAVED,
        has=SNAPSHOTS,
        seed=0,
    ),
    Fault("a command lost", snapshots.command_lost, _SAVED, has=SNAPSHOTS, seed=0),
    Fault("a handle at an old time", snapshots.handle_at_old_time, _SAVED, has=SNAPSHOTS, seed=0),
    Fault("a broadcast repeated", snapshots.broadcast_repeated, _SAVED, _rescaled, has=SNAPSHOTS, seed=0),
    Fault("a key to the wrong worker", snapshots.key_to_wrong_worker, _SAVED, _rescaled, has=SNAPSHOTS, seed=0),
    Fault(
        "messages that stay where they were",
        snapshots.messages_stay_where_they_were,
        _SAVED,
        _rescaled,
        has=SNAPSHOTS,
        seed=0,
    ),
    Fault("an open key lost", saved.open_key_lost, _SAVED_ENDS, _divided, has=SNAPSHOTS, seed=0),
    Fault("a closed key that is open again", saved.closed_key_open_again, _SAVED_ENDS, _divided, has=SNAPSHOTS, seed=0),
    Fault(
        "a key forgotten that something waits for",
        saved.waiting_key_forgotten,
        _SAVED_ENDS,
        _divided,
        has=SNAPSHOTS,
        seed=0,
    ),
    Fault("news of substreams missed", saved.news_missed, _SAVED_ENDS, _divided_several, has=SNAPSHOTS, seed=0),
    Fault("ends told again", saved.ends_told_again, _SAVED_ENDS, _divided, has=SNAPSHOTS, seed=0),
    Fault("a held piece lost", saved.held_piece_lost, _SAVED_ENDS, _divided, has=SNAPSHOTS, seed=0),
    Fault("an end of a handle lost", saved.end_of_a_handle_lost, _SAVED_ENDS, _divided, has=SNAPSHOTS, seed=0),
    Fault("last ends forgotten", saved.last_ends_forgotten, _SAVED_ENDS, _divided_rescaled, has=SNAPSHOTS, seed=0),
    Fault(
        "a key closed too early", saved.closed_for_all_too_early, _SAVED_ENDS, _divided_rescaled, has=SNAPSHOTS, seed=0
    ),
    Fault("ends done by each worker", saved.ends_done_by_each, _SAVED_ENDS, _divided_rescaled, has=SNAPSHOTS, seed=0),
    Fault(
        "gates that keep their keys", saved.gates_keep_their_keys, _SAVED_ENDS, _divided_rescaled, has=SNAPSHOTS, seed=0
    ),
    # ------------------------------------------------------------------ jobs
    Fault("an epoch under way not taken back", jobs.not_taken_back, concerns=_begins_again, has=JOBS, seed=0),
    Fault(
        "a digest without a partition",
        jobs.digest_without_a_partition,
        frozenset({"compared"}),
        _has_partitions,
        has=JOBS,
        seed=32,
    ),
    Fault("a position advanced early", jobs.confirmed_early, concerns=_begins_again, has=JOBS, seed=26),
    Fault("a rollback not told", jobs.rollback_not_told, concerns=_begins_again, has=JOBS, seed=0),
    Fault("silence promised too far", jobs.silence_too_far, has=JOBS, seed=0),
    Fault("an epoch left out that one log has", jobs.complete_at_one, concerns=_has_partitions, has=JOBS, seed=0),
    Fault("an epoch of two generations", jobs.generations_mixed, concerns=_has_partitions, has=JOBS, seed=0),
    Fault("a snapshot without what is not durable", jobs.unsaved, concerns=_begins_again, has=JOBS, seed=0),
    Fault("an acknowledgement of what is not read", jobs.acknowledged_unread, has=JOBS, seed=0),
    Fault(
        "an acknowledgement of a return that is not read",
        jobs.return_acknowledged_unread,
        concerns=_begins_again,
        has=JOBS,
        seed=0,
    ),
    Fault("an epoch acknowledged in part", jobs.parts_not_agreed_on, concerns=_has_partitions, has=JOBS, seed=0),
    Fault("void batches not acknowledged", jobs.void_not_acknowledged, concerns=_begins_again, has=JOBS, seed=0),
    Fault("messages merged early", jobs.merged_early, frozenset({"order"}), _has_partitions, has=JOBS, seed=0),
)
