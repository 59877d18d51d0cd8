"""The soft machine: run along a trace, equal to the hard machine in value, differentiable by autograd.

    f = vcs.soft.replay(trace, pixels=[(0, 100, 80)])
    state = f.start()                                  # dict of float arrays, see `Replay.start`
    gradient = autograd.grad(lambda s: f(s).pixels[0])(state)
    gradient["ram"]                                    # d pixel / d RAM at the start of the trace

It follows the trace's decisions (instructions, addresses, branches, beam, latched collisions) and computes
every value itself; with `check=True` each instruction's registers, flags, stores, loads, motions and drawn
pixels are compared with the trace. The rules are those of docs/gradients.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from autograd.extend import Box

from vcs import checks, layout, trace
from vcs.errors import VcsError
from vcs.soft import ops, relax, tia
from vcs.soft.cart import Cart
from vcs.soft.cpu import OPCODES, Cpu
from vcs.soft.ops import Cell, plain
from vcs.soft.riot import Riot
from vcs.soft.rules import rule_set

State = Mapping[str, Any]

MODES: Final = ("hard", "ste", "full")
CONTROLS: Final = ("pc",)
_INDEXED: Final = {"absolute,X", "absolute,Y"}
_PAGED: Final = {"zeropage,X", "zeropage,Y"}
_POINTED: Final = {"(indirect,X)", "(indirect),Y"}
_INTIM: Final = layout.RIOT + 4
_PC: Final = layout.parse("PC")
_JSR: Final = 0x20
_BRK: Final = 0x00
_RTS: Final = 0x60


class Step(NamedTuple):
    """The soft machine after instruction `k`, as plain ints: the registers a, x, y, sp, the packed flags p,
    the program counter pc, ram [128], tia [64] (write registers) and positions [5] (P0 P1 M0 M1 BL)."""

    k: int
    a: int
    x: int
    y: int
    sp: int
    p: int
    pc: int
    ram: tuple[int, ...]
    tia: tuple[int, ...]
    positions: tuple[int, ...]


class Replay:
    """A trace prepared for the soft machine; call it with a state to get its `Outputs`.

    Made by `replay`, which explains the arguments. source: the trace. rules, alpha, T, mode, control, pixels,
    check: as there. Raises VcsError for an unknown name, or a number that is not positive and finite.
    """

    def __init__(
        self,
        source: trace.Trace,
        *,
        rules: str = "value",
        alpha: float = 10.0,
        T: float = 0.1,
        mode: str = "ste",
        control: str = "pc",
        pixels: Any = (),
        check: bool = True,
    ) -> None:
        if mode not in MODES:
            raise VcsError(f"there is no mode {mode!r}: use one of {', '.join(MODES)}")
        if control not in CONTROLS:
            raise VcsError(
                f"the soft machine has no control rule {control!r}: use one of {', '.join(CONTROLS)}"
            )
        self.trace = checks.instance("the trace", source, trace.Trace, "what Machine.trace returned")
        self.rules = rules
        self.alpha = checks.positive("alpha", alpha)
        self.T = checks.positive("T", T)
        self.mode = mode
        self.control = control
        self.check = check
        self.op = rule_set(rules)
        self.pixels = _pixel_array(pixels, source)
        self.owner = owners(source)
        self.columns = {name: source.instr[name].tolist() for name in trace.INSTR.names or ()}
        self.cycles_at = _access_cycles(source)
        self.strange_code = _strange_code(source)
        t = source.tia
        self.tia_rows = list(
            zip(
                t["instr"].tolist(),
                t["reg"].tolist(),
                t["value"].tolist(),
                t["clock"].tolist(),
                np.stack([t[f"delta{o}"] for o in range(5)], axis=1).tolist(),
            )
        )
        self.by_segment = self._pixels_by_segment()
        self.segment_tia = source.segments["tia"].tolist()
        self.missile0 = source.segments["pos"][:, tia.M0].tolist()
        if mode == "full":
            relax.refuse_code(source.instr, source.rom, self.T)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied as what it was made of; the preparations hold functions of autograd."""
        how: dict[str, Any] = {"rules": self.rules, "alpha": self.alpha, "T": self.T, "mode": self.mode}
        how |= {"control": self.control, "pixels": self.pixels, "check": self.check}
        return partial(Replay, **how), (self.trace,)

    def _pixels_by_segment(self) -> dict[int, npt.NDArray[np.int64]]:
        """Segment -> which of the wanted pixels it drew."""
        if not len(self.pixels):
            return {}
        owner = self.owner[self.pixels[:, 0], self.pixels[:, 1], self.pixels[:, 2]]
        order = np.argsort(owner, kind="stable")
        starts = np.flatnonzero(np.diff(owner[order], prepend=-2))
        groups = np.split(order, starts[1:])
        return {int(owner[group[0]]): group for group in groups if owner[group[0]] >= 0}

    def start(self) -> dict[str, npt.NDArray[np.float64]]:
        """The state at the start of the trace, to differentiate at: a dict of float64 arrays.

        ram [128], registers [4] (A X Y SP), flags [6] (N V D I Z C), pc [1], tia [64], delayed [3] (GRP0OLD
        GRP1OLD ENABLOLD), positions [5], latches [16], swacnt [1], timer [1], cart [c], rom [N], inputs [F,
        32]. Under the `bit` rules a part that holds bytes has a second axis of 8, bit 0 first.
        """
        t = self.trace
        bytes_too = self.rules == "bit"
        state: dict[str, npt.NDArray[np.float64]] = {}
        parts = {name: (t.x0[first : first + n], wide) for name, (first, n, wide) in layout.PARTS.items()}
        for name, (values, wide) in {**parts, "cart": (t.cart0, True), "rom": (t.rom, True)}.items():
            state[name] = ops.BITS[values] if wide and bytes_too else np.asarray(values, dtype=np.float64)
        state["inputs"] = input_lines(t)
        return state

    def __call__(self, state: State | None = None) -> Outputs:
        """Run the whole trace from `state` (default: `start()`).

        Raises VcsError where the soft machine and the trace differ (only with check=True).
        """
        run = Run(self, self.start() if state is None else state)
        for _ in run.instructions():
            pass
        return Outputs(run)

    def drawn_with(self, state: State | None = None) -> npt.NDArray[np.int64]:
        """The soft machine's registers and positions behind every segment, int64[segments, 27], in the order
        of `vcs.soft.tia.PARAMETERS`. state: as for `__call__`, default `start()`."""
        run = Run(self, self.start() if state is None else state)
        for _ in run.instructions():
            pass
        return np.array(run.history, dtype=np.int64).reshape(-1, len(tia.PARAMETERS))

    def steps(self, state: State | None = None) -> Iterator[Step]:
        """The machine after every instruction, computed by the soft machine from a state (default `start()`);
        checks as `__call__` does."""
        run = Run(self, self.start() if state is None else state)
        for k in run.instructions():
            cpu = run.cpu
            yield Step(
                k,
                plain(cpu.a),
                plain(cpu.x),
                plain(cpu.y),
                plain(cpu.sp),
                cpu.packed(),
                cpu.plain_pc(),
                tuple(plain(run.ram_cell(i)) for i in range(layout.RAM_SIZE)),
                tuple(plain(run.tia.cell(layout.TIA_W + r)) for r in range(layout.TIA_W_SIZE)),
                tuple(plain(run.tia.cell(layout.POSITION + o)) for o in range(5)),
            )


class Run:
    """One pass along a trace: the chips, and what they ask of it."""

    def __init__(self, replay: Replay, state: State) -> None:
        t = replay.trace
        self.replay = replay
        self.trace = t
        self.op = replay.op
        self.alpha = replay.alpha
        self.full = replay.mode == "full"
        self.check = replay.check
        self.state = state
        self.x0 = t.x0.tolist()
        self.k = 0  # the current instruction
        self.frame = 0
        self.clock = 0  # colour clock of the current TIA write
        self._cycle: int | None = None  # the cycle of a fetch of code
        self._clears = bool(self.x0[trace.LOW_PAGE] == 2)
        self.hmove_clock = self.x0[trace.HMOVE_CLOCK]
        self._columns = c = replay.columns
        self._opcode, self._b1, self._b2 = c["opcode"], c["b1"], c["b2"]
        self._loc1, self._loc2, self._ea, self._ea_loc = c["loc1"], c["loc2"], c["ea"], c["ea_loc"]
        self._rd, self._wr = c["rd"], c["wr"]
        self._weights = ops.read_weights(replay.T, relax.WINDOW)
        self._parts: dict[str, Any] = {}
        self._ram: list[Any] = [None] * layout.RAM_SIZE
        self._lines: dict[tuple[int, int], Any] = {}
        self._row = 0  # TIA writes done
        self._segment = 0  # segments done
        self.drawn: list[tuple[npt.NDArray[np.int64], Any]] = []  # which wanted pixels, and their values
        self.history: list[tuple[int, ...]] = []  # the drawing parameters of every segment
        self._drawn_with: list[tuple[Any, ...]] = []  # the same, boxed
        self._cleared = 0  # the first segment after the collision latches were cleared ...
        self._ever_cleared = False  # ... in this trace
        self.tia = tia.Tia(self)
        self.riot = Riot(self, self.start_value(layout.RIOT + 1), self.start_value(layout.TIMER))
        self.cart = Cart(self, self.part("rom"), self.part("cart"))
        self.cpu = Cpu(
            self,
            [self.start_value(layout.CPU + i) for i in range(4)],
            [self.start_value(layout.CPU + i) for i in range(4, 10)],
            self.start_value(layout.CPU + 10),
        )
        self.latches = self.part("latches")

    # ------------------------------------------------------------------------------ the state

    def part(self, name: str) -> Any:
        if name not in self._parts:
            try:
                self._parts[name] = self.state[name]
            except (KeyError, TypeError, IndexError):
                raise VcsError(
                    f"the state has no part {name!r}: change parts of the dict that Replay.start() gives"
                ) from None
        return self._parts[name]

    def start_value(self, location: int) -> Any:
        """The Cell of a location below 1024 at the start of the trace."""
        for name, (first, n, wide) in layout.PARTS.items():
            if first <= location < first + n:
                read = self.op.read if wide else self.op.number
                return read(self.part(name), location - first)
        raise AssertionError(f"location {location} is no part of the state")

    def ram_cell(self, index: int) -> Any:
        cell = self._ram[index]
        if cell is None:
            cell = self._ram[index] = self.op.read(self.part("ram"), index)
        return cell

    def line(self, index: int) -> Any:
        """Input line `index` during the current frame."""
        cell = self._lines.get((self.frame, index))
        if cell is None:
            cell = self._lines[self.frame, index] = self.op.line(self.part("inputs"), self.frame, index)
        return cell

    # ------------------------------------------------------------------------------ the run

    def instructions(self) -> Iterator[int]:
        """Execute the trace, yielding the index of each instruction after it."""
        c = self._columns
        opcode, pc = c["opcode"], c["pc"]
        a, x, y, sp, p, cycles = c["a"], c["x"], c["y"], c["sp"], c["p"], c["cycles"]
        cpu = self.cpu
        before = self.x0[trace.CYCLES]
        strange = self.replay.strange_code
        for frame, row in enumerate(self.trace.frames):
            self.frame = frame
            first, end = int(row["first_instr"]), int(row["end_instr"])
            if first < end and before != cycles[first]:
                self._rebase(before - cycles[first])
            before = int(row["cycles"])
            cpu.steps.clear()  # a block of a long horizon ends with a frame
            for k in range(first, end):
                self.k = k
                if self.check and (
                    plain(cpu.a) != a[k]
                    or plain(cpu.x) != x[k]
                    or plain(cpu.y) != y[k]
                    or plain(cpu.sp) != sp[k]
                    or cpu.packed() != p[k]
                    or cpu.plain_pc() != pc[k]
                ):
                    self._registers_differ()
                if k in strange:
                    self._fetch()
                cpu.step(opcode[k])
                yield k
            self._draw(len(self.replay.tia_rows) if frame == len(self.trace.frames) - 1 else self._row)
        if self.check:
            self._check_pictures()

    def _rebase(self, cycles: int) -> None:
        self.riot.rebase(cycles)
        self.hmove_clock -= 3 * cycles

    def differs(self, what: str, soft: Any, hard: Any) -> None:
        row = self.trace.instr[self.k]
        if self.full:
            why = f"relaxed at alpha {self.alpha} and T {self.replay.T} the machine takes another path"
        else:
            why = "a state other than the trace's start takes another path; from its start this is a bug"
        raise VcsError(
            f"the soft machine left the trace at instruction {self.k} (frame {self.frame}, PC "
            f"${int(row['pc']):04X}): {what} is {soft} where the trace has {hard}; {why}"
        )

    def _registers_differ(self) -> None:
        cpu, row = self.cpu, self.trace.instr[self.k]
        soft = [plain(cpu.a), plain(cpu.x), plain(cpu.y), plain(cpu.sp), cpu.packed(), cpu.plain_pc()]
        hard = [int(row[name]) for name in ("a", "x", "y", "sp", "p", "pc")]
        for name, s, h in zip(("A", "X", "Y", "SP", "P", "PC"), soft, hard):
            if s != h:
                self.differs(name, s, h)

    # ------------------------------------------------------------------------------ what instructions ask

    def operand(self) -> Any:
        """The operand byte: immediate or branch operand, or the cell at the effective address."""
        k = self.k
        mode = OPCODES[self._opcode[k]].mode
        if mode == "immediate" or mode == "relative":
            return self._code(1)
        location = self._ea_loc[k]
        if self._columns["flags"][k] & trace.WROTE:
            return self._load(self._read_location(location), self._ea[k], self._rd[k])
        return self._look_up(mode, self._load(location, self._ea[k], self._rd[k]))

    def _look_up(self, mode: str, entry: Any) -> Any:
        """The byte read at an indexed address, as a function of what the address is made of."""
        k = self.k
        ea, cpu = self._ea[k], self.cpu
        own = plain(entry)
        parts: list[tuple[Any, Callable[[int], int]]] = []
        if mode in _INDEXED or mode in _PAGED:
            base, index = self._b1[k], cpu.x if mode.endswith("X") else cpu.y
            mask = 0xFF
            if mode in _INDEXED:
                base, mask = base | self._b2[k] << 8, 0xFFFF
            parts = [(index, lambda v: base + v & mask)]
        elif mode in _POINTED:
            y = plain(cpu.y) if mode.endswith("Y") else 0
            pointer = ea - y & 0xFFFF
            cells = [self._columns[name][k] for name in ("ptr0", "ptr1")]
            if 0 <= cells[0] < layout.RAM_SIZE:
                parts.append((self.ram_cell(cells[0]), lambda v: (pointer & 0xFF00) + v + y & 0xFFFF))
            if 0 <= cells[1] < layout.RAM_SIZE:
                parts.append((self.ram_cell(cells[1]), lambda v: (pointer & 0xFF) + (v << 8) + y & 0xFFFF))
            if mode.endswith("Y"):
                parts.append((cpu.y, lambda v: pointer + v & 0xFFFF))
        for part, address in parts:
            if isbox(part):
                entry = self.op.look_up(entry, part, self._table(address, ea, own))
        return entry

    def _table(self, address: Callable[[int], int], ea: int, own: int) -> Callable[[int], int]:
        """What the current instruction, which read `own` at `ea`, would have read at another address; `own`
        where that is not known: the TIA, the RIOT's ports, and where a mapper has switches, slices or RAM."""
        ram = [plain(self.ram_cell(i)) for i in range(layout.RAM_SIZE)]
        rom, size, extra = self.trace.rom, len(self.trace.rom), len(self.trace.cart0)
        here = self._ea_loc[self.k] - layout.ROM

        def entry(value: int) -> int:
            at = address(value)
            place, index = at & 0xFFF, here + at - ea
            if at == ea:
                return own
            if at & 0x1280 == 0x80:
                return ram[at & 0x7F]
            if not at & ea & 0x1000 or not 0 <= here < size or extra >= 1024:
                return own
            if place < 0x100 and (extra or (size > 4096 and size % 4096)):
                return own
            if size <= 4096:
                return int(rom[index % size])
            if (at ^ ea) & 0xC00 or place >= 0xFE0 or not 0 <= index < size:
                return own
            return int(rom[index])

        return entry

    def target(self) -> tuple[Any, Any]:
        """Low and high byte of where JMP or JSR goes."""
        k = self.k
        if OPCODES[self._opcode[k]].mode == "indirect":
            return self.pointer()
        return self._code(1), self._code(2)

    def pointer(self) -> tuple[Any, Any]:
        """The two bytes of JMP (abs)'s or BRK's new program counter."""
        k, to = self.k, self._following()
        low, high = self._columns["ptr0"][k], self._columns["ptr1"][k]
        at = 0xFFFE if self._opcode[k] == _BRK else self._b1[k] | self._b2[k] << 8
        return self._load(low, at, to & 255), self._load(high, at & 0xFF00 | at + 1 & 0xFF, to >> 8)

    def _following(self) -> int:
        """The program counter after the current instruction."""
        k = self.k + 1
        to: int = self._columns["pc"][k] if k < len(self._opcode) else int(self.trace.x1[_PC])
        return to

    def idle(self) -> None:
        """The data read of a NOP: it may set off the timer's side effect."""
        if self._ea_loc[self.k] >= 0 and self._columns["flags"][self.k] & trace.READ:
            self._load(self._ea_loc[self.k], self._ea[self.k], self._rd[self.k])

    def cell_stepped(self) -> int:
        """The RAM cell whose increments are put together by this INC or DEC, else -1 (in mode "full", where
        each of its reads has neighbours)."""
        location: int = self._ea_loc[self.k]
        return location if 0 <= location < layout.RAM_SIZE and not self.full else -1

    def address(self) -> int:
        ea: int = self._ea[self.k]
        return ea

    def return_address(self) -> int:
        """What JSR and BRK push: the address of their last byte, or of the byte after BRK's."""
        pc: int = self._columns["pc"][self.k]
        return pc + 2 & 0xFFFF

    def access_cycle(self) -> int:
        """The cycle counter as the current access sees it (cpu.md 4)."""
        cycle: int = self.replay.cycles_at[self.k] if self._cycle is None else self._cycle
        return cycle

    def push(self, sp: int, value: Any) -> None:
        location = sp & 0x7F if sp & 0x80 else layout.TIA_W + (sp & 0x3F)
        self._put(location, 0x100 + sp, value)

    def pull(self, sp: int, n: int) -> Any:
        """The n-th byte (0, 1, 2) that an instruction pulls."""
        if sp & 0x80:
            cell = self.ram_cell(sp & 0x7F)
        else:  # the TIA's mirror
            cell = self._load(layout.TIA_R + (sp & 15), 0x100 + sp, self._pulled(n))
        if self._opcode[self.k] == _RTS and n:
            self._returned(self._pulled_pc())
        return cell

    def _returned(self, address: int) -> None:
        """What RTS reads, for nothing, in front of the next instruction: the timer, or RAM of mapper MC."""
        if address & 0x1285 == 0x284:
            self.riot.read(_INTIM)
        elif address & 0x1000 and self.k + 1 < len(self._opcode):
            following: int = self._columns["loc0"][self.k + 1]
            if layout.CART <= following < layout.ROM:  # in the same 512 bytes, whichever half reads them
                self._zeroed(following - (following - layout.CART) % 512 + address % 512, address)

    def _pulled(self, n: int) -> int:
        """What the trace knows of the n-th byte pulled: the first one, and where RTS or RTI went."""
        if n == 0:
            byte: int = self._rd[self.k]
            return byte
        last = 1 if self._opcode[self.k] == _RTS else 2
        return self._pulled_pc() >> 8 if n == last else self._pulled_pc() & 255

    def _pulled_pc(self) -> int:
        """The program counter that RTS or RTI pulled."""
        return self._following() - int(self._opcode[self.k] == _RTS) & 0xFFFF

    def store(self, value: Any) -> None:
        k = self.k
        if self.check and plain(value) != self._wr[k]:
            self.differs("the byte written", plain(value), self._wr[k])
        self._put(self._ea_loc[k], self._ea[k], value)

    # ------------------------------------------------------------------------------ the bus

    def _code(self, n: int) -> Any:
        """The Cell of an operand byte of the instruction, the first or the second."""
        k = self.k
        if n == 1:
            return self._fetched(self._loc1[k], self._b1[k], self._opcode[k])
        # JSR fetches its second byte after it has pushed where to return
        before = self.return_address() & 255 if self._opcode[k] == _JSR else self._b1[k]
        return self._fetched(self._loc2[k], self._b2[k], before)

    def _fetched(self, location: int, recorded: int, before: int) -> Any:
        """A byte of code; before: the one that was on the bus."""
        if not layout.TIA_R <= location < layout.CART:
            return self._load(location, 0x1200, recorded)  # _fetch has done what a fetch does
        self._cycle = self._columns["cycles"][self.k] + OPCODES[self._opcode[self.k]].cycles
        cell = self._load(location, 0, recorded, before & 0x3F)
        self._cycle = None
        return cell

    def _fetch(self) -> None:
        """The side effects of fetching the instruction from the timer or from RAM of mapper MC."""
        k, c = self.k, self._columns
        for n, locations in enumerate((c["loc0"], self._loc1, self._loc2)):
            self._zeroed(locations[k], c["pc"][k] + n)
            if locations[k] == _INTIM:
                self._cycle = c["cycles"][k] + (OPCODES[self._opcode[k]].cycles if n else 0)
                self.riot.read(_INTIM)
                self._cycle = None

    def _zeroed(self, location: int, address: int) -> bool:
        """Whether a read is one of mapper MC's RAM through the half to write it, which stores 0."""
        zero = self._clears and layout.CART <= location < layout.ROM and not address & 0x200
        if zero:
            self.cart.write(location, Cell(0))
        return zero

    def _read_location(self, location: int) -> int:
        """What a read-modify-write reads, whose location in the trace is the one it writes
        (docs/design.md); -1 where it is the cartridge, which never has the same cell at both."""
        ea: int = self._ea[self.k]
        if 0 <= location < layout.RAM_SIZE:
            return location
        if ea & 0x1080 == 0 and not (ea & 0x1FFF < 0x40 and self.x0[trace.LOW_PAGE]):
            return layout.TIA_R + (ea & 15)
        if ea & 0x1280 == 0x280:
            return layout.RIOT + (ea & 3 if not ea & 4 else 4 + (ea & 1))
        return -1

    def _load(self, location: int, address: int, recorded: int, noise: int | None = None) -> Any:
        """The Cell behind a read at `location`, checked against the byte the trace recorded. noise: bits 0-5
        of a TIA read, default those of the instruction's data read."""
        if self._zeroed(location, address):
            cell = Cell(0)
        elif 0 <= location < layout.RAM_SIZE:
            cell = self.ram_cell(location)
        elif location >= layout.ROM:
            cell = self.cart.rom_cell(location - layout.ROM)
        elif location >= layout.CART:
            cell = self.cart.ram_cell(location - layout.CART)
        elif location >= layout.RIOT:
            cell = self.riot.read(location)
        elif location >= layout.TIA_R:
            noise = self._noise(recorded) if noise is None else noise
            cell = self.tia.read(location - layout.TIA_R, recorded, noise)
        else:
            return Cell(recorded)
        if self.full:
            cell = self._relaxed(location, cell)
        if self.check and plain(cell) != recorded:
            self.differs(f"the byte read from {layout.name(location)}", plain(cell), recorded)
        return cell

    def _relaxed(self, location: int, centre: Any) -> Any:
        beside = relax.neighbours(location, len(self.trace.rom))
        if not beside:
            return centre
        cells = [self.ram_cell(b) if b < layout.ROM else self.cart.rom_cell(b - layout.ROM) for b in beside]
        return self.op.relaxed_read(centre, *cells, weights=self._weights)

    def _noise(self, recorded: int) -> int:
        """Bits 0-5 of a TIA read: the byte that was on the bus before it (tia.md 12.2)."""
        k = self.k
        mode = OPCODES[self._opcode[k]].mode
        if mode.startswith("zeropage"):
            return int(self._b1[k]) & 0x3F
        if mode == "absolute" or mode in _INDEXED:
            return int(self._b2[k]) & 0x3F
        return recorded & 0x3F  # the high pointer byte, or a dummy read of the stack

    def _put(self, location: int, address: int, value: Any) -> None:
        rows = self.replay.tia_rows
        row = self._row
        hardware = not 0 <= location < layout.RAM_SIZE
        if hardware and row < len(rows) and rows[row][0] == self.k:
            self._write_tia(rows[row], value)
        if 0 <= location < layout.RAM_SIZE:
            self.cpu.steps.pop(location, None)
            self._ram[location] = value
        elif layout.RIOT <= location < layout.INPUT:
            self.riot.write(location, address, value)
        elif location >= layout.CART:
            self.cart.write(location, value)

    def _write_tia(self, row: tuple[Any, ...], value: Any) -> None:
        _, register, byte, clock, delta = row
        if self.check and plain(value) != byte:
            self.differs(f"the byte written to {layout.name(layout.TIA_W + register)}", plain(value), byte)
        self._draw(self._row)
        self._row += 1
        self.clock = clock + int(self.trace.frames["start_clock"][self.frame])
        self.tia.write(register, value, clock % 228, delta)
        if register == 0x2C:
            self._cleared = self._segment
            self._ever_cleared = True

    def latch(self, pair: tuple[int, int] | None) -> Any:
        """A collision latch as the current instruction reads it: a gate where a pixel of this trace had set
        it, else a constant, because nothing is known about it."""
        if pair is None:
            return 0
        self._draw(self._row)
        first = self._cleared
        if not self._ever_cleared and self._set_before(pair):
            return 0
        s = self.trace.segments
        last = first + int(np.searchsorted(s["instr"][first : self._segment], self.k, "right"))
        if not any(isbox(v) for values in self._drawn_with[first:last] for v in values):
            return 0
        numbers = np.array(self.history[first:last], np.int64).reshape(-1, len(tia.PARAMETERS))
        (hit,) = tia.first_hits(numbers, s[first:last], [pair])
        if hit is None:
            return 0
        segment = first + hit[0]
        scene = tia.Scene.of(s[segment], np.array([hit[1]]))
        parts = list(tia.collision_slopes(self.history[segment], scene, pair))
        used = {part.parameter for part in parts if part.slope.any()}
        both = zip(self._drawn_with[segment], self.history[segment])
        given = [v if i in used else n for i, (v, n) in enumerate(both)]
        return self.op.collision(*given, scene=scene, parts=parts)

    def _set_before(self, pair: tuple[int, int]) -> bool:
        """Whether a latch was set when the trace began."""
        for register, pairs in enumerate(tia.READS):
            if pair in pairs:
                return bool(self.x0[layout.TIA_R + register] >> 7 - pairs.index(pair) & 1)
        return False

    # ------------------------------------------------------------------------------ the picture

    def _draw(self, rows: int) -> None:
        """The segments drawn with the first `rows` TIA writes in force."""
        segment_tia = self.replay.segment_tia
        s = self._segment
        if s == len(segment_tia) or segment_tia[s] > rows:
            return
        wanted = self.replay.by_segment
        values: tuple[Any, ...] = ()
        numbers: tuple[int, ...] = ()
        while s < len(segment_tia) and segment_tia[s] <= rows:
            if self.tia.ark or self.tia.adrift:
                self.tia.follow_ark(self.replay.missile0[s])
                values = ()
            if not values:
                values = self.tia.parameters()
                numbers = tuple([plain(v) for v in values])
            self.history.append(numbers)
            self._drawn_with.append(values)
            if s in wanted:
                self._draw_wanted(s, wanted[s], values, numbers)
            s += 1
        self._segment = s

    def _draw_wanted(
        self, s: int, which: npt.NDArray[np.int64], values: tuple[Any, ...], numbers: tuple[int, ...]
    ) -> None:
        columns = self.replay.pixels[which, 2]
        scene = tia.Scene.of(self.trace.segments[s], columns)
        parts = list(tia.slopes(numbers, scene))
        # a register without slope stays out of the graph, and so does everything behind it
        used = {part.parameter for part in parts if part.slope.any()}
        given = [v if i in used else n for i, (v, n) in enumerate(zip(values, numbers))]
        self.drawn.append((which, self.op.pixels(*given, scene=scene, parts=parts)))

    def _check_pictures(self) -> None:
        """Every pixel of every frame, from the soft machine's own registers, against the trace's pictures."""
        t = self.trace
        first = tia.PARAMETERS.index("pos P0")
        columns = np.array(self.history, dtype=np.int64).reshape(-1, len(tia.PARAMETERS))[
            :, first : first + 5
        ]
        wrong = np.argwhere(columns != t.segments["pos"])
        if len(wrong):
            s, o = (int(i) for i in wrong[0])
            self.k = int(t.segments["instr"][s])
            self.differs(
                f"the column of {layout.INNER[3 + o][4:]}", int(columns[s, o]), int(t.segments["pos"][s, o])
            )
        mine = draw_pictures(t, self.replay.owner, self.history)
        # a frame that the program did not end loses the colours of its last line (tia.md 4.9)
        greyed = (t.winner == trace.NOBODY) & (t.screens == (mine & 15) >> 1)
        wrong = np.argwhere((mine >= 0) & (mine != t.screens) & ~greyed)
        if len(wrong):
            frame, row, column = (int(i) for i in wrong[0])
            raise VcsError(
                f"the soft machine's picture differs from the trace in {len(wrong)} pixels, first in frame "
                f"{frame}, row {row}, column {column}: {int(mine[frame, row, column])} where the trace has "
                f"{int(t.screens[frame, row, column])}"
            )


class Outputs:
    """What a run ended with; each attribute is an array that autograd can differentiate.

    pixels float64[P]: the pixels asked for, palette indices. ram [128], registers [4], flags [6], pc [1],
    tia [64], positions [5], cart [c]: the state after the last instruction, as numbers (bytes under both
    rule sets). Pickled and copied as these arrays; VcsError while autograd differentiates them.
    """

    NAMES: ClassVar = ("pixels", "ram", "registers", "flags", "pc", "tia", "positions", "cart")

    def __init__(self, run: Run) -> None:
        self._run = run

    def __reduce__(self) -> tuple[Any, ...]:
        parts = {name: getattr(self, name) for name in self.NAMES}
        if any(isbox(part) for part in parts.values()):
            raise VcsError(
                "outputs that autograd is differentiating cannot be pickled or copied: do it with those of a "
                "call outside the function that is differentiated"
            )
        return _outputs, (parts,)

    @cached_property
    def pixels(self) -> Any:
        """float64[P]: the colours of the pixels asked for, palette indices."""
        run = self._run
        total = len(run.replay.pixels)
        if not run.drawn:
            return np.zeros(total)
        import autograd.numpy as anp

        order = np.concatenate([which for which, _ in run.drawn])
        back = np.full(total, len(order))
        back[order] = np.arange(len(order))
        # pixels that were not drawn show old content
        old = run.replay.trace.screens[tuple(run.replay.pixels.T)].astype(np.float64)
        values = anp.concatenate([*(v for _, v in run.drawn), np.zeros(1)])
        return values[back] + np.where(back == len(order), old, 0.0)

    @cached_property
    def ram(self) -> Any:
        """float64[128]: RAM at the end."""
        return self._run.op.pack(*[self._run.ram_cell(i) for i in range(layout.RAM_SIZE)])

    @cached_property
    def registers(self) -> Any:
        """float64[4]: A X Y SP at the end."""
        cpu = self._run.cpu
        return self._run.op.pack(cpu.a, cpu.x, cpu.y, cpu.sp)

    @cached_property
    def flags(self) -> Any:
        """float64[6]: N V D I Z C at the end."""
        cpu = self._run.cpu
        return self._run.op.pack_numbers(cpu.n, cpu.v, cpu.d, cpu.i, cpu.z, cpu.c)

    @cached_property
    def pc(self) -> Any:
        """float64[1]: the program counter at the end."""
        return self._run.op.pack_numbers(self._run.cpu.pc)

    @cached_property
    def tia(self) -> Any:
        """float64[64]: the TIA's write registers at the end."""
        cell = self._run.tia.cell
        return self._run.op.pack(*[cell(layout.TIA_W + r) for r in range(layout.TIA_W_SIZE)])

    @cached_property
    def positions(self) -> Any:
        """float64[5]: where P0 P1 M0 M1 and the ball are at the end."""
        cell = self._run.tia.cell
        return self._run.op.pack_numbers(*[cell(layout.POSITION + o) for o in range(5)])

    @cached_property
    def cart(self) -> Any:
        """float64[c]: the cartridge's RAM at the end."""
        run = self._run
        return run.op.pack(*[run.cart.ram_cell(i) for i in range(len(run.trace.cart0))])


def _outputs(parts: dict[str, Any]) -> Outputs:
    """`Outputs` that were pickled or copied."""
    new = Outputs.__new__(Outputs)
    new.__dict__.update(parts)
    return new


def isbox(value: Any) -> bool:
    """Whether autograd follows a value."""
    return isinstance(value, Box)


def owners(t: trace.Trace) -> npt.NDArray[np.int32]:
    """Which segment drew each pixel last, int32[F, H, 160]; -1 where none did."""
    owner = np.full(t.screens.shape, -1, np.int32)
    height = t.screens.shape[1]
    s = t.segments
    for i, (frame, row, x0, x1) in enumerate(
        zip(s["frame"].tolist(), s["row"].tolist(), s["x0"].tolist(), s["x1"].tolist())
    ):
        if row < height:
            owner[frame, row, x0:x1] = i
    return owner


def draw_pictures(
    t: trace.Trace, owner: npt.NDArray[np.int32], history: Sequence[tuple[int, ...]]
) -> npt.NDArray[np.int64]:
    """All frames from the drawing parameters of every segment, int64[F, H, 160]; -1 where nothing was
    drawn."""
    picture = np.full(owner.shape, -1, np.int64)
    if not history:
        return picture
    parameters = np.array(history, dtype=np.int64)
    for frame in range(len(owner)):
        drawn = owner[frame] >= 0
        segment = owner[frame][drawn]
        columns = np.nonzero(drawn)[1]
        scene = tia.Scene.of(t.segments[segment], columns)
        picture[frame][drawn] = tia.draw(tuple(parameters[segment].T), scene)
    return picture


def input_lines(t: trace.Trace) -> npt.NDArray[np.float64]:
    """The input lines of every frame, float64[F, 32], in the order of `vcs.layout.INPUTS`.

    Contacts are 1 while closed; colour and difficulty as SWCHB has them; paddles in ohms.
    """
    lines = np.zeros((len(t.frames), layout.INPUT_SIZE))
    swcha, swchb = t.frames["swcha"], t.frames["swchb"]
    for k, bit in enumerate((4, 5, 6, 7)):
        lines[:, k] = 1 - (swcha >> bit & 1)
    for k, bit in enumerate((0, 1, 2, 3)):
        lines[:, 5 + k] = 1 - (swcha >> bit & 1)
    lines[:, 4] = 1 - (t.frames["inpt"][:, 0] >> 7)
    lines[:, 9] = 1 - (t.frames["inpt"][:, 1] >> 7)
    lines[:, 10] = 1 - (swchb >> 1 & 1)
    lines[:, 11] = 1 - (swchb & 1)
    for k, bit in ((12, 3), (13, 6), (14, 7)):
        lines[:, k] = swchb >> bit & 1
    lines[:, 15:19] = t.frames["paddle"]
    return lines


def _access_cycles(t: trace.Trace) -> list[int]:
    """The cycle counter at each instruction's data accesses: base cycles, one more where an indexed read
    crossed."""
    base = np.array([o.cycles for o in OPCODES])[t.instr["opcode"]]
    penalty = np.array([o.penalty for o in OPCODES])[t.instr["opcode"]]
    crossed = penalty & (t.instr["flags"] & trace.CROSSED != 0)
    cycles: list[int] = (t.instr["cycles"] + base + crossed).tolist()
    return cycles


def _strange_code(t: trace.Trace) -> frozenset[int]:
    """The instructions that were fetched, in part or whole, from the timer or from RAM of mapper MC."""
    at = np.stack([t.instr[name] for name in ("loc0", "loc1", "loc2")])
    strange = at == _INTIM
    if t.x0[trace.LOW_PAGE] == 2:
        strange |= (at >= layout.CART) & (at < layout.ROM)
    return frozenset(np.flatnonzero(strange.any(axis=0)).tolist())


def _pixel_array(pixels: Any, t: trace.Trace) -> npt.NDArray[np.int64]:
    """(frame, row, column) triples, checked, int64[P, 3]."""
    checks.instance("the trace", t, trace.Trace, "what Machine.trace returned")
    frames, height, width = t.screens.shape
    if isinstance(pixels, str):
        if pixels != "all":
            raise VcsError(f'pixels is {pixels!r}: give "all" or a list of (frame, row, column)')
        return np.stack(np.unravel_index(np.arange(t.screens.size), t.screens.shape), axis=1)
    try:
        array = np.asarray(pixels)
    except ValueError:  # rows of several lengths
        array = np.zeros(1)
    if array.size and (array.dtype.kind not in "iu" or array.ndim not in (1, 2) or array.shape[-1] != 3):
        raise VcsError(f'pixels is {pixels!r:.60}: give "all" or a list of (frame, row, column)')
    array = array.astype(np.int64).reshape(-1, 3)
    outside = ((array < 0) | (array >= t.screens.shape)).any(axis=1)
    if outside.any():
        frame, row, column = array[outside][0]
        raise VcsError(
            f"there is no pixel (frame {frame}, row {row}, column {column}): this trace has frames 0 to "
            f"{frames - 1}, rows 0 to {height - 1} and columns 0 to {width - 1}"
        )
    return array


def replay(
    source: trace.Trace,
    *,
    rules: str = "value",
    alpha: float = 10.0,
    T: float = 0.1,
    mode: str = "ste",
    control: str = "pc",
    pixels: Any = (),
    check: bool = True,
) -> Replay:
    """Prepare the soft machine to run along a trace.

    Args:
        source: the trace.
        rules: "value" (one derivative a byte) or "bit" (eight).
        alpha, T: sharpness of the branch gate and temperature of the relaxed read.
        mode: "ste" (values exact, derivatives of the relaxation), "full" (relaxed reads and branches,
        rounded; raises
            VcsError where that leaves the trace) or "hard" (values only: a derivative of it is zero).
        control: "pc", the branch gate moves the program counter only.
        pixels: (frame, row, column) triples that `Outputs.pixels` shall hold, or "all".
        check: compare every step with the trace.

    Returns a `Replay`. Raises VcsError for an unknown name or a pixel outside the picture.
    """
    return Replay(
        source, rules=rules, alpha=alpha, T=T, mode=mode, control=control, pixels=pixels, check=check
    )
