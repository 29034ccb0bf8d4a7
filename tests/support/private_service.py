"""A private service that the process of the tests starts, forked from one that has everything imported.

python -m tests.support.private_service         # standard input is its control, standard output its announcement
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.nursery import Forked


def launch(environment: Mapping[str, str], control: int, announcement: int, *, quiet: bool) -> Forked:
    """Stands in for `saiten.private.launch`, which takes two seconds of CPU."""
    return Forked(
        [],
        module=__name__,
        folder=Path.cwd(),
        variables=environment,
        stdin=control,
        stdout=announcement,
        stderr=subprocess.DEVNULL if quiet else None,
    )


def main() -> None:
    """Serves as the process does that `saiten.private.launch` starts."""
    from saiten_server.cli import main as run

    os.setsid()
    control, announcement, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    sys.argv = ["saiten", "serve", "--private", f"{control},{announcement}"]
    run()


if __name__ == "__main__":
    main()
