"""The measured facts, one file each; code reads them from here and holds no second copy.

| file | what |
|---|---|
| `opcodes.csv` | the 256 opcodes: mnemonic, addressing mode, bytes, cycles |
| `roms.csv` | hashes, sizes and mappers of the known cartridges |
| `properties.json` | console properties of the known cartridges, action sets, modes |
| `games.json` | score, lives and end of each game, as programs |
| `palettes.json` | colour tables |
| `audit_*.json`, `relaxation_expected.json` | inputs and expected numbers of the published studies |
"""
from __future__ import annotations

import csv
import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def load_json(name: str) -> Any:
    """The parsed content of a JSON file of this package. The object is shared: do not change it."""
    return json.loads(files(__name__).joinpath(name).read_text(encoding="utf-8"))


@cache
def load_csv(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a CSV file of this package, each a dict from column name to text."""
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))
