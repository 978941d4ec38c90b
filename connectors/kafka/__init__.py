"""Kafka: `KafkaSource` reads topics, `KafkaSink` stores epochs in a topic.

Importing this package loads no client. Making a source or sink needs the extra ``kafka``.
"""

from tidewheel.connectors.kafka.errors import KafkaError
from tidewheel.connectors.kafka.formats import Avro, Format, Json, Protobuf
from tidewheel.connectors.kafka.kafka_record import KafkaRecord
from tidewheel.connectors.kafka.kafka_sink import KafkaSink
from tidewheel.connectors.kafka.kafka_source import KafkaSource

__all__ = ["Avro", "Format", "Json", "KafkaError", "KafkaRecord", "KafkaSink", "KafkaSource", "Protobuf"]
