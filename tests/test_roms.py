"""Finding and checking cartridge images."""
from __future__ import annotations

import gzip
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from vcs import roms
from vcs.data import load_csv, load_json
from vcs.errors import VcsError

IMAGE = bytes(range(256)) * 16


def one_sentence(error: pytest.ExceptionInfo[VcsError]) -> str:
    text = str(error.value)
    assert "\n" not in text and len(text) < 400
    return text


def test_our_own_cartridge_needs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    glass = roms.find("glass")
    assert len(glass.data) == 4096 and glass.name == "glass" and glass.game is None
    assert list(roms.available()) == ["glass"]
    with pytest.raises(VcsError) as error:
        roms.find("pong")
    assert "ale-py" in one_sentence(error)


@pytest.mark.parametrize("row", load_csv("roms.csv"), ids=lambda row: row["name"])
def test_every_listed_image_is_found_and_known(row: dict[str, str], rom: Any) -> None:
    found = rom(row["name"])
    assert (found.md5, found.sha256, len(found.data)) == (row["md5"], row["sha256"], int(row["size"]))
    assert found.name == row["name"]
    assert found.game == (row["name"] if row["ale_py_supported"] == "1" else None)


def test_names_are_compared_without_case_and_separators(rom: Any) -> None:
    rom("space_invaders")
    assert len({roms.find(n).md5 for n in ("SpaceInvaders", "space-invaders", "space_invaders")}) == 1


def test_ale_py_is_not_imported() -> None:
    code = ("import sys, vcs, vcs.roms; vcs.roms.available(); "
            "print([m for m in ('ale_py', 'gymnasium', 'autograd', 'scipy', 'typer') if m in sys.modules])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("kind", ["plain", "gzip", "zip"])
def test_files_may_be_packed(kind: str, tmp_path: Path) -> None:
    path = tmp_path / {"plain": "a.bin", "gzip": "a.bin.gz", "zip": "a.zip"}[kind]
    if kind == "plain":
        path.write_bytes(IMAGE)
    elif kind == "gzip":
        path.write_bytes(gzip.compress(IMAGE))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("read.me", "about")
            archive.writestr("inside.bin", IMAGE)
    found = roms.find(path)
    assert found.data == IMAGE and found.path == path and found.name == "a"
    assert roms.find(IMAGE).md5 == found.md5 and roms.find(found) is found


def test_the_file_name_names_the_game_of_an_unknown_image(tmp_path: Path) -> None:
    path = tmp_path / "Boxing.something.bin"
    path.write_bytes(IMAGE)
    assert roms.find(path).game == "boxing"
    assert roms.find(IMAGE).game is None


def test_rom_path_comes_before_ale_py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pong.bin").write_bytes(IMAGE)
    monkeypatch.setenv("VCS_ROM_PATH", f"/nowhere:{tmp_path}")
    assert roms.find("pong").data == IMAGE


@pytest.mark.parametrize(("data", "word"), [
    (b"", "empty"), (b"abc", "3 bytes"), (b"a" * 63, "63 bytes"), (b"a" * 5120, "5120 bytes"),
    (b"a" * 2**21, "512 KiB"), (b"a" * (512 * 1024 + 1), "512 KiB"),
])
@pytest.mark.parametrize("packed", [False, True])
def test_content_that_cannot_be_a_cartridge(data: bytes, word: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "bad.bin"
    path.write_bytes(gzip.compress(data) if packed else data)
    for rom in [path, str(path)] + ([] if packed else [data]):
        with pytest.raises(VcsError) as error:
            roms.find(rom)
        assert word in one_sentence(error)


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.bin", IMAGE)
        archive.writestr("b.bin", IMAGE)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(IMAGE)[:40])
    (tmp_path / "wrong.zip").write_bytes(b"PK\x03\x04 and no more than that")
    for name in ("missing.bin", "two.zip", "cut.gz", "wrong.zip", "."):
        with pytest.raises(VcsError) as error:
            roms.find(tmp_path / name)
        one_sentence(error)


@pytest.mark.parametrize("rom", ["", "no\0name", 3, None, 2.5])
def test_what_is_no_name(rom: Any) -> None:
    with pytest.raises(VcsError) as error:
        roms.find(rom)
    one_sentence(error)


def test_an_unknown_game_gets_suggestions() -> None:
    with pytest.raises(VcsError) as error:
        roms.find("space_invader")
    assert "space_invaders" in one_sentence(error)
    with pytest.raises(VcsError) as error:
        roms.find("no such thing at all")
    assert "vcs info" in one_sentence(error)


def test_properties_fill_in_defaults_and_differ_by_protocol() -> None:
    listed = load_json("properties.json")["roms"]
    plain = roms.properties("0" * 32)
    assert (plain.ystart, plain.height, plain.swap_ports, plain.hmove_blanks) == (34, 210, False, True)
    assert not plain.paddles and roms.properties(listed["pong"]["md5"]).paddles
    assert not roms.properties(listed["ms_pacman"]["md5"]).hmove_blanks
    surround = listed["surround"]["md5"]
    assert roms.properties(surround, "ale").swap_ports and not roms.properties(surround, "xitari").swap_ports
    for entry in listed.values():
        assert roms.properties(entry["md5"]).ystart == entry["ystart"]
        assert roms.properties(entry["md5"]).paddles == entry["uses_paddles"]
    with pytest.raises(VcsError):
        roms.properties("0" * 32, "stella")
