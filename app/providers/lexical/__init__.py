"""The judge `lexical`: rates surface features of the text without a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saiten_server.providers.registry import judge

if TYPE_CHECKING:
    from saiten_server.platform.settings import Settings
    from saiten_server.providers.call_cache import CachedCalls
    from saiten_server.providers.flow_control import FlowControl
    from saiten_server.providers.ports import Judge


@judge("lexical", baseline=True)
def open_judge(settings: Settings, calls: CachedCalls, flow: FlowControl) -> Judge:
    """It needs neither settings nor calls."""
    from saiten_server.providers.lexical.judge import LexicalJudge

    return LexicalJudge()
