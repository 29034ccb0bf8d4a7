"""The judge `lexical`: rates surface features of the text without a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.providers.registry import judge

if TYPE_CHECKING:
    from app.providers.call_cache import CachedCalls
    from app.providers.flow_control import FlowControl
    from app.providers.ports import Judge
    from app.runtime.settings import Settings


@judge("lexical", baseline=True)
def open_judge(settings: Settings, calls: CachedCalls, flow: FlowControl) -> Judge:
    """It needs neither settings nor calls."""
    from app.providers.lexical.judge import LexicalJudge

    return LexicalJudge()
