"""The exit codes of every command, in one place."""

from __future__ import annotations

DONE = 0
"""Done; of a gate: pass."""
FELL_SHORT = 1
"""Done, but not all is well: some items failed, a file is invalid, a threshold was missed; of a gate: fail."""
UNUSABLE = 2
"""The command line or the input cannot be used, and nothing was begun; of a gate: inconclusive."""
COULD_NOT_RUN = 3
"""There is no service, or it refused; of a gate: also what cannot be used."""
INTERRUPTED = 128 + 2
"""As a shell reports a process ended by SIGINT."""
READER_LEFT = 128 + 13
"""As a shell reports a process ended by SIGPIPE: the reader left before everything was printed."""

VERDICT_EXITS = {"pass": DONE, "fail": FELL_SHORT, "inconclusive": UNUSABLE}

EPILOG = """\b
Exit codes:
0    done; gate, attack: pass
1    done, but not all is well, as where an item failed; gate, attack: fail
2    the command line or the input cannot be used; gate, attack: inconclusive
3    could not run; gate: also what cannot be used
130  interrupted
141  the reader of the output left
"""
