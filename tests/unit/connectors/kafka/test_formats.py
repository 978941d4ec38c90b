"""The formats of values and keys, each there and back; Avro and Protobuf with a registry on a real socket."""

import sys
from base64 import b64encode
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import cloudpickle
import msgspec
import pytest

import tidewheel as tw
from tests.kit.kafka.schema_registry import schema_registry
from tests.kit.messages import raises
from tidewheel.connectors.kafka import Avro, Format, Json, KafkaError, Protobuf

SCHEMA = """{"type": "record", "name": "Tide", "fields": [
    {"name": "town", "type": "string"}, {"name": "hour", "type": "int"}]}"""


@dataclass
class Tide:
    town: str
    hour: int


class Wind(msgspec.Struct):
    town: str


def there_and_back(chosen: Format, value: Any) -> Any:
    """Encode on one worker, decode on another."""
    there, back = (cloudpickle.loads(cloudpickle.dumps(chosen)) for _ in range(2))
    return back.decoder("tides", "value")(there.encoder("tides", "value")(value))


@pytest.mark.parametrize(
    ("chosen", "value"),
    [
        (Json(), {"town": "Brest", "hour": [4, 16]}),
        (Json(Tide), Tide("Brest", 4)),
        (Json(Wind), Wind("Brest")),
        (Json(str), "Brest"),
    ],
    ids=["any", "dataclass", "struct", "text"],
)
def test_json_comes_back_as_its_type(chosen: Json, value: Any) -> None:
    assert there_and_back(chosen, value) == value


def test_json_of_another_type_is_refused() -> None:
    with raises(msgspec.ValidationError):
        Json(Tide).decoder("tides", "value")(b'{"town":"Brest"}')


def test_avro_comes_back() -> None:
    """The reader needs no schema: the registry has the writer's."""
    pytest.importorskip("fastavro", reason="pip install 'confluent-kafka[avro]'")
    with schema_registry() as (url, schemas):
        value = {"town": "Brest", "hour": 4}
        encoded = Avro(url, SCHEMA).encoder("tides", "value")(value)
        assert len(schemas) == 1
        assert Avro(url).decoder("tides", "value")(encoded) == value
        assert there_and_back(Avro(url, SCHEMA), value) == value


def test_protobuf_comes_back() -> None:
    pytest.importorskip("google.type", reason="pip install 'confluent-kafka[protobuf]'")
    tide = tide_message()
    with schema_registry() as (url, _):
        chosen = Protobuf(url, tide)
        encoded = chosen.encoder("tides", "value")(tide(town="Brest"))
        assert chosen.decoder("tides", "value")(encoded) == tide(town="Brest")


def tide_message() -> Any:
    """Return a class of messages, as protoc makes them."""
    names = ("descriptor_pb2", "descriptor_pool", "message_factory")
    descriptor_pb2, descriptor_pool, message_factory = (import_module(f"google.protobuf.{name}") for name in names)
    file = descriptor_pb2.FileDescriptorProto(name="tide.proto", package="tides", syntax="proto3")
    field = file.message_type.add(name="Tide").field.add(name="town", number=1)
    field.type, field.label = field.TYPE_STRING, field.LABEL_OPTIONAL
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tides.Tide"))


def test_the_password_of_a_registry_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read where the registry is asked, and in no pickle."""
    pytest.importorskip("fastavro", reason="pip install 'confluent-kafka[avro]'")
    monkeypatch.setenv("REGISTRY_USER", "me:correct-horse")
    with raises(tw.GraphError):
        Avro("http://registry:8081", config={"basic.auth.user.info": "me:correct-horse"})
    with schema_registry(b64encode(b"me:correct-horse").decode()) as (url, _):
        chosen = Avro(url, SCHEMA, config={"basic.auth.user.info": tw.Secret("REGISTRY_USER")})
        assert b"correct-horse" not in cloudpickle.dumps(chosen)
        assert "correct-horse" not in repr(chosen)
        value = {"town": "Brest", "hour": 4}
        assert there_and_back(chosen, value) == value


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with raises(KafkaError):
        Avro("http://registry:8081", SCHEMA).encoder("tides", "value")
