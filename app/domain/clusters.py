"""Which items are turns of one dialogue, where the caller does not say so: method.md, section 8.

Items with equal contexts belong together. A context that is the beginning of others joins them where it has at least
two utterances and does not branch: all that goes on from it goes on alike, up to the next item. Contexts are compared
by hashes of their beginnings, so that a hundred thousand items need a few megabytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from app.domain.dialogue import Utterance
from app.domain.model import digest

FEWEST_UTTERANCES = 2
"""Of a beginning that joins: many dialogues open with the same greeting."""

ALONE = -1
DIGITS = 16
"""Hexadecimal ones of a cluster's digest."""


class Trace(NamedTuple):
    """How many candidates an item has, and the hashes of its context's beginnings, from one utterance to all.

    There are no hashes where the item names its dialogue.
    """

    candidates: int
    beginnings: Sequence[int]


def hash_beginnings(context: Iterable[Utterance]) -> list[int]:
    """A hash of 64 bits of each beginning of the context, from one utterance to all.

    Python's own, which is cheaper than a digest. It is keyed anew in each process, so that texts that collide cannot be
    prepared, and means nothing in another process.
    """
    return list(accumulate(context, lambda before, said: hash((before, said.speaker, said.text)), initial=0))[1:]


def find_clusters(read: Callable[[], Iterable[Trace]]) -> array[int]:
    """The cluster of each item: the smallest number of its items, ALONE for an item with one candidate that is in none.

    `read` gives all traces in order, and is called twice. Which items belong together does not depend on their order.
    Memory: some 150 bytes per different context, 8 per item. Time: linear in the number of utterances.
    """
    numbers: dict[int, int] = {}
    nodes, first, size = array("q"), array("q"), array("q")
    for item, trace in enumerate(read()):
        if not trace.beginnings:
            nodes.append(ALONE)
            continue
        node = numbers.setdefault(trace.beginnings[-1], len(numbers))
        if node == len(first):
            first.append(item)
            size.append(0)
        nodes.append(node)
        size[node] += trace.candidates
    root = join(numbers, read(), first)
    name = array("q", first)
    for node, top in enumerate(root):
        if top != node:
            name[top] = min(name[top], name[node])
            size[top] += size[node]
    return array("q", (name[root[node]] if node != ALONE and size[root[node]] > 1 else ALONE for node in nodes))


def join(numbers: dict[int, int], traces: Iterable[Trace], first: Sequence[int]) -> array[int]:
    """The context that stands for each context's cluster; `numbers` counts them by hash, `first` has each one's first
    item."""
    parent, children = array("q", [ALONE]) * len(numbers), array("q", [0]) * len(numbers)
    for item, trace in enumerate(traces):
        node = numbers[trace.beginnings[-1]] if trace.beginnings else ALONE
        if node == ALONE or first[node] != item:
            continue
        for beginning in reversed(trace.beginnings[FEWEST_UTTERANCES - 1 : -1]):
            if (above := numbers.get(beginning)) is not None:
                parent[node] = above
                children[above] += 1
                break
    root = array("q", [ALONE]) * len(numbers)
    for start in range(len(numbers)):
        path, node = [], start
        while root[node] == ALONE:
            path.append(node)
            above = parent[node]
            if above == ALONE or children[above] > 1:
                root[node] = node
            else:
                node = above
        for below in path:
            root[below] = root[node]
    return root


def name_dialogue(dialogue: str) -> str:
    """The digest of a cluster that a caller names. It tells of the name alone."""
    return digest(["dialogue", dialogue])[:DIGITS]


def name_found(owner: str, cluster: int) -> str:
    """The digest of a cluster that was found among the items of `owner`, a batch or file. It holds nothing of a text:
    an erased one cannot be tried out against it."""
    return digest(["found", owner, cluster])[:DIGITS]
