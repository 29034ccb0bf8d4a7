"""A `PolicyStore` in memory, held to the same contract as the real one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from app.domain.policy import DEFAULT_POLICY, ProjectPolicy


class FakePolicyStore:
    def __init__(self) -> None:
        self.saved: dict[str, ProjectPolicy] = {}

    async def find_policy(self, project: str) -> ProjectPolicy:
        return self.saved.get(project, DEFAULT_POLICY)

    async def save_policy(self, project: str, policy: ProjectPolicy, now: datetime) -> None:
        self.saved[project] = policy

    async def policies(self) -> Mapping[str, ProjectPolicy]:
        return dict(sorted(self.saved.items()))
