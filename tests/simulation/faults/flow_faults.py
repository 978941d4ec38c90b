"""Faults in back-pressure."""

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.runtime.messages.credit import Credit
from tidewheel.runtime.worker.agenda import Agenda
from tidewheel.runtime.worker.flow_control import FlowControl


def congestion_never_over() -> Injection:
    return replaced(FlowControl, "_drop", lambda _: lambda flow, size: None)


def credit_unheard() -> Injection:
    def wrong(flow: FlowControl, peer: int, credit: Credit) -> None:
        if credit.congested:
            flow._congested_peers.add(peer)

    return replaced(FlowControl, "receive", lambda _: wrong)


def held_source_forgotten() -> Injection:
    return replaced(Agenda, "let_go", lambda _: lambda agenda: agenda.held.clear())
