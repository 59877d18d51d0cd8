"""Every public name says what it takes, in which shapes, and how it fails; every command shows an example."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from bench import cli as bench_cli
from conformance import cli as conformance_cli
from vcs import cli

PACKAGES = ("vcs", "vcs.env", "vcs.xai", "vcs.soft", "vcs.relax")


def public(package: str) -> Iterator[tuple[str, Any]]:
    """The functions and classes a package exports, and the public members that those classes define."""
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if not callable(value):
            continue
        yield f"{package}.{name}", value
        for base in inspect.getmro(value) if inspect.isclass(value) else ():
            if base.__module__.split(".")[0] != "vcs" or base in SEEN:
                continue
            SEEN.add(base)
            for member in vars(base):
                if not member.startswith("_"):
                    yield f"{base.__module__}.{base.__qualname__}.{member}", getattr(base, member)


SEEN: set[type] = set()
NAMES = {name: value for package in PACKAGES for name, value in public(package)}


def documentation(name: str) -> str:
    """The docstring. A class is also explained by its bases and its constructor, an attribute without one of
    its own by the class that names it."""
    value = NAMES[name]
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value):
        return "\n".join(inspect.getdoc(part) or "" for part in (*inspect.getmro(value), value.__init__)
                         if (getattr(part, "__module__", None) or "").split(".")[0] == "vcs")
    owner, _, member = name.rpartition(".")
    if not text and not inspect.isroutine(value):
        module, _, klass = owner.rpartition(".")
        base = getattr(importlib.import_module(module), klass, None)
        for owner in NAMES.values():
            if inspect.isclass(owner) and base in inspect.getmro(owner):
                whole = inspect.getdoc(owner) or ""
                text += whole if re.search(rf"\b{member}\b", whole) else ""
    return text


@pytest.mark.parametrize("name", NAMES)
def test_has_a_docstring(name: str) -> None:
    assert documentation(name), f"{name} has no docstring"


@pytest.mark.parametrize("name", [n for n, v in NAMES.items() if inspect.isroutine(v) or inspect.isclass(v)])
def test_names_its_arguments_shapes_and_errors(name: str) -> None:
    value = NAMES[name]
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return
    text = documentation(name)
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):  # some compiled functions have none
        return
    unnamed = [p.name for p in signature.parameters.values()
               if p.name not in ("self", "cls") and not p.name.startswith("_")
               and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and not re.search(rf"\b{p.name}\b", text)]
    assert not unnamed, f"{name} does not say what {', '.join(unnamed)} is"
    if "NDArray" in str(signature.return_annotation):
        assert re.search(r"\[.*\]", text), f"{name} gives an array of no stated shape"
    try:
        source = inspect.getsource(value.__init__ if inspect.isclass(value) else value)
    except (OSError, TypeError):
        return
    if re.search(r"raise VcsError", source):
        assert "VcsError" in text, f"{name} does not say that it raises VcsError"


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it."""
    children = getattr(command, "commands", None)  # typer brings a click of its own, so no isinstance
    if children is None:
        yield path, command
    for name, child in (children or {}).items():
        yield from leaves(child, (*path, name))


def commands() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in cli.ELSEWHERE:  # each call of build() loads one of these
        for path, command in leaves(typer.main.get_command(cli.build(name)), ("vcs",)):
            if path[1] == name or path[1] not in cli.ELSEWHERE:
                found[" ".join(path)] = command
    for program, app in (("conformance", conformance_cli.app), ("bench", bench_cli.app)):
        for path, command in leaves(typer.main.get_command(app), ("python", "-m", program)):
            found[" ".join(path)] = command
    return {path: command for path, command in found.items() if command.callback is not None
            and command.callback.__name__ != "nothing"}


COMMANDS = commands()


@pytest.mark.parametrize("path", COMMANDS)
def test_command_shows_an_example_that_parses(path: str) -> None:
    command = COMMANDS[path]
    text = " ".join(f"{command.help} {command.epilog}".split())
    shown = re.search(rf"Example: {path}(?: |$)(.*?)(?:\.$|\. |$| None$)", text)
    assert shown, f"{path} --help shows no example of itself"
    command.make_context(path, shlex.split(shown[1].removesuffix(" None")))
    undescribed = [p.name for p in command.params if not getattr(p, "help", None) and p.name != "help"]
    assert not undescribed, f"{path} does not explain {undescribed}"
