"""The client where nothing else is installed: what it is to work with is its own dependencies, and no more.

`sniffio`, for one, is in the project's environment and not in that of `pip install saiten`, where each request looks
for it in vain.
"""

import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.command import ROOT, environment
from tests.support.threaded_server import ThreadedServer
from tests.support.waiting import LIMIT_SECONDS

USE = '''
import gc, importlib, pkgutil, sys
sys.path[:0] = [sys.argv[1]]
import saiten
from saiten.commands import OWN_COMMANDS, saiten as group

for found in pkgutil.walk_packages(saiten.__path__, "saiten."):
    if found.name not in {"saiten.__main__", *sys.argv[3:]}:
        importlib.import_module(found.name)
for name in sorted(OWN_COMMANDS):
    group.main([name, "--help"], prog_name="saiten", standalone_mode=False)

class Collect:
    """The garbage collector's worst moment: this thread holds the lock that the others' threads wait for."""
    def find_spec(self, name, path=None, target=None):
        if name == "sniffio":
            gc.collect()

sys.meta_path.insert(0, Collect())
gc.freeze()  # so that it is quick
refused = 0
for _ in range(60):
    try:
        saiten.Client(sys.argv[2], api_key="wrong").info()
    except saiten.SaitenError as error:
        refused += error.code == "unauthorized"
print("refused", refused, *sorted({"saiten_server", "sniffio", "numpy"} & sys.modules.keys()))
'''


OTHERS = ("saiten.pytest_plugin", "saiten.testing", "saiten.core.formats.yaml_documents")
"""Modules for pytest, and one for `saiten[formats]`."""


class RefuseKeys(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"code": "unauthorized", "detail": "no such key"}'
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def find_needed(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """The distribution and all that it needs without extras."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in found:
        found[key] = distribution(name)
        for written in found[key].requires or ():
            needed = Requirement(written)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                find_needed(needed.name, found)
    return found


def install_alone(folder: Path) -> None:
    """Links the client and what it needs into the folder, as `pip install --target` would copy them."""
    (folder / "saiten").symlink_to(ROOT / "client" / "saiten")
    for one in find_needed("saiten", {}).values():
        for top in {file.parts[0] for file in one.files or () if ".." not in file.parts}:
            if not top.endswith(".pth") and not (folder / top).exists():
                (folder / top).symlink_to(Path(str(one.locate_file(top))).resolve())


def test_all_of_it_works_alone(tmp_path: Path) -> None:
    """60 clients that are let go hung while the garbage collector ended one of them within an import."""
    alone = tmp_path / "alone"
    alone.mkdir()
    install_alone(alone)
    with ThreadedServer(RefuseKeys) as server:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", USE, str(alone), server.url, *OTHERS],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "refused 60"
