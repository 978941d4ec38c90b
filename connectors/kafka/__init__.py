"""Kafka at the ends of a dataflow: `KafkaSource` reads topics.

Imports here load no client; the extra ``kafka`` is needed when you make one.
"""

from tidewheel.connectors.kafka.errors import KafkaError
from tidewheel.connectors.kafka.formats import Avro, Format, Json, Protobuf
from tidewheel.connectors.kafka.kafka_record import KafkaRecord
from tidewheel.connectors.kafka.kafka_source import KafkaSource

__all__ = ["Avro", "Format", "Json", "KafkaError", "KafkaRecord", "KafkaSource", "Protobuf"]
