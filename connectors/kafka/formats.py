"""The formats of values and keys in topics. Without a format they are bytes.

A format is pickled and sent to the workers. Each worker makes its own encoders and decoders, and the client of the
schema registry if there is one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from tidewheel.connectors.base.secret_settings import check_secrets, with_secrets
from tidewheel.connectors.kafka.errors import KafkaError

Part: TypeAlias = Literal["value", "key"]
Decode: TypeAlias = Callable[[bytes], Any]
Encode: TypeAlias = Callable[[Any], bytes]


class Format(ABC):
    """A format of values or keys."""

    @abstractmethod
    def decoder(self, topic: str, part: Part) -> Decode:
        """Return a function from bytes to a value, for one thread."""

    @abstractmethod
    def encoder(self, topic: str, part: Part) -> Encode:
        """Return a function from a value to bytes, for one thread."""


def as_bytes(data: Any) -> bytes:
    """Return bytes unchanged, for a sink without a format; raise TypeError for anything else."""
    if not isinstance(data, bytes):
        raise TypeError(f"it is of type {type(data).__name__}, and without a format it has to be bytes")
    return data


@dataclass(frozen=True, slots=True)
class Json(Format):
    """JSON, by msgspec.

    Args:
        type: values are decoded to this type and checked against it: a `msgspec.Struct`, a dataclass, or a type such as
            ``dict[str, int]``; by default any.

    >>> Json(dict[str, int]).decoder("tides", "value")(b'{"Brest": 4}')
    {'Brest': 4}
    """

    type: Any = Any

    def decoder(self, topic: str, part: Part) -> Decode:
        """Return msgspec's decoder."""
        import msgspec

        return msgspec.json.Decoder(self.type).decode

    def encoder(self, topic: str, part: Part) -> Encode:
        """Return msgspec's encoder."""
        import msgspec

        return msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, repr=False)
class _Registered(Format):
    """A format whose schemas are in a schema registry.

    Args:
        registry: the URL of the registry.
        config: further properties of the client of the registry. A password is a `Secret`.
    """

    registry: str
    config: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    _needs: ClassVar[str]

    def __post_init__(self) -> None:
        check_secrets(type(self).__name__, "config", self.config, "KAFKA_PASSWORD")

    def decoder(self, topic: str, part: Part) -> Decode:
        """Return the client's deserializer."""
        return self._coder(topic, part, self._deserializer)

    def encoder(self, topic: str, part: Part) -> Encode:
        """Return the client's serializer, which registers a new schema."""
        return self._coder(topic, part, self._serializer)

    def _coder(self, topic: str, part: Part, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
            from confluent_kafka.serialization import MessageField, SerializationContext

            coder = make(SchemaRegistryClient({"url": self.registry, **with_secrets(self.config)}))
        except ImportError as error:
            raise KafkaError(
                f"{type(self).__name__} needs {error.name}, which is not installed. Install it where tidewheel is: "
                f"pip install 'confluent-kafka[{self._needs},schemaregistry]'"
            ) from error
        context = SerializationContext(topic, MessageField(part))
        return lambda data: coder(data, context)

    @abstractmethod
    def _deserializer(self, client: Any) -> Any: ...

    @abstractmethod
    def _serializer(self, client: Any) -> Any: ...


@dataclass(frozen=True, slots=True, repr=False)
class Avro(_Registered):
    """Avro with its schemas in a schema registry.

    Args:
        registry: the URL of the registry.
        schema: the schema as JSON. A sink needs it. By default a source reads each record with the schema of its
            writer.
        config: further properties of the client's `SchemaRegistryClient`. A password is a `Secret`.
    """

    schema: str | None = None

    _needs: ClassVar[str] = "avro"

    def _deserializer(self, client: Any) -> Any:
        from confluent_kafka.schema_registry.avro import AvroDeserializer

        return AvroDeserializer(client, self.schema)

    def _serializer(self, client: Any) -> Any:
        from confluent_kafka.schema_registry.avro import AvroSerializer

        return AvroSerializer(client, self.schema)


@dataclass(frozen=True, slots=True, repr=False)
class Protobuf(_Registered):
    """Protobuf with its schemas in a schema registry.

    Args:
        registry: the URL of the registry.
        message: the class of the messages, made by ``protoc``.
        config: further properties of the client's `SchemaRegistryClient`. A password is a `Secret`.
    """

    message: Any

    _needs: ClassVar[str] = "protobuf"

    def _deserializer(self, client: Any) -> Any:
        from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer

        return ProtobufDeserializer(self.message, {"use.deprecated.format": False}, client)

    def _serializer(self, client: Any) -> Any:
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

        return ProtobufSerializer(self.message, client, {"use.deprecated.format": False})
