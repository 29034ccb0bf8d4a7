"""What `saiten analyze` refuses before it reads: exit 2, with the option."""

import pytest
from click.testing import CliRunner

from saiten_server.cli.analyze import command


@pytest.mark.parametrize("field", ["system", "item", "rater", "ratings", "labels", "similarity"])
def test_a_field_with_another_meaning_holds_no_scores(field):
    result = CliRunner().invoke(command, ["agreement", "-", "--scores", field])
    assert result.exit_code == 2
    assert f"--scores: {field} is a field with another meaning" in result.output
