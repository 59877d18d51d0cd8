"""Random programs: 4 KiB images for tests that compare engines on them."""

from __future__ import annotations

import random

from vcs.soft.cpu import OPCODES

_FLOW = {"JMP", "RTS", "RTI", "BRK", "JSR", "KIL"}


def random_image(seed: int, length: int = 400) -> bytes:
    """Frames of `length` random instructions each, of all kinds and modes, that end by VSYNC.

    Operands are RAM, TIA and RIOT registers, ROM, and pointers that lead anywhere. Jumps, calls, returns and
    BRK come in shapes that go on to the next instruction.
    """
    rng = random.Random(seed)
    code = bytearray()

    def here() -> int:
        return 0xF000 + len(code)

    def page_zero() -> int:
        # few TIA stores: VSYNC and WSYNC among them would spend the frame
        return rng.randrange(0x80, 0x100) if rng.random() < 0.8 else rng.randrange(0x04, 0x40)

    def address() -> int:
        return rng.choice(
            [
                rng.randrange(0x80, 0x100),
                rng.randrange(0x180, 0x1F0),
                rng.randrange(0x280, 0x298),
                rng.randrange(0x04, 0x40),
                rng.randrange(0xF000, 0xFF00),
                rng.randrange(0x30, 0x3E),
            ]
        )

    code += bytes([0xA2, 0xFF, 0x9A])  # LDX #$FF, TXS
    for _ in range(length):
        opcode = rng.randrange(256)
        op = OPCODES[opcode]
        if op.mnemonic == "KIL":
            continue
        if op.mnemonic == "JSR":
            target = here() + 3
            code += bytes([0x20, target & 255, target >> 8])
        elif op.mnemonic == "JMP":
            target = here() + 3
            if op.mode == "absolute":
                code += bytes([0x4C, target & 255, target >> 8])
            else:  # through a pointer in RAM
                target = here() + 11
                code += bytes(
                    [0xA9, target & 255, 0x85, 0xF0, 0xA9, target >> 8, 0x85, 0xF1, 0x6C, 0xF0, 0x00]
                )
        elif op.mnemonic == "RTS":
            target = here() + 11 - 1  # LDX #$F6, TXS, LDA, PHA, LDA, PHA, RTS
            code += bytes([0xA2, 0xF6, 0x9A, 0xA9, target >> 8, 0x48, 0xA9, target & 255, 0x48, 0x60])
        elif op.mnemonic == "RTI":
            target = here() + 13
            code += bytes(
                [0xA2, 0xF6, 0x9A, 0xA9, target >> 8, 0x48, 0xA9, target & 255, 0x48, 0x08, 0x28, 0x08, 0x40]
            )
        elif op.mnemonic == "BRK":
            code += bytes([0xA2, 0xF6, 0x9A, 0x00, 0x00])  # its handler is an RTI
        elif op.mode == "relative":
            code += bytes([opcode, 0])
        elif op.length == 1:
            code += bytes([opcode])
        elif op.mode == "immediate":
            code += bytes([opcode, rng.randrange(256)])
        elif op.length == 2:
            code += bytes([opcode, page_zero()])
        else:
            where = address()
            code += bytes([opcode, where & 255, where >> 8])
        if rng.random() < 0.05:
            code += bytes([rng.choice([0xF8, 0xD8])])  # SED, CLD
        if rng.random() < 0.05:
            code += bytes([0x85, 0x2A])  # HMOVE
    code += bytes([0xD8, 0xA9, 0x02, 0x85, 0x00])  # VSYNC on
    code += bytes([0x85, 0x02] * 3)
    code += bytes([0xA9, 0x00, 0x85, 0x00])  # VSYNC off: the frame ends
    code += bytes([0x85, 0x02] * 60)  # some picture, so that pixels are drawn
    code += bytes([0x4C, 0x00, 0xF0])
    assert len(code) < 0xF00
    image = bytearray(rng.randrange(256) for _ in range(4096))
    image[: len(code)] = code
    image[0xFF0] = 0x40  # RTI
    image[0xFFC:] = bytes([0x00, 0xF0, 0xF0, 0xFF])
    return bytes(image)
