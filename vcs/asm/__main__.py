"""`python -m vcs.asm FILE -o OUT` and `python -m vcs.asm -d ROM`."""
from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from vcs import roms
from vcs.asm import assemble, disassemble
from vcs.command import guarded
from vcs.errors import VcsError
from vcs.files import write_bytes, write_text


def run(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m vcs.asm",
                                     description="Assemble or disassemble a cartridge.")
    parser.add_argument("file", help="source to assemble; with -d the image or the game name to disassemble")
    parser.add_argument("-o", "--out", help="file for the image (default: the source's name with .bin)")
    parser.add_argument("-l", "--listing", help="file for a listing: addresses and bytes beside the source")
    parser.add_argument("-d", "--disassemble", action="store_true", help="print the image as instructions")
    parser.add_argument("-b", "--bank", type=int, default=0, help="bank of 4 KiB to disassemble (default 0)")
    args = parser.parse_args(argv)
    if args.disassemble:
        data = roms.find(args.file).data
        banks = max(1, len(data) // 4096)
        if not 0 <= args.bank < banks:
            raise VcsError(f"bank {args.bank} does not exist: {args.file} has banks 0 to {banks - 1}")
        print("\n".join(map(str, disassemble(data[args.bank * 4096:][:4096]))))
        return
    path = Path(args.file)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as why:
        raise VcsError(f"{path} cannot be read ({why}): give the path of an assembler source") from None
    program = assemble(text, str(path))
    if args.listing:
        write_text(args.listing, "\n".join(map(str, program.listing)) + "\n")
    write_bytes(args.out or path.with_suffix(".bin"), program.data)


if __name__ == "__main__":
    guarded(run, "vcs.asm")
