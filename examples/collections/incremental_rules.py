"""A rule engine: facts, rules over them as in Datalog, and all that follows, kept up to date as facts come and go.

A fact is a tuple of words, its relation first. In rules, words in capitals stand for any word.
"""

import re
from functools import partial

import tidewheel as tw
from examples.parts.history import added, removed, show

FAMILY = ["ancestor(X, Y) :- parent(X, Y)", "ancestor(X, Z) :- parent(X, Y), ancestor(Y, Z)"]

Words = tuple[str, ...]
Found = tuple[tuple[str, str], ...]
"""Pairs of a word and what stands for it, in order."""


def conclusions(facts: tw.Collection, rules: list[str]) -> tw.Collection:
    """Return the facts, and all that the rules conclude from them."""
    atoms = [[tuple(re.findall(r"\w+", atom)) for atom in re.findall(r"\w+\(.*?\)", rule)] for rule in rules]
    return facts.distinct().iterate(lambda known: facts.concat(*(infer(known, *rule) for rule in atoms)).distinct())


def infer(known: tw.Collection, head: Words, first: Words, *others: Words) -> tw.Collection:
    """Return the head of a rule for all words for which its body is known."""
    found, seen = known.flat_map(partial(match, first)), set(first)
    for atom in others:
        shared, seen = seen & set(atom), seen | set(atom)
        right = known.flat_map(partial(match, atom)).map(partial(keyed, shared))
        found = found.map(partial(keyed, shared)).join(right, lambda _, one, other: tuple(sorted({*one, *other})))
    return found.map(lambda found: tuple(dict(found).get(word, word) for word in head))


def match(atom: Words, fact: Words) -> list[Found]:
    """Return what has to stand for what if a fact is what an atom of a rule says; nothing if it is not."""
    stands = {word: value for word, value in zip(atom, fact, strict=False) if word.isupper()}
    said = tuple(stands.get(word, word) for word in atom)
    return [tuple(sorted(stands.items()))] if said == fact else []


def keyed(shared: set[str], found: Found) -> tuple[Found, Found]:
    return tuple(item for item in found if item[0] in shared), found


if __name__ == "__main__":
    first = [("parent", "ann", "bob"), ("parent", "bob", "cat")]
    facts = [added(first), added([("parent", "cat", "dan")]), removed(first[:1])]
    show(__doc__, partial(conclusions, rules=FAMILY), facts)
