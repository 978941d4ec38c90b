"""JSON merge patches: computes the difference of two documents, and merges it into a document.

A document is a dict with string keys; no dict in it has None as a value. The functions do not change their arguments.
Results share parts with the arguments, so do not change results.

Source: RFC 7386, "JSON Merge Patch".
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]


def patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """Return the patch from ``before`` to ``after``; empty if they are equal; linear.

    >>> patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 1}, "d": [1, 2]})
    {'a': {'c': None}, 'd': [1, 2]}
    """
    changes: Document = {}
    for key, new in after.items():
        if key not in before:
            changes[key] = new
            continue
        old = before[key]
        if isinstance(new, dict) and isinstance(old, dict):
            if inner := patch(old, new):
                changes[key] = inner
        elif new != old:
            changes[key] = new
    changes.update((key, None) for key in before if key not in after)
    return changes


def merge(document: Mapping[str, Any], changes: Mapping[str, Any]) -> Document:
    """Return the document with a patch merged into it; linear in the patch and the changed dicts.

    >>> merge({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"c": None}, "d": [1, 2]})
    {'a': {'b': 1}, 'd': [1, 2]}
    """
    merged = dict(document)
    for key, change in changes.items():
        if change is None:
            merged.pop(key, None)
        elif isinstance(change, dict):
            old = merged.get(key)
            merged[key] = merge(old if isinstance(old, dict) else {}, change)
        else:
            merged[key] = change
    return merged
