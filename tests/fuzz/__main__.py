"""`python -m tests.fuzz [PART …]`: everything at full size, some 20 minutes; exits with 1 where anything was found."""

import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.openapi import PHASES, run
from tests.support.command import served

EXAMPLES = 400
"""Of each operation: 10,000 requests over all, and as many as it takes for the boundaries beside them."""

SECONDS = 180
TARGETS = ("replies", "documents", "rubrics", "texts")


def ask_service() -> bool:
    """Schemathesis over the OpenAPI document of a service of its own; true where nothing was found."""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), SAITEN_JUDGE="lexical") as (url, _):
        started = time.monotonic()
        tally = run(url, examples=EXAMPLES, phases=PHASES, workers=2)
    print(f"== openapi: {time.monotonic() - started:.0f} s\n{tally.report()}", flush=True)
    return tally.server_errors == 0 and not tally.failures and not tally.errors


def guide(name: str) -> bool:
    """Atheris on one target; true where nothing was found."""
    print(f"== {name}: atheris for {SECONDS} s", flush=True)
    command = [sys.executable, "-m", "tests.fuzz.guided", name, f"-max_total_time={SECONDS}", "-artifact_prefix=/tmp/"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).splitlines()
    shown = (
        said if done.returncode else [line for line in said if "cov:" in line][-1:] + [s for s in said if "stat::" in s]
    )
    print("\n".join(shown[-60:]), flush=True)
    return done.returncode == 0


def main() -> int:
    parts = sys.argv[1:] or ["openapi", *TARGETS]
    if find_spec("atheris") is None and set(parts) & set(TARGETS):
        print("atheris is not installed: pip install -e '.[fuzz]' (Linux)", file=sys.stderr)
        return 2
    clean = [ask_service() if part == "openapi" else guide(part) for part in parts]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
