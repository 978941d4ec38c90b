"""The JSON form of times and records.

JSON values are unchanged. NumPy values become Python values, times ISO 8601, bytes base64. NaN, NaT and infinity become
null, and all other values their `str`.
"""

import sys
from datetime import date
from typing import Any

import msgspec

from tidewheel.progress import TidewheelError

_OWN = frozenset({type(None), bool, int, float, str, dict, list, tuple})


def encode_json(value: Any) -> bytes:
    r"""Return a value as JSON in UTF-8, without line breaks.

    Raises:
        TidewheelError: the value contains itself or an incomplete character, or its `str` fails.

    >>> encode_json({"n": float("nan"), "raw": b"\0", "z": 1j})
    b'{"n":null,"raw":"AA==","z":"1j"}'
    """
    try:
        return msgspec.json.encode(value, enc_hook=_form)
    except Exception as error:
        raise TidewheelError(f"it cannot be shown as JSON ({type(error).__name__}: {error})") from error


def plain(value: Any) -> Any:
    """Return the plain Python value of a NumPy or pandas value, or of an instance of a subclass of a number or str."""
    if type(value) in _OWN:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic | numpy.ndarray):
        return _from_numpy(value)
    if isinstance(value, float):
        return float(value)
    pandas = sys.modules.get("pandas")
    return None if pandas is not None and (value is pandas.NaT or value is pandas.NA) else value


def _from_numpy(value: Any) -> Any:
    import numpy as np

    if value.dtype.kind in "mM":  # tolist() makes integers of times in nanoseconds
        texts = np.array(value.astype(str), dtype=object)
        texts[np.isnat(value)] = None
        return texts.tolist()
    found = value.tolist()
    return str(value) if isinstance(found, np.generic) else found  # tolist() leaves a long double as it is


def _form(value: Any) -> Any:
    found = plain(value)
    if found is not value:
        return found
    return value.isoformat() if isinstance(value, date) else str(value)
