"""What the README shows works."""
from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.filterwarnings("ignore:glass has no game rules")
def test_python_blocks_run_one_after_the_other() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) >= 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)


def test_named_places_exist() -> None:
    text = (ROOT / "README.md").read_text()
    for path in re.findall(r"`((?:vcs|conformance|bench|docs)/[\w/.]*)`|\]\((docs/[^)]*)\)", text):
        assert (ROOT / (path[0] or path[1])).exists(), path
