"""The configuration of a job: limits, deadlines and ways to communicate, with defaults that fit most jobs."""

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
    """The text of an environment variable, which has yet to become a setting."""

    __slots__ = ()


def _setting(name: str, default: Any) -> Any:
    """Return a field whose default is the environment's, if it has one."""

    def choose() -> Any:
        text = os.environ.get(_variable(name))
        return default if text is None else _Variable(text)

    return msgspec.field(default_factory=choose)


def _variable(name: str) -> str:
    return f"TIDEWHEEL_{name.upper()}"


class RuntimeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a job runs. A setting that is not given comes from the environment, and if that has none it is the default.

    The variable of a setting is its name in capitals after ``TIDEWHEEL_``, such as ``TIDEWHEEL_BYTES_IN_FLIGHT``.
    Its text is the value, for a mapping as a JSON object: ``TIDEWHEEL_RESOURCES='{"CPU": 1}'``.

    Attributes:
        progress: how workers tell each other what happened to their pointstamps. ``"broadcast"``, the default: each
            tells each, in one trip. ``"accumulated"``: all tell one of them, which tells all the net changes: two
            trips, but as many messages as there are workers and not their square; for many workers.
        link: what carries data and progress between the actors. ``"socket"``, the default: ZeroMQ, within a node
            through its file system, between nodes over TCP, encrypted with keys of this job. ``"ray"``: calls of the
            actors, slower, where nodes can reach each other by nothing else. The local engine needs neither.
        bytes_in_flight: how many bytes each worker may answer for, at inputs of operators and on their way to others,
            before sources wait; and how many an input of the driver may have on their way to one worker. 64 MiB.
        epochs_ahead: how many times the driver's inputs may be ahead of the job's probes before they wait. 1,000.
        on_leak: what happens when an operator drops a token that it has not discarded. ``"fail"``, the default: the job
            fails, as the records that the operator kept for that time are probably lost. ``"warn"``: the worker logs a
            warning, counts the leak in `Job.statistics`, and goes on.
        hang_timeout_s: for how many seconds a worker's process may give no sign of life before the job fails. An
            operator that takes long is no reason; a process that is stopped, or whose interpreter is held up, is. 60.
        placement: which nodes of a Ray cluster the workers run on. ``"spread"``, the default: each on a node of its own
            while there are enough, then evenly. ``"pack"``: all on one node, or on as few as have what they reserve.
        resources: what each worker reserves on its node, by Ray's names, such as ``{"CPU": 1, "my_resource": 0.5}``;
            0.0001 is the least. By default nothing, so that a job always finds room.
        node_labels: labels that the workers' nodes must have, such as ``{"zone": "a"}``. None by default.
        check_records: whether an operator fails that changes a record that it has received, which other operators may
            read, too. It is for debugging: each batch is pickled twice for each operator. False.
        deploy_timeout_s: for how many seconds a job may wait for room on the cluster, and then for its workers to come
            up, before it fails. To read a snapshot they have a second more for every 4 MiB. 60.
        log_level: the level of the logger ``tidewheel``, here and at the workers. If no handler is there, this process
            writes lines to standard error. ``"NOTSET"``, the default, leaves logging to the program.
        log_format: ``"json"`` writes a line of JSON for each event, to standard error, here and at the workers.
            ``"text"``, the default, leaves the form to the program.

    Raises:
        ConfigError: a setting is of the wrong kind or out of its range; it names the setting and where it came from.

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
    """Return what the text of a variable stands for, where that is not the text itself."""
    if get_origin(kind) is not Mapping:
        return text
    try:
        return msgspec.json.decode(str(text))
    except msgspec.DecodeError as error:
        raise msgspec.DecodeError(f'{error}; expected a JSON object, such as {{"name": ...}}') from None
