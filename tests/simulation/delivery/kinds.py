"""The machines that the simulation of exactly-once delivery runs."""

from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.relay import Relay
from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.exactly_once.subscriptions import Subscriptions


class Kinds:
    """The machines; a seeded fault puts a wrong one in the place of one of them."""

    pubend = Pubend
    subscriptions = Subscriptions
    relay = Relay
    subend = Subend
