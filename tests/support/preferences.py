"""Simulated preferences with known strengths."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from scipy.special import ndtr

from saiten_server.stats.observations import NO_RATER, Floats, Integers
from saiten_server.stats.shown_pairs import FIRST, SECOND, TIE, ShownPairs


@dataclass(frozen=True)
class PreferenceWorld:
    """Where preferences come from. Each look alone follows Davidson's model exactly; what looks at one prompt share (how
    well each system answers it) is `alike` of all that varies, as a Gaussian copula has it. `nu` is that of ties, and
    `position` log odds for what is shown first."""

    strengths: tuple[float, ...]
    position: float = 0.0
    nu: float = 0.0
    alike: float = 0.0

    @property
    def systems(self) -> int:
        return len(self.strengths)

    @property
    def truth(self) -> Floats:
        """The strengths with mean 0."""
        found = np.array(self.strengths)
        centred: Floats = found - found.mean()
        return centred

    def chances(self, first: Integers, second: Integers, added: Floats | float = 0.0) -> Floats:
        """Of first, second and tie, shape (3, n)."""
        theta = np.array(self.strengths)
        odds = theta[first] - theta[second] + self.position + added
        found = np.stack([np.exp(odds / 2), np.exp(-odds / 2), np.full(odds.shape, self.nu)])
        shares: Floats = found / found.sum(axis=0)
        return shares

    def answer(
        self,
        quality: Floats,
        prompt: Integers,
        first: Integers,
        second: Integers,
        rng: np.random.Generator,
        added: Floats | float = 0.0,
    ) -> Integers:
        """What is said of each look. `quality` are the prompts' normal values of each system, shape (prompts,
        systems)."""
        chances = self.chances(first, second, added)
        shared = (quality[prompt, first] - quality[prompt, second]) / np.sqrt(2)
        drawn = ndtr(np.sqrt(self.alike) * shared + np.sqrt(1 - self.alike) * rng.normal(size=len(first)))
        return np.select([drawn > 1 - chances[0], drawn < chances[1]], [FIRST, SECOND], TIE).astype(np.int64)


def draw_pairs(world: PreferenceWorld, prompts: int, rng: np.random.Generator) -> ShownPairs:
    """All pairs of systems on each prompt, in both orders."""
    orders = np.array([*permutations(range(world.systems), 2)])
    first, second = np.tile(orders, (prompts, 1)).T
    prompt = np.repeat(np.arange(prompts), len(orders))
    quality = rng.normal(size=(prompts, world.systems))
    choice = world.answer(quality, prompt, first, second, rng)
    return make_pairs(world.systems, first, second, choice, prompt)


def make_pairs(systems: int, first: Integers, second: Integers, choice: Integers, item: Integers) -> ShownPairs:
    """Looks by one judge, each item being a cluster."""
    names = tuple(f"s{number}" for number in range(systems))
    first, second, choice, item = (np.asarray(column) for column in (first, second, choice, item))
    return ShownPairs(names, first, second, choice, item, item, np.full(len(first), NO_RATER))


def list_wins(table: dict[tuple[int, int], int], systems: int) -> ShownPairs:
    """So many wins of the first of each pair over the second, each an item of its own, shown first in every other."""
    rows = [(i, j) for (i, j), count in table.items() for _ in range(count)]
    turned = [number % 2 == 1 for number in range(len(rows))]
    first = np.array([j if turn else i for (i, j), turn in zip(rows, turned, strict=True)])
    second = np.array([i if turn else j for (i, j), turn in zip(rows, turned, strict=True)])
    return make_pairs(systems, first, second, np.where(turned, SECOND, FIRST), np.arange(len(rows)))
