"""What a page's template names for itself does not stand in the way of the frame around it."""

from pathlib import Path

import pytest
from jinja2 import nodes

from saiten_server.platform.web.page import environment_of

APP = Path(__file__).resolve().parents[2] / "app"
PAGES = sorted(path for path in APP.rglob("templates/*.html") if path.name != "base.html")


def list_own_names(page: nodes.Template) -> set[str]:
    """What the template defines outside its blocks: the base, which it extends, sees these names too."""
    found = {part.name for part in page.body if isinstance(part, nodes.Macro)}
    for part in page.body:
        if isinstance(part, nodes.Assign):
            found |= {name.name for name in part.find_all(nodes.Name) if name.ctx == "store"}
        elif isinstance(part, nodes.Import):
            found.add(part.target)
        elif isinstance(part, nodes.FromImport):
            found |= {name if isinstance(name, str) else name[1] for name in part.names}
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_redefines_no_name_of_the_base(path: Path) -> None:
    environment = environment_of("en")
    (base,) = APP.rglob("templates/base.html")
    frame = environment.parse(base.read_text(encoding="utf-8"))
    names = [*frame.find_all(nodes.Name)]
    # What the base sets for itself, such as the variable of a loop, it does not take from the page.
    used = {name.name for name in names if name.ctx == "load"} - {name.name for name in names if name.ctx == "store"}
    assert "term" in used
    page = environment.parse(path.read_text(encoding="utf-8"))
    assert not list_own_names(page) & used
