"""The assembler, the disassembler, and our own cartridges."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcs import asm, roms
from vcs.asm.opcodes import ENCODING, OPERAND
from vcs.errors import VcsError

CARTS = Path(__file__).parent.parent / "vcs" / "carts"


@pytest.mark.parametrize("source", sorted(CARTS.glob("*.asm")), ids=lambda p: p.stem)
def test_committed_images_are_fresh(source: Path) -> None:
    program = asm.assemble(source.read_text(), source.name)
    assert program.data == source.with_suffix(".bin").read_bytes()


def body(text: str) -> bytes:
    return asm.assemble("    org $F000\n" + text).data


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" lda #1", "a901"),
        (" LDA $80", "a580"),
        (" lda $80,x", "b580"),
        (" lda $1234,Y", "b93412"),
        (" lda ($80),y", "b180"),
        (" lda ( $80 , x )", "a180"),
        (" jmp ($F000)", "6c00f0"),
        (" asl", "0a"),
        (" asl a", "0a"),
        (" sta.w WSYNC", "8d0200"),
        (" sta WSYNC", "8502"),
        (" lda $80,y", "b98000"),
        (" ldx $80,y", "b680"),
        (" lax $80", "a780"),
        (" brk", "00"),
        (" lda INTIM", "ad8402"),
        (" sta TIM64T", "8d9602"),
        (' .byte 1,$FF,%101,\'A,-1,"hi;" ; end', "01ff0541ff68693b"),
        (" .word $1234, *", "341200f0"),
        (
            " byte <$1234, >$1234, (1+2)*3, 7/2, 7%4, 1<<3, $F0>>4, 6&3, 6|1, 6^3, ~0&$F",
            "341209030308 0f 02 07 05 0f",
        ),
        (" ds 3,$EA\n align 4\n .byte 1", "eaeaea0001"),
        ("x = 5\n lda #x", "a905"),
        ("x equ 2*3\n lda #x", "a906"),
        ("a1 bne a1\n beq .next\n.next nop", "d0fef000ea"),
        (" jmp later\nlater", "4c03f0"),
        (" lda later\nlater = 5", "ad0500"),
        (" seg.u\n org $80\nv ds 2\nw ds 1\n seg\n org $F000\n lda w", "a582"),
        (" nop\n end\n garbage here", "ea"),
    ],
)
def test_syntax(text: str, expected: str) -> None:
    assert body(text) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (" foo", "foo"),
        (" lda", "operand"),
        (" lda #300", "300"),
        (" lda nowhere", "nowhere"),
        ("a\na", "twice"),
        (" bne *+200", "-128"),
        (" org $F100\n nop\n org $F100\n nop", "twice"),
        (" org $12345", "range"),
        (" .byte 1/0", "zero"),
        (" .byte 1<<99", "shift"),
        (" .byte (1", ")"),
        ("9 nop", "label"),
        (" .byte", "missing"),
        (" ds 99999999", "65536"),
        ("lda nop", "instruction"),
        ("COLUP0 = 4", "register"),
        (" lda.q 1", "width"),
        (" seg.u\n .byte 1", "seg"),
        (" .byte " + "(" * 500, "nested"),
        (" .byte $" + "F" * 40, "32 bits"),
        (" processor z80", "z80"),
        (" org $FFFF\n .word 1", "$FFFF"),
        (" sta #1", "operand"),
        ("= 4", "label"),
        (" ds 9\n org later\nlater nop", "later"),
    ],
)
def test_mistakes_name_the_line(text: str, word: str) -> None:
    with pytest.raises(VcsError) as error:
        asm.assemble("    org $F000\n" + text, "game.asm")
    assert word in str(error.value) and str(error.value).startswith("game.asm:")
    assert "\n" not in str(error.value)


def test_an_empty_source_is_refused() -> None:
    with pytest.raises(VcsError):
        asm.assemble("; nothing\n")


def test_every_encoding_survives_a_round_trip() -> None:
    for (mnemonic, mode), op in ENCODING.items():
        b1, b2 = (0x10, 0xF0) if OPERAND[mode] == 2 else (0x82, 0)
        text = asm.format_instruction(op.code, b1, b2, 0xF000)
        assert text.startswith(mnemonic)
        assert body(" " + text) == bytes((op.code, b1, b2))[: op.length], text
    assert len(asm.OPCODES) == 256


@pytest.mark.parametrize(
    ("code", "pc", "text"),
    [
        ((0x85, 0x06, 0), 0, "STA COLUP0"),
        ((0xA5, 0x3C, 0), 0, "LDA INPT4|$30"),
        ((0xA5, 0x0C, 0), 0, "LDA INPT4"),
        ((0xD0, 0xFE, 0), 0xF123, "BNE $F123"),
        ((0xD0, 0x00, 0), 0xFFFE, "BNE $0000"),
        ((0x4C, 0x00, 0x00), 0, "JMP $0000"),
        ((0x8D, 0x02, 0x00), 0, "STA.w WSYNC"),
        ((0xB1, 0x80, 0), 0, "LDA ($80),Y"),
        ((0x0A, 0, 0), 0, "ASL A"),
    ],
)
def test_instruction_text(code: tuple[int, int, int], pc: int, text: str) -> None:
    assert asm.format_instruction(*code, pc) == text


@pytest.mark.parametrize(
    ("address", "write", "name"),
    [
        (0x06, True, "COLUP0"),
        (0x46, True, "COLUP0"),
        (0x106, True, "COLUP0"),
        (0x0C, False, "INPT4"),
        (0x3C, False, "INPT4"),
        (0x284, False, "INTIM"),
        (0x286, False, "INTIM"),
        (0x285, False, "INSTAT"),
        (0x296, True, "TIM64T"),
        (0x280, False, "SWCHA"),
        (0x282, False, "SWCHB"),
        (0x80, False, None),
        (0xF000, False, None),
        (0x3F, True, None),
    ],
)
def test_register_names(address: int, write: bool, name: str | None) -> None:
    assert asm.register_name(address, write) == name


@settings(max_examples=150, deadline=None)
@given(st.binary(min_size=1, max_size=4096), st.lists(st.integers(0, 0xFFFF), max_size=20))
def test_disassembly_assembles_to_the_same_bytes(data: bytes, entries: list[int]) -> None:
    lines = asm.disassemble(data, entries=entries)
    assert b"".join(line.data for line in lines) == data
    program = asm.assemble(asm.source(lines))
    assert (program.data, program.origin) == (data, 0x10000 - len(data))


@pytest.mark.parametrize("name", ["pong", "space_invaders", "asteroids", "solaris"])
def test_real_cartridges_round_trip(name: str, rom: Any) -> None:
    data = rom(name).data
    for start in range(0, len(data), 4096):
        bank = data[start : start + 4096]
        lines = asm.disassemble(bank)
        assert asm.assemble(asm.source(lines)).data == bank
    assert sum(line.is_code for line in lines) > 50


def test_disassemble_refuses_what_does_not_fit() -> None:
    for data, origin in ((b"", None), (b"a" * 70000, None), (b"ab", 0xFFFF)):
        with pytest.raises(VcsError):
            asm.disassemble(data, origin)


def test_command(tmp_path: Path) -> None:
    source = tmp_path / "a.asm"
    source.write_text(" org $F000\n nop\n")

    def command(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "vcs.asm", *args], capture_output=True, text=True, cwd=tmp_path
        )

    assert command("a.asm", "-l", "a.lst").returncode == 0
    assert (tmp_path / "a.bin").read_bytes() == b"\xea" and "EA" in (tmp_path / "a.lst").read_text().upper()
    source.write_text(" org $F000\n wrong\n")
    failed = command("a.asm", "-o", "b.bin")
    assert failed.returncode == 2 and "a.asm:2" in failed.stderr and "Traceback" not in failed.stderr
    assert not (tmp_path / "b.bin").exists()
    listed = command("-d", "glass")
    assert listed.returncode == 0 and "STA VSYNC" in listed.stdout
    assert command("-d", "glass", "-b", "1").returncode == 2
    assert roms.find("glass").data[:1] == b"\x78"
