"""What is shipped: types, data, version."""
from __future__ import annotations

import ast
import re
from importlib.metadata import version
from pathlib import Path

import yaml

import vcs
from vcs import _hard
from vcs._hard import machine

ROOT = Path(__file__).parent.parent


def names(body: list[ast.stmt]) -> set[str]:
    """Public names that the statements of a stub define."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {name for name in found if not name.startswith("_")}


def test_the_stub_lists_what_the_compiled_machine_has() -> None:
    stub = ast.parse(Path(_hard.__file__).with_name("machine.pyi").read_text())
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            real = {name for name in vars(getattr(machine, node.name)) if not name.startswith("_")}
            assert names(node.body) == real, node.name
    functions = {name for name, value in vars(machine).items()
                 if not name.startswith("_") and getattr(value, "__module__", "") == machine.__name__}
    assert names(stub.body) == functions


def test_one_version() -> None:
    assert version("glassvcs") == vcs.__version__
    assert f"version: {vcs.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## {re.escape(vcs.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)


def test_make_installs_what_the_build_requires() -> None:
    required = re.search(r"^requires = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.M)
    listed = re.search(r"^BUILD := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert required and listed
    assert re.findall(r"[\w>=.]+", listed[1]) == re.findall(r"[\w>=.]+", required[1])


def test_public_names_load_and_are_documented() -> None:
    for name in vcs.__all__:
        value = getattr(vcs, name)
        assert name == "__version__" or value.__doc__, name
    assert set(vcs.__all__) <= set(dir(vcs))


def test_citation_file_is_complete() -> None:
    """What the schema of CITATION.cff 1.2.0 requires; cffconvert itself wants an old jsonschema."""
    entry = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert entry["cff-version"] == "1.2.0" and {"message", "title", "authors"} <= set(entry)
    assert all("name" in author or "family-names" in author for author in entry["authors"])
