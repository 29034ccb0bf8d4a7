"""Detects which items are turns of one dialogue if the caller does not name it.

Items with equal contexts belong together. A context that is the beginning of others joins them if it has at least two
utterances and does not branch, that is, if all contexts that continue it are equal up to the next item. Contexts are
compared by hashes of their beginnings, so a hundred thousand items need a few megabytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from saiten_server.core.dialogue import Utterance
from saiten_server.core.model import digest

FEWEST_UTTERANCES = 2
"""A beginning shorter than this joins nothing: many dialogues open with the same greeting."""

ALONE = -1
CLUSTER_DIGITS = 16
"""Hexadecimal digits of a cluster's digest."""


class Trace(NamedTuple):
    """The number of an item's candidates, and the hashes of its context's beginnings, from one utterance to all. There
    are no hashes if the item names its dialogue."""

    candidates: int
    beginnings: Sequence[int]


def hash_beginnings(context: Iterable[Utterance]) -> list[int]:
    """A hash of 64 bits of each beginning of the context, from one utterance to all. Uses `hash`, which is cheaper than
    a digest. Its key differs per process, so collisions cannot be prepared, and the result must not be stored."""
    return list(
        accumulate(context, lambda before, utterance: hash((before, utterance.speaker, utterance.text)), initial=0)
    )[1:]


def find_clusters(read: Callable[[], Iterable[Trace]]) -> array[int]:
    """The cluster of each item: the smallest item number in it, ALONE for a single candidate in no cluster. `read`
    returns all traces in order and is called twice. The result does not depend on the order of the items. Memory: about
    150 bytes per distinct context and 8 per item. Time: linear in the number of utterances."""
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
    root = join_clusters(numbers, read(), first)
    name = array("q", first)
    for node, top in enumerate(root):
        if top != node:
            name[top] = min(name[top], name[node])
            size[top] += size[node]
    return array("q", (name[root[node]] if node != ALONE and size[root[node]] > 1 else ALONE for node in nodes))


def join_clusters(numbers: dict[int, int], traces: Iterable[Trace], first: Sequence[int]) -> array[int]:
    """The root context of each context's cluster. `numbers` maps hashes to contexts, `first` contexts to items."""
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
    """The digest of a cluster that the caller names; it depends on the name only."""
    return digest(["dialogue", dialogue])[:CLUSTER_DIGITS]


def name_found(owner: str, cluster: int) -> str:
    """The digest of a cluster that was detected among the items of `owner`, a batch or a file. It does not depend on
    any text, so an erased text cannot be guessed from it."""
    return digest(["found", owner, cluster])[:CLUSTER_DIGITS]
