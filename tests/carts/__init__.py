"""Synthetic cartridges of our own: for every mapper, where a program can live so that no bank switch takes it
away, which addresses are worth touching, and the bytes by which the mapper is recognised.

`Layout.image` puts one block of machine code into all places where the CPU may find it and fills the rest
with bytes that tell banks and offsets apart, so that a wrong bank is a wrong byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

AR_LOAD = 8448


@dataclass(frozen=True)
class Layout:
    """How a cartridge of one mapper is put together.

    size: bytes of the file (AR: of its data part). code: CPU address of the program. room: bytes it may have.
    copies: file offsets where it stands. vectors: file offsets of the reset and BRK vectors. hot: addresses
    (13 bits) with an effect of their own, RAM ports included. spans: (first, last) of further addresses worth
    an access.
    marks: (file offset, bytes) that make detection choose the mapper. blank: (file offset, count, value) runs
    of one value. start: code run before the program. tia: where TIA writes reach the TIA.
    """

    size: int
    code: int
    room: int
    copies: tuple[int, ...]
    vectors: tuple[int, ...]
    hot: tuple[int, ...] = ()
    spans: tuple[tuple[int, int], ...] = ((0x1000, 0x1FFF),)
    marks: tuple[tuple[int, bytes], ...] = ()
    blank: tuple[tuple[int, int, int], ...] = ()
    start: bytes = b""
    tia: int = 0x00

    def image(self, program: bytes, seed: int = 0) -> bytes:
        """The file with `program` at `code`; `seed` varies the filling; BRK goes to the fourth byte."""
        body = self.start + program
        if len(body) > self.room:
            raise ValueError(f"the program has {len(body)} bytes, room is for {self.room}")
        i = np.arange(self.size)
        fill = (167 * i + 59 * (i // 256) + 101 * (i // 1024) + seed) % 256
        data = bytearray(fill.astype(np.uint8).tobytes())
        for at, count, value in self.blank:
            data[at : at + count] = bytes([value]) * count
        for at, mark in self.marks:
            data[at : at + len(mark)] = mark
        for at in self.copies:
            data[at : at + len(body)] = body
        for at in self.vectors:
            data[at : at + 4] = self.code.to_bytes(2, "little") + (self.code + len(self.start) + 3).to_bytes(
                2, "little"
            )
        return bytes(data)


def _banked(
    size: int,
    hot: tuple[int, ...] = (),
    ram: int = 0,
    marks: tuple[tuple[int, bytes], ...] = (),
    spans: tuple[tuple[int, int], ...] = (),
) -> Layout:
    """Whole 4 KiB banks: the program stands in each of them at $F200."""
    banks = range(0, size // 4096 * 4096, 4096)
    ports = tuple(0x1000 + o for o in (0, 1, ram - 1, ram, ram + 1, 2 * ram - 1)) if ram else ()
    if ram:
        spans = (*spans, (0x1000, 0x1000 + 2 * ram))
    return Layout(
        size,
        0xF200,
        0xC00,
        tuple(b + 0x200 for b in banks),
        tuple(b + 0xFFC for b in banks),
        hot + ports,
        ((0x1000, 0x1FFF), *spans),
        marks,
        tuple((b, 256, b >> 12) for b in banks) if ram else (),
    )


LAYOUTS: dict[str, Layout] = {
    "2K": Layout(2048, 0xF200, 0x500, (0x200,), (0x7FC,)),
    "4K": _banked(4096),
    "F8": _banked(8192, (0x1FF8, 0x1FF9)),
    "F8SC": _banked(8192, (0x1FF8, 0x1FF9), 128),
    "F6": _banked(16384, (0x1FF6, 0x1FF7, 0x1FF8, 0x1FF9)),
    "F6SC": _banked(16384, (0x1FF6, 0x1FF7, 0x1FF8, 0x1FF9), 128),
    "F4": _banked(32768, tuple(range(0x1FF4, 0x1FFC))),
    "F4SC": _banked(32768, tuple(range(0x1FF4, 0x1FFC)), 128),
    "FASC": _banked(12288, (0x1FF8, 0x1FF9, 0x1FFA), 256),
    "MB": _banked(65536, (0x1FF0,)),
    "UA": _banked(8192, (0x220, 0x240), marks=((0xF00, b"\x8d\x40\x02"),), spans=((0x200, 0x27F),)),
    "FE": Layout(
        8192, 0xF200, 0xC00, (0x200, 0x1200), (0xFFC, 0x1FFC), marks=((0xF00, b"\x20\x00\xd0\xc6\xc5"),)
    ),
    "E0": Layout(
        8192,
        0xFC10,
        0x380,
        (0x1C10,),
        (0x1FFC,),
        tuple(range(0x1FE0, 0x1FF8)),
        marks=((0x700, b"\x8d\xe0\x1f"),),
    ),
    "E7": Layout(
        16384,
        0xFA20,
        0x500,
        (0x3A20,),
        (0x3FFC,),
        tuple(range(0x1FE0, 0x1FEC)),
        ((0x1000, 0x1FFF), (0x1000, 0x17FF), (0x1800, 0x19FF)),
        blank=((0x3800, 512, 0x5A),),
    ),
    "3F": Layout(
        8192,
        0xFA00,
        0x500,
        (0x1A00,),
        (0x1FFC,),
        (0x3F, 0x00, 0x103F, 0x1000, 0x40, 0x13F),
        ((0x0000, 0x0080), (0x1000, 0x1080), (0x1000, 0x1FFF)),
        marks=((0x700, b"\x85\x3f\x00\x85\x3f"),),
    ),
    "3E": Layout(
        16384,
        0xFA00,
        0x500,
        (0x3A00,),
        (0x3FFC,),
        (0x3E, 0x3F, 0x103E, 0x103F, 0x1400, 0x17FF),
        ((0x0000, 0x0080), (0x1000, 0x17FF), (0x1000, 0x1FFF)),
        marks=((0x700, b"\x85\x3e\xa9\x00"),),
    ),
    # B[0]-B[3] are undefined until written; slot 3 then stays the end of the file whatever the lock does
    "MC": Layout(
        131072,
        0xFC10,
        0x380,
        (131072 - 1024 + 16,),
        (131072 - 4,),
        (0x3C, 0x3D, 0x3E, 0x1FFC, 0x1FFD, 0x1BFF, 0x1C00),
        ((0x0000, 0x0040), (0x1000, 0x1FFF)),
        start=bytes(
            (0xA9, 0xFF, 0x85, 0x3F, 0xA9, 0x03, 0x85, 0x3C, 0xA9, 0x90, 0x85, 0x3D, 0xA9, 0x04, 0x85, 0x3E)
        ),
        tia=0x40,
    ),
    "CV": Layout(
        4096,
        0xFA00,
        0x500,
        (0xA00,),
        (0xFFC,),
        (0x1000, 0x13FF, 0x1400, 0x17FF),
        ((0x1000, 0x17FF), (0x1000, 0x1FFF)),
        marks=((0x900, b"\x9d\xff\xf3"),),
    ),
    "DPC": Layout(
        10240,
        0xF200,
        0xC00,
        (0x200, 0x1200),
        (0xFFC, 0x1FFC),
        (0x1FF8, 0x1FF9, *range(0x1000, 0x1080)),
        ((0x1000, 0x107F), (0x1FC0, 0x1FFF), (0x1000, 0x1FFF)),
    ),
}
"""One layout per mapper that detection can choose; AR is built by `ar_image`."""


_AR_FILL = bytes((37 * i + 11 * (i >> 8)) & 0xFF for i in range(6144))


def ar_image(program: bytes, config: int = 0x0F, start: int = 0xF200, data: bytes = b"") -> bytes:
    """A Supercharger file of one load, number 0: 24 pages, page j of RAM bank j // 8 at offset 256 (j % 8).

    program: code for bank 0 from offset $200. config: the configuration byte at the start. data: other RAM
    contents (6144 bytes); default: a filling."""
    ram = bytearray(data or _AR_FILL)
    ram[0x200 : 0x200 + len(program)] = program
    header = bytearray(256)
    header[0:6] = bytes((start & 0xFF, start >> 8, config, 24, 0, 0))
    header[4] = (0x55 - sum(header[:8])) & 0xFF
    for j in range(24):
        header[16 + j] = j // 8 | j % 8 << 2
        header[64 + j] = (0x55 - sum(ram[256 * j : 256 * j + 256]) - header[16 + j]) & 0xFF
    return bytes(ram) + bytes(8192 - 6144) + bytes(header)
