"""Cases of a test that share its fixtures."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def in_turn(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As `pytest.mark.parametrize`, but in one test: the cases come one after another to the same service. To start
    one takes most of the time of a test that is only refused or only reads. The error of a case names it."""
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    given = [dict(zip(split, case if len(split) > 1 else (case,), strict=True)) for case in cases]
    if not given:
        raise ValueError("no case")

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run(**fixtures: Any) -> None:
                for case in given:
                    try:
                        await test(**fixtures, **case)
                    except BaseException as error:
                        error.add_note(f"case: {case!r}")
                        raise
        else:

            @functools.wraps(test)
            def run(**fixtures: Any) -> None:
                for case in given:
                    try:
                        test(**fixtures, **case)
                    except BaseException as error:
                        error.add_note(f"case: {case!r}")
                        raise

        signature = inspect.signature(test)
        kept = [one for name, one in signature.parameters.items() if name not in split]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate
