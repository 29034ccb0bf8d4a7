"""Which items are turns of one dialogue: what continues each other, and nothing through a branch."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from saiten_server.core.dialogue import Utterance
from saiten_server.runs.clusters import ALONE, Trace, find_clusters, hash_beginnings, name_dialogue, name_found

CONTEXTS = st.lists(st.text("abc", min_size=1, max_size=1), min_size=1, max_size=5)


def say(text: Sequence[str]) -> list[Utterance]:
    return [Utterance(speaker="AB"[number % 2], text=said) for number, said in enumerate(text)]


def group(contexts: Sequence[Sequence[str]], candidates: int = 1) -> list[int]:
    traces = [Trace(candidates, hash_beginnings(say(context))) for context in contexts]
    return list(find_clusters(lambda: traces))


def test_turns_whose_contexts_continue_each_other_are_one_dialogue():
    assert group(["abc", "xy", "ab", "abcba", "xyx", "p"]) == [0, 1, 0, 0, 1, ALONE]


def test_a_single_utterance_joins_nothing_but_what_is_said_to_it_alike():
    assert group(["a", "ab", "abc"]) == [ALONE, 1, 1]
    assert group(["a", "b", "a"]) == [0, ALONE, 0]


def test_a_beginning_that_branches_joins_neither_branch():
    # Two dialogues that open alike: their openings are one context, their continuations two dialogues.
    assert group(["ab", "abc", "abcd", "abx", "abxy"]) == [ALONE, 1, 1, 3, 3]
    assert group(["ab", "abcx", "abcy"]) == [ALONE] * 3


def test_what_goes_on_alike_before_it_branches_is_joined():
    assert group(["ab", "abc", "abcx", "abcy"]) == [0, 0, ALONE, ALONE]


def test_candidates_of_one_context_are_one_cluster_and_items_that_name_their_dialogue_are_left_to_it():
    assert group(["ab"], candidates=2) == [0]
    named = Trace(3, [])
    assert list(find_clusters(lambda: [named, Trace(1, hash_beginnings(say("ab"))), named])) == [ALONE] * 3


def test_speakers_and_ends_of_utterances_tell_contexts_apart():
    contexts = [
        [Utterance(speaker="A", text="ab"), Utterance(speaker="B", text="c")],
        [Utterance(speaker="A", text="a"), Utterance(speaker="B", text="bc")],
        [Utterance(speaker="B", text="ab"), Utterance(speaker="A", text="c")],
    ]
    assert len({tuple(hash_beginnings(context)) for context in contexts}) == 3


def test_long_dialogues_are_followed_to_their_end():
    text = ["a", "b"] * 100
    assert group([text[:length] for length in range(200, 0, -1)]) == [0] * 199 + [ALONE]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(CONTEXTS, max_size=12).flatmap(lambda found: st.tuples(st.just(found), st.permutations(range(len(found)))))
)
def test_clusters_do_not_depend_on_the_order(drawn: tuple[list[list[str]], list[int]]):
    contexts, order = drawn
    found, again = group(contexts), group([contexts[place] for place in order])
    moved = {place: again[at] for at, place in enumerate(order)}
    for a, b in combinations(range(len(contexts)), 2):
        assert (found[a] == found[b] != ALONE) == (moved[a] == moved[b] != ALONE)


@settings(max_examples=200, deadline=None)
@given(st.lists(CONTEXTS, max_size=12))
def test_no_branch_is_joined_and_no_cluster_has_one_candidate(contexts: list[list[str]]):
    found = group(contexts)
    for a, b in combinations(range(len(contexts)), 2):
        short, long = sorted((contexts[a], contexts[b]), key=len)
        if found[a] == found[b] != ALONE:
            assert long[: len(short)] == short
            assert len(short) >= 2 or short == long
        if short == long:
            assert found[a] == found[b] != ALONE
    sizes = Counter(found)
    del sizes[ALONE]
    assert all(size > 1 and found[cluster] == cluster for cluster, size in sizes.items())


@settings(max_examples=200, deadline=None)
@given(st.lists(CONTEXTS, max_size=12))
def test_clusters_are_those_of_the_definition(contexts: list[list[str]]):
    """A context joins the next longer one where all that goes on from it goes on through that one."""
    nodes = sorted({tuple(context) for context in contexts}, key=len)
    cluster = {node: node for node in nodes}
    for node in nodes:
        below = [other for other in nodes if len(other) > len(node) and other[: len(node)] == node]
        children = [one for one in below if not any(one != other and one[: len(other)] == other for other in below)]
        if len(node) >= 2 and len(children) == 1:
            cluster = {key: cluster[node] if top == children[0] else top for key, top in cluster.items()}
    found = group(contexts)
    for a, b in combinations(range(len(contexts)), 2):
        alike = cluster[tuple(contexts[a])] == cluster[tuple(contexts[b])]
        assert (found[a] == found[b] != ALONE) == alike


def test_a_digest_is_of_ids_alone():
    assert name_dialogue("d-1") == name_dialogue("d-1") != name_dialogue("d-2")
    assert len({name_found("ba_1", 0), name_found("ba_2", 0), name_found("ba_1", 1), name_dialogue("ba_1")}) == 4
    assert len(name_found("ba_1", 0)) == 16
