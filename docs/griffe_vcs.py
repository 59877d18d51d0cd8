"""Docstrings of this project as Markdown: where a paragraph explains names, each becomes an item of a list.

Names of the compiled machine come from its stub, without docstrings; these are asked of the machine itself.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe

_NAME = r"(?:[a-z_]\w*|[A-Z])(?: \w*\[[^\]]*\])?"  # perhaps with a shape, as `screens uint8[F, H, 160]`
ITEM = re.compile(rf"(?:^|(?<=[.)?] ))({_NAME}(?:, {_NAME})*): ")
CLOSING = re.compile(r"^(?=Raises |Returns |Every )|(?<=\. )(?=Raises )", re.M)  # about the whole


def lists(text: str) -> str:
    """Make a list of every paragraph that explains names: `a: this one. b, c: those two.`"""
    paragraphs = [part for whole in re.split(r"\n\s*\n", text) for part in CLOSING.split(whole) if part]
    for i, paragraph in enumerate(paragraphs):
        lines = [line.strip() for line in paragraph.split("\n")]
        head = lines.pop(0) if lines[0].endswith(":") and len(lines) > 1 else ""
        joined = " ".join(lines)
        if ITEM.match(joined):
            pieces = ITEM.split(joined)[1:]
            items = [f"* **{names}**: {what.strip()}" for names, what in zip(pieces[::2], pieces[1::2])]
            paragraphs[i] = "\n".join(([] if head in ("", "Args:") else [head, ""]) + items)
    return "\n\n".join(paragraphs)


class Docstrings(griffe.Extension):
    """Fill in and format docstrings while griffe reads the package."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.is_alias:
            return
        path = obj.path.split(".")
        if obj.docstring is None and path[:3] == ["vcs", "_hard", "machine"] and len(path) == 5:
            module = importlib.import_module("vcs._hard.machine")
            value = getattr(getattr(module, path[3], None), path[4], None)
            text = inspect.getdoc(value) or ""
            # Cython puts the signature on the first line
            text = re.sub(rf"^(\w+\.)?{path[4]}\(.*\).*\n?", "", text)
            if text:
                obj.docstring = griffe.Docstring(text, parent=obj)
        if obj.docstring is not None:
            obj.docstring.value = lists(inspect.cleandoc(obj.docstring.value))
