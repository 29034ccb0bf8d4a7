"""The image's pinned packages: those of constraints.txt, each with its hashes, and all that the distributions need."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).parents[1]
FILES = {
    "image": {"postgres", "tracing"},
    "image-offline": {"postgres", "tracing", "offline"},
    "image-bertscore": {"postgres", "tracing", "bertscore"},
    "build": set[str](),
}
OWN = {"saiten", "saiten-server"}


@cache
def read_pins(name: str) -> dict[NormalizedName, tuple[str, int]]:
    """The version of each package of the file, and how many hashes it has."""
    entries = re.split(r"\n(?=\S)", (ROOT / f"requirements/{name}.txt").read_text().strip())
    found = {}
    for entry in entries:
        requirement = Requirement(entry.split(" \\\n")[0])
        (version,) = requirement.specifier
        assert version.operator == "=="
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}(?: \\)?$", entry, re.MULTILINE)
        found[canonicalize_name(requirement.name)] = (version.version, len(hashes))
    return found


def find_needed(distribution: str, extras: set[str], found: set[str]) -> set[str]:
    """All packages that the installed distribution needs here with these extras, at any depth."""
    try:
        needs = requires(distribution) or ()
    except PackageNotFoundError:
        # An optional package that this machine does without.
        return found
    for written in needs:
        one = Requirement(written)
        name = canonicalize_name(one.name)
        wanted = [{"extra": extra} for extra in extras | {""}]
        if one.marker is not None and not any(one.marker.evaluate(environment) for environment in wanted):
            continue
        key = f"{name}[{','.join(sorted(one.extras))}]"
        if key not in found:
            found.add(key)
            find_needed(name, one.extras, found)
    return found


@pytest.mark.parametrize("name", FILES)
def test_each_package_has_hashes_and_no_index_is_named(name: str) -> None:
    assert all(hashes for _, hashes in read_pins(name).values())
    assert "://" not in (ROOT / f"requirements/{name}.txt").read_text()


@pytest.mark.parametrize("name", ["image", "image-offline", "image-bertscore"])
def test_the_image_has_the_versions_that_are_tested(name: str) -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = {canonicalize_name(package): version for package, _, version in (line.partition("==") for line in lines)}
    pins = read_pins(name)
    assert {package: version for package, (version, _) in pins.items() if tested.get(package, version) != version} == {}


@pytest.mark.parametrize("name", ["image", "image-offline", "image-bertscore"])
def test_the_image_has_all_that_the_distributions_need(name: str) -> None:
    needed = find_needed("saiten-server", FILES[name], set())
    packages = {one.partition("[")[0] for one in needed} - OWN - {"torch"}
    # What torch alone needs comes with it, or is here too.
    alone = {one.partition("[")[0] for one in find_needed("torch", set(), set())} if "bertscore" in name else set()
    assert packages - alone - read_pins(name).keys() == set()


def test_the_image_installs_nothing_without_a_hash() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    installs = re.findall(r"pip install[^&\n]*", text)
    assert len(installs) == 6
    for install in installs:
        assert "--require-hashes -r " in install or "--no-deps --no-index /dist/*.whl" in install
