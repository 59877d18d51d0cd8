"""What README and documentation show is run, block by block, and the site is whole.

A page is read as it stands. Its `python` blocks run one after the other in one namespace; a `text` block
that follows one is what it prints. In a `console` block, lines that begin with `$ vcs` or `$ python` are
run and must end with exit code 0; `pip`, `git`, `cd` and `make` are shown to be typed by hand. `<!-- slow
-->` before a block leaves it to the slow tests.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser

from vcs.xai import methods

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "bench" / "RESULTS.md", *sorted((ROOT / "docs").rglob("*.md"))]
OWN_TEST = {"conformance.md": "test_reproductions.py, each program in a process of its own"}
SHOWN = ("python", "console", "text", "json", "asm", "diff")
BY_HAND = ("pip", "git", "cd", "make")
FENCE = re.compile(r"^ *(`{3,}|~{3,})(.*)$", re.M)
INDENTED = re.compile(r"^    \$? ?(?:vcs|python|pip|make|import|from) .*$", re.M)


def nothing(_: Example) -> None:
    """Blocks are taken from the parsed page and run by the tests."""


def blocks(page: Path) -> list[tuple[str, str, int, bool]]:
    """Language, text, line and slowness of each block of a page."""
    parsers = [CodeBlockParser(language, nothing) for language in SHOWN]
    document: Document = Sybil(parsers).parse(page)
    found = []
    for example in sorted(document.examples(), key=lambda e: e.start):
        before = document.text[:example.start].rstrip().rpartition("\n")[2]
        language = document.text[example.start:].partition("\n")[0].strip("` ")
        found.append((language, str(example.parsed), example.line, before.strip() == "<!-- slow -->"))
    return found


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def cases(language: str) -> list[Any]:
    """Pages with blocks of a language, once for the quick ones and once for all if there are slow ones."""
    found = []
    for page in PAGES:
        if page.name in OWN_TEST:
            continue
        slow = [s for kind, _, _, s in blocks(page) if kind == language]
        if False in slow:
            found.append(pytest.param(page, False, id=name(page)))
        if True in slow:
            found.append(pytest.param(page, True, id=f"{name(page)}-slow", marks=pytest.mark.slow))
    return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the repository's, as far as the pages use it."""
    methods.load()
    monkeypatch.setattr(methods, "_METHODS", dict(methods._METHODS))  # pages register methods of their own
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "moves.txt").write_text("RIGHT, 3 up # comment\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.mark.parametrize(("page", "slow"), cases("python"))
def test_python(page: Path, slow: bool, place: Path, rom: Callable[[str], Any]) -> None:
    if page.name != "README.md":
        rom("pong")
    import vcs

    names: dict[str, Any] = {"vcs": vcs} if page.name == "examples.md" else {}
    printed = None
    for language, text, line, is_slow in blocks(page):
        if language == "text" and printed is not None:
            assert printed == text, f"{name(page)}:{line}"
        if language != "python" or (is_slow and not slow):
            printed = None
            continue
        output = io.StringIO()
        # the empty lines make a traceback point at the page
        code = compile("\n" * line + text, str(page), "exec")
        with contextlib.redirect_stdout(output), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*has no game rules")
            exec(code, names)
        printed = output.getvalue()


@pytest.mark.parametrize(("page", "slow"), cases("console"))
def test_console(page: Path, slow: bool, place: Path, rom: Callable[[str], Any]) -> None:
    if page.name != "README.md":
        rom("pong")
    for language, text, line, is_slow in blocks(page):
        if language != "console" or is_slow != slow:
            continue
        for command in [shown[2:] for shown in text.splitlines() if shown.startswith("$ ")]:
            words = shlex.split(command, comments=True)
            if words[0] in BY_HAND:
                continue
            assert words[0] in ("vcs", "python"), f"{name(page)}:{line}: {command}"
            program = ["-m", "vcs"] if words[0] == "vcs" else []
            done = subprocess.run([sys.executable, *program, *words[1:]], cwd=place, text=True,
                                  capture_output=True, timeout=550)
            assert done.returncode == 0, f"{name(page)}:{line}: {command}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_what_it_is(page: Path) -> None:
    text = page.read_text()
    inside = False
    for fence in FENCE.finditer(text):
        inside = not inside
        if inside:
            line = text[:fence.start()].count("\n") + 1
            assert fence[2].strip() in SHOWN, f"{name(page)}:{line}: tag it with one of {', '.join(SHOWN)}"
    outside = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    unfenced = INDENTED.findall(outside)
    assert not unfenced, f"{name(page)}: {unfenced[0]!r} is not run: fence it"


def test_the_changes_of_the_recipes_still_fit() -> None:
    changes = [text for language, text, _, _ in blocks(ROOT / "docs" / "extend.md") if language == "diff"]
    assert changes
    for change in changes:
        done = subprocess.run(["git", "apply", "--check", "--unidiff-zero", "-"], cwd=ROOT, input=change,
                              text=True, capture_output=True)
        assert done.returncode == 0, done.stderr


def test_make_has_the_targets_that_are_shown() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"`make ([\w-]+)`|^\$ make ([\w-]+)", page.read_text(), re.M):
            assert re.search(rf"^{''.join(target)}:", makefile, re.M), f"{name(page)}: make {''.join(target)}"


def test_named_places_exist() -> None:
    """Files named in backquotes, and the links of pages that mkdocs does not check."""
    for page in PAGES:
        text = page.read_text()
        for path in re.findall(r"`((?:vcs|conformance|bench|docs|tests|examples)/[\w/.-]*)`", text):
            assert (ROOT / path).exists(), f"{name(page)}: {path}"
    for link in re.findall(r"\]\((?!http)([^)#]*)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).exists(), link


def test_pictures_are_those_of_the_script(tmp_path: Path) -> None:
    script = str(ROOT / "docs" / "pictures.py")
    subprocess.run([sys.executable, script, str(tmp_path)], check=True, timeout=500,
                   env={**os.environ, "PYTHONPATH": str(ROOT)})
    drawn = {path.name for path in tmp_path.glob("*.png")}
    page = (ROOT / "docs" / "machine.md").read_text()
    assert drawn == set(re.findall(r"\(img/([\w.]+)\)", page))
    for file in drawn:
        assert (ROOT / "docs" / "img" / file).stat().st_size < 100_000


def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    """And nothing in it is asked from elsewhere when a page is read."""
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")], cwd=ROOT,
        text=True, capture_output=True, timeout=500, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]* src="(http[^"]*)"', text)
        links = r'<link[^>]* rel="(?:stylesheet|icon|preload|preconnect)"[^>]* href="(http[^"]*)"'
        loaded += re.findall(links, text)
        assert not loaded, f"{page.name}: {loaded}"
