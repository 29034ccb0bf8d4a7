"""A file of which the rest was not read: nobody knows how many more faults it has."""

import json

from click.testing import CliRunner

from saiten.commands.files import MOST_SHOWN
from saiten_server.cli.analyze import command
from saiten_server.core.errors import MOST_REFUSED


def test_faults_after_which_nothing_was_read_are_at_least_so_many() -> None:
    lines = "".join(json.dumps({"item": number, "ratings": {"a": "x"}}) + "\n" for number in range(3 * MOST_REFUSED))
    done = CliRunner().invoke(command, ["agreement", "-"], input=lines)
    assert done.exit_code == 2
    # Five are shown, and reading ends at or soon after the thousandth: 995 more at the least.
    assert done.stderr.splitlines()[-1] == f"… and at least {MOST_REFUSED - MOST_SHOWN:,} more: the rest was not read"
