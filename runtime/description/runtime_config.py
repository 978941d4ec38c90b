"""The configuration of a job: limits, deadlines and transports."""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import msgspec

from tidewheel.host.log_lines import LogFormat, LogLevel
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.placement import PlacementName
from tidewheel.runtime.errors import ConfigError
from tidewheel.runtime.messages.credit import DEFAULT_BYTES_IN_FLIGHT
from tidewheel.runtime.tokens.token_ledger import LeakPolicy
from tidewheel.transport.link import LinkName

_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0001)]
_Label: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^([a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?)?$")]


class _Variable(str):
    """The text of an environment variable that is not converted yet."""

    __slots__ = ()


def _setting(name: str, default: Any) -> Any:
    def choose() -> Any:
        text = os.environ.get(_variable(name))
        return default if text is None else _Variable(text)

    return msgspec.field(default_factory=choose)


def _variable(name: str) -> str:
    return f"TIDEWHEEL_{name.upper()}"


class RuntimeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a job.

    A setting that you do not give comes from the environment or, without a variable, is the default.

    The variable is ``TIDEWHEEL_`` and the setting's name in capitals, such as ``TIDEWHEEL_BYTES_IN_FLIGHT``. Its text
    is the value; write a mapping as a JSON object: ``TIDEWHEEL_RESOURCES='{"CPU": 1}'``.

    Attributes:
        progress: how workers exchange progress. With ``"broadcast"``, the default, each worker sends to every other.
            With ``"accumulated"``, for many workers, one worker receives all changes and sends the net changes to all:
            two trips, but a number of messages that grows with the workers, not with their square.
        link: the transport of data and progress between actors. ``"socket"``, the default, is ZeroMQ: within a node
            through the file system, between nodes over TCP, encrypted with keys of this job. ``"ray"`` sends by calls
            of the actors: slower, for nodes that cannot connect otherwise. The local engine needs no transport.
        bytes_in_flight: how many bytes a worker may have in flight and waiting at its operators before its sources
            wait. Also how many bytes the driver may have in flight from one input to one worker. 64 MiB.
        epochs_ahead: how many epochs the driver's inputs may be ahead of the job's probes; then the inputs wait. 1,000.
        on_leak: the effect of an operator that drops a token without discarding it. ``"fail"``, the default, fails the
            job, since records for that time are probably lost. ``"warn"`` logs a warning and counts the leak in
            `Job.statistics`.
        hang_timeout_s: the job fails if a worker's process shows no sign of life for this many seconds: if it is
            stopped, or native code holds the interpreter. A slow operator does no harm. 60.
        placement: the workers' nodes on a Ray cluster. ``"spread"``, the default, spreads the workers evenly over the
            nodes. ``"pack"`` uses one node, or as few as have the resources to reserve.
        resources: the resources that each worker reserves on its node, by Ray's names, such as ``{"CPU": 1,
            "my_resource": 0.5}``; each at least 0.0001. By default none, so that a job never waits for resources.
        node_labels: labels that the workers' nodes must have, such as ``{"zone": "a"}``. None by default.
        check_records: whether an operator fails if it changes a received record, which other operators may read too.
            For debugging only: each batch is pickled twice for each operator. False.
        deploy_timeout_s: how many seconds a job may wait for resources of the cluster, and then again for its workers,
            before it fails. Reading a snapshot adds a second for every 4 MiB. 60.
        log_level: the level of the logger ``tidewheel``, here and on the workers. If the logger has no handler, this
            process writes to standard error. ``"NOTSET"``, the default, leaves logging to the program.
        log_format: ``"json"`` writes a line of JSON for each event to standard error, here and on the workers.
            ``"text"``, the default, leaves the format to the program.

    Raises:
        ConfigError: a setting is of the wrong type or out of range; the error names the setting and its origin.

    >>> RuntimeConfig(link="ray").link
    'ray'
    >>> RuntimeConfig(bytes_in_flight=0)
    Traceback (most recent call last):
    ...
    tidewheel.runtime.errors.ConfigError: RuntimeConfig(bytes_in_flight=0): Expected `int` >= 1
    """

    progress: SpreadName = _setting("progress", "broadcast")
    link: LinkName = _setting("link", "socket")
    bytes_in_flight: Annotated[int, msgspec.Meta(ge=1)] = _setting("bytes_in_flight", DEFAULT_BYTES_IN_FLIGHT)
    epochs_ahead: Annotated[int, msgspec.Meta(ge=1)] = _setting("epochs_ahead", 1000)
    on_leak: LeakPolicy = _setting("on_leak", "fail")
    hang_timeout_s: Annotated[float, msgspec.Meta(ge=1.0)] = _setting("hang_timeout_s", 60.0)
    placement: PlacementName = _setting("placement", "spread")
    resources: Mapping[_Name, _Amount] = _setting("resources", {})
    node_labels: Mapping[_Name, _Label] = _setting("node_labels", {})
    check_records: bool = _setting("check_records", False)
    deploy_timeout_s: Annotated[float, msgspec.Meta(ge=1.0)] = _setting("deploy_timeout_s", 60.0)
    log_level: LogLevel = _setting("log_level", "NOTSET")
    log_format: LogFormat = _setting("log_format", "text")

    def __post_init__(self) -> None:
        for setting in msgspec.structs.fields(type(self)):
            value = getattr(self, setting.name)
            from_environment = isinstance(value, _Variable)
            try:
                parsed = _parsed(value, setting.type) if from_environment else value
                converted = msgspec.convert(parsed, setting.type, strict=not from_environment)
            except msgspec.DecodeError as error:
                where = (
                    f"environment variable {_variable(setting.name)}={str(value)!r}"
                    if from_environment
                    else f"RuntimeConfig({setting.name}={value!r})"
                )
                choices = get_args(setting.type) if get_origin(setting.type) is Literal else ()
                expected = f"Expected one of {', '.join(map(repr, choices))}" if choices else error
                raise ConfigError(f"{where}: {expected}") from None
            msgspec.structs.force_setattr(self, setting.name, converted)


def _parsed(text: str, kind: Any) -> Any:
    if get_origin(kind) is not Mapping:
        return text
    try:
        return msgspec.json.decode(str(text))
    except msgspec.DecodeError as error:
        raise msgspec.DecodeError(f'{error}; expected a JSON object, such as {{"name": ...}}') from None
