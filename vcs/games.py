"""The games as reinforcement-learning tasks: rewards, lives, endings, modes, actions.

Everything here comes from ``vcs/data/games.json`` (specification ``spec/games.md``). A game's rules are
written there in a small expression language; :func:`compile_rules` turns them, once, into one flat ``int32``
array that the machine runs without the GIL (``vcs/_hard/env.pxi``), and :class:`Interpreter` runs the same
trees in plain Python, as the readable definition that the tests compare the compiled form with.

The array starts with a header of ``HEADER`` words (see ``H_*``) and continues with code for a stack machine:
an operation number followed by its operands. Jump targets are indices into the array. Variables are
numbered; the machine has ``MAXVARS`` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vcs.data import load_json
from vcs.errors import VcsError

__all__ = [
    "Action",
    "Game",
    "Interpreter",
    "Rules",
    "compile_rules",
    "find_game",
    "game_names",
    "get_game",
    "load_games",
    "neutral_rules",
]

Expr = Any  # int | str | list: a tree of the expression language (spec/games.md 2)


class Action(IntEnum):
    """Player A's 18 actions (spec/environment.md 5.1); a number and its name are the same thing."""

    NOOP = 0
    FIRE = 1
    UP = 2
    RIGHT = 3
    LEFT = 4
    DOWN = 5
    UPRIGHT = 6
    UPLEFT = 7
    DOWNRIGHT = 8
    DOWNLEFT = 9
    UPFIRE = 10
    RIGHTFIRE = 11
    LEFTFIRE = 12
    DOWNFIRE = 13
    UPRIGHTFIRE = 14
    UPLEFTFIRE = 15
    DOWNRIGHTFIRE = 16
    DOWNLEFTFIRE = 17


# --- the flat program; vcs/_hard/env.pxi holds the same numbers and refuses an array without this mark
MAGIC: Final = 0x47505231
MAXVARS: Final = 40
MAXSTACK: Final = 64
HEADER: Final = 16
LONGEST: Final = 4  # words of the longest instruction without a list
H_MAGIC, H_LEN, H_INIT, H_RESET, H_STEP, H_MODE, H_START = range(7)
H_LEGAL, H_MAX_FRAMES, H_LIVES, H_DEFAULT_MODE = range(7, 11)

# One operation a name; `n` marks the number of operands, `+` a first operand that counts the others.
OPS: Final = (
    "END", "CONST", "LOAD", "STORE", "MODE", "RAM", "RAMK", "BUS", "BCD", "BCDK", "S8", "ADD", "SUB", "MUL",
    "DIV", "MOD", "BAND", "BOR", "SHL", "SHR", "EQ", "NE", "LT", "LE", "GT", "GE", "LAND", "LOR", "LNOT",
    "PICK", "MIN", "MAX", "RAND", "JUMP", "JZ", "JGT", "INC", "OUT", "SELECT", "ACT", "SOFT", "FRAMES",
    "ROUND",
)  # fmt: skip
OP: Final = {name: number for number, name in enumerate(OPS)}

_BINARY: Final = {
    "+": "ADD", "-": "SUB", "*": "MUL", "//": "DIV", "%": "MOD", "&": "BAND", "|": "BOR", "<<": "SHL",
    ">>": "SHR", "==": "EQ", "!=": "NE", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE", "min": "MIN",
    "max": "MAX",
}  # fmt: skip


@dataclass(frozen=True)
class Rules:
    """The rules of one game under one protocol.

    ``program`` is the compiled form (int32, shape (n,)); ``state`` to ``lives`` are the trees it was made
    from. ``modes`` and ``difficulties`` are the numbers that may be chosen (the first mode is the default).
    """

    name: str
    protocol: str
    minimal_actions: tuple[int, ...]
    legal_actions: tuple[int, ...]
    starting_actions: tuple[tuple[int, int], ...]
    modes: tuple[int, ...]
    difficulties: tuple[int, ...]
    reward_range: tuple[int | None, int | None] | None
    max_frames: int
    settings: dict[str, int]
    state: dict[str, int]
    persistent_state: dict[str, int]
    step: list[list[Expr]]
    game_over: Expr
    lives: Expr
    mode_rule: list[Any]
    program: NDArray[np.int32] = field(repr=False, compare=False)

    @property
    def default_mode(self) -> int:
        """The mode in force after a ROM is loaded."""
        return self.modes[0]


@dataclass(frozen=True)
class Game:
    """One game of ``games.json``: how it is recognised and named, and its rules per protocol."""

    name: str
    display_name: str
    gymnasium_id: str
    md5: str
    controller: str
    notes: tuple[str, ...]
    entry: dict[str, Any] = field(repr=False, compare=False)

    @property
    def in_xitari(self) -> bool:
        """True if protocol ``xitari`` has rules for this game (64 of the 104); otherwise they are neutral."""
        return self.entry["xitari"] is not None

    def rules(self, protocol: str = "ale") -> Rules:
        """The rules under ``protocol`` ("ale" or "xitari"); xitari's are neutral for the 40 games it lacks.

        Raises VcsError for another protocol name.
        """
        return _rules(self.name, _protocol(protocol))


def _is_ram_byte(e: Expr) -> bool:
    """True for `R[i]` with a number i."""
    return isinstance(e, list) and len(e) == 2 and e[0] == "R" and isinstance(e[1], int)


class _Compiler:
    """Emits the code of one game. `names` maps variables to numbers; locals of `sum` get fresh numbers."""

    def __init__(self, game: str) -> None:
        self.game = game
        self.code: list[int] = []
        self.names: dict[str, int] = {}
        self.used = 0  # numbers handed out; names may alias one (locals of `sum`), so this is not len(names)
        self.depth = 0
        self.locals = 0

    def fail(self, why: str) -> VcsError:
        return VcsError(f"the rules of {self.game} in games.json cannot be compiled: {why}")

    def emit(self, op: str, *operands: int, effect: int = 0) -> int:
        """Append one instruction; `effect` is what it does to the stack depth. Returns its position."""
        at = len(self.code)
        self.code += [OP[op], *operands]
        self.depth += effect
        if self.depth > MAXSTACK:
            raise self.fail(f"an expression needs more than {MAXSTACK} values at once; use variables")
        return at

    def here(self) -> int:
        return HEADER + len(self.code)

    def patch(self, at: int, operand: int) -> None:
        """Let the jump at `at` go to the place reached now."""
        self.code[at + 1 + operand] = self.here()

    def var(self, name: str, *, new: bool = False) -> int:
        if name not in self.names:
            if not new:
                raise self.fail(f"variable {name!r} is read before anything is assigned to it")
            if self.used >= MAXVARS:
                raise self.fail(f"it uses more than {MAXVARS} variables")
            self.names[name] = self.used
            self.used += 1
        return self.names[name]

    def expr(self, e: Expr, mode: bool = False) -> None:
        """Code that leaves the value of `e` on the stack. `mode`: in a mode rule `mode` and `rand` exist."""
        if isinstance(e, bool) or not isinstance(e, int | str | list) or (isinstance(e, list) and not e):
            raise self.fail(f"{e!r} is not an expression; use an integer, a name or [operation, ...]")
        if isinstance(e, int):
            if not -(2**31) <= e < 2**31:
                raise self.fail(f"the constant {e} does not fit into 32 bits")
            self.emit("CONST", e, effect=1)
            return
        if isinstance(e, str):
            if e == "mode" and mode:
                self.emit("MODE", effect=1)
            else:
                self.emit("LOAD", self.var(e), effect=1)
            return
        op, args = e[0], e[1:]
        if op == "R" and len(args) == 1 and isinstance(args[0], int):
            self.emit("RAMK", self.ram_index(args[0]), effect=1)
        elif op == "R" and len(args) == 1:
            self.expr(args[0], mode)
            self.emit("RAM")
        elif op == "bus" and len(args) == 1:
            self.expr(args[0], mode)
            self.emit("BUS")
        elif op == "bcd" and args and all(_is_ram_byte(a) for a in args):
            self.emit("BCDK", len(args), *(self.ram_index(a[1]) for a in args), effect=1)
        elif op == "bcd" and args:
            for a in args:
                self.expr(a, mode)
            self.emit("BCD", len(args), effect=1 - len(args))
        elif op in _BINARY and len(args) == 2:
            self.expr(args[0], mode)
            self.expr(args[1], mode)
            self.emit(_BINARY[op], effect=-1)
        elif op in ("and", "or") and args:
            for a in args:
                self.expr(a, mode)
            self.emit("LAND" if op == "and" else "LOR", len(args), effect=1 - len(args))
        elif op in ("s8", "not") and len(args) == 1:
            self.expr(args[0], mode)
            self.emit("S8" if op == "s8" else "LNOT")
        elif op == "if" and len(args) == 3:
            for a in args:
                self.expr(a, mode)
            self.emit("PICK", effect=-2)
        elif op == "sum" and len(args) == 4 and isinstance(args[0], str):
            self.sum(args[0], args[1], args[2], args[3], mode)
        elif op == "rand" and not args and mode:
            self.emit("RAND", effect=1)
        else:
            raise self.fail(f"{op!r} with {len(args)} arguments is not an operation of spec/games.md 2")

    def ram_index(self, i: int) -> int:
        if not 0 <= i < 128:
            raise self.fail(f"RAM index {i} is outside 0..127")
        return i

    def sum(self, name: str, lo: Expr, hi: Expr, body: Expr, mode: bool) -> None:
        """`sum(name, lo, hi, body)`: the variable and its upper limit live in two numbers of their own."""
        outer = self.names.get(name)
        self.locals += 1
        count = self.var(f"{name} #{self.locals}", new=True)
        limit = self.var(f"{name} limit #{self.locals}", new=True)
        self.expr(lo, mode)
        self.emit("STORE", count, effect=-1)
        self.expr(hi, mode)
        self.emit("STORE", limit, effect=-1)
        self.names[name] = count
        self.emit("CONST", 0, effect=1)
        loop = self.here()
        out = self.emit("JGT", count, limit, 0)
        self.expr(body, mode)
        self.emit("ADD", effect=-1)
        self.emit("INC", count)
        self.emit("JUMP", loop)
        self.patch(out, 2)
        if outer is None:
            del self.names[name]
        else:
            self.names[name] = outer

    def assign(self, name: str, e: Expr, mode: bool = False) -> None:
        self.expr(e, mode)
        self.emit("STORE", self.var(name, new=True), effect=-1)

    def outputs(self, over: Expr, lives: Expr) -> None:
        """The three outputs of rule L5: reward, game over, lives."""
        for number, e in enumerate(("reward", ["!=", over, 0], lives)):
            self.expr(e)
            self.emit("OUT", number, effect=-1)

    def rule(self, ops: Sequence[Any]) -> None:
        """The operations of a mode rule (spec/games.md 4)."""
        for op in ops:
            name = op[0]
            if name == "select":
                self.expr(op[1], True)
                self.emit("SELECT", effect=-1)
            elif name == "act":
                self.expr(op[2], True)
                self.emit("ACT", int(op[1]), effect=-1)
            elif name == "reset":
                self.emit("SOFT")
            elif name == "set":
                self.assign(op[1], op[2], True)
            elif name == "until":
                # With a limit the condition is looked at once more after the last round, as without one.
                limit = int(op[3]) if len(op) > 3 else -1
                self.locals += 1
                rounds = self.var(f"rounds #{self.locals}", new=True)
                self.emit("CONST", 0, effect=1)
                self.emit("STORE", rounds, effect=-1)
                loop = self.here()
                self.expr(["not", op[1]], True)
                out = self.emit("JZ", 0, effect=-1)
                self.emit("ROUND", rounds, limit)
                self.rule(op[2])
                self.emit("JUMP", loop)
                self.patch(out, 0)
            elif name == "if":
                self.expr(op[1], True)
                no = self.emit("JZ", 0, effect=-1)
                self.rule(op[2])
                end = self.emit("JUMP", 0)
                self.patch(no, 0)
                self.rule(op[3])
                self.patch(end, 0)
            else:
                raise self.fail(f"{name!r} is not an operation of a mode rule (spec/games.md 4)")


def compile_rules(
    name: str,
    *,
    state: dict[str, int],
    persistent_state: dict[str, int],
    step: Sequence[Sequence[Expr]],
    game_over: Expr,
    lives: Expr,
    mode_rule: Sequence[Any] = (),
    starting_actions: Sequence[Sequence[int]] = (),
    legal_actions: Sequence[int] = tuple(range(18)),
    max_frames: int = 0,
    default_mode: int = 0,
) -> NDArray[np.int32]:
    """Compile a game's trees into the flat program that the machine runs.

    Returns int32, shape (n,): ``HEADER`` words, then code. The arguments are the fields of ``games.json``
    (spec/games.md 1); ``max_frames`` is the episode limit in frames (0: none). Raises VcsError for a tree
    that is not of the language, an unknown variable, a RAM index outside 0..127 or too many variables.
    """
    c = _Compiler(name)
    if "reward" not in state:
        raise c.fail("its state has no variable 'reward'")
    for v in (*persistent_state, *state):
        c.var(v, new=True)
    init = c.here()
    for v, value in persistent_state.items():
        c.assign(v, int(value))
    reset = c.here()
    for v, value in state.items():
        c.assign(v, int(value))
    c.outputs(game_over, lives)
    c.emit("END")
    at_step = c.here()
    for v, e in step:
        c.assign(v, e)
    c.outputs(game_over, lives)
    c.emit("END")
    at_mode = c.here()
    c.rule(mode_rule)
    c.emit("END")
    at_start = c.here()
    for action, count in starting_actions:
        c.emit("CONST", int(count), effect=1)
        c.emit("FRAMES", int(action), effect=-1)
    c.emit("END")
    # so that the machine may read the operands of any instruction before it checks them
    c.code += [OP["END"]] * (LONGEST - 1)
    fresh = Interpreter(state, persistent_state, step, game_over, lives).lives
    header = [0] * HEADER
    header[H_MAGIC] = MAGIC
    header[H_LEN] = HEADER + len(c.code)
    header[H_INIT], header[H_RESET], header[H_STEP], header[H_MODE], header[H_START] = (
        init, reset, at_step, at_mode, at_start,
    )  # fmt: skip
    header[H_LEGAL] = sum(1 << a for a in legal_actions)
    header[H_MAX_FRAMES] = max_frames
    header[H_LIVES] = fresh
    header[H_DEFAULT_MODE] = default_mode
    return np.array(header + c.code, dtype=np.int32)


class Interpreter:
    """The expression language as written in spec/games.md 2: trees in, reward, game over and lives out.

    Slow and plain; tests compare the compiled programs with it. ``ram`` is anything that gives 128 bytes by
    index, ``bus`` reads a byte at an address (only klax needs it).
    """

    def __init__(
        self,
        state: dict[str, int],
        persistent_state: dict[str, int],
        step: Sequence[Sequence[Expr]],
        game_over: Expr,
        lives: Expr,
        bus: Callable[[int], int] | None = None,
    ) -> None:
        self._state, self._step, self._over, self._lives = dict(state), step, game_over, lives
        self._bus = bus
        self._ram: Sequence[int] = bytes(128)
        self.variables: dict[str, int] = {**persistent_state, **state}

    @classmethod
    def of(cls, rules: Rules, bus: Callable[[int], int] | None = None) -> Interpreter:
        """An interpreter for compiled :class:`Rules`."""
        return cls(rules.state, rules.persistent_state, rules.step, rules.game_over, rules.lives, bus)

    @property
    def reward(self) -> int:
        """The variable ``reward``."""
        return self.variables["reward"]

    @property
    def over(self) -> bool:
        """True if the game has ended."""
        return self.value(self._over) != 0

    @property
    def lives(self) -> int:
        """The lives as reported to an agent."""
        return self.value(self._lives)

    def reset(self) -> None:
        """Give every variable of ``state`` its reset value (rule E1); persistent ones are untouched."""
        self.variables.update(self._state)

    def step(self, ram: Sequence[int]) -> tuple[int, int, int]:
        """Run the program once on 128 bytes of RAM; returns (reward, over, lives)."""
        self._ram = ram
        for name, e in self._step:
            self.variables[name] = self.value(e)
        return self.reward, int(self.over), self.lives

    def value(self, e: Expr) -> int:
        """The value of one tree on the RAM of the last step."""
        if isinstance(e, int):
            return int(e)
        if isinstance(e, str):
            return self.variables[e]
        op, args = e[0], e[1:]
        if op == "sum":
            name, lo, hi, body = args
            outer = self.variables.get(name)
            total = 0
            for i in range(self.value(lo), self.value(hi) + 1):
                self.variables[name] = i
                total += self.value(body)
            if outer is None:
                self.variables.pop(name, None)
            else:
                self.variables[name] = outer
            return total
        v = [self.value(a) for a in args]
        match op:
            case "R":
                return int(self._ram[v[0] & 127])
            case "bus":
                if self._bus is None:
                    raise VcsError("these rules read the bus; give the interpreter a function that reads it")
                return self._bus(v[0])
            case "bcd":
                return sum(100**k * (10 * (b >> 4) + (b & 15)) for k, b in enumerate(v))
            case "s8":
                return v[0] if v[0] < 128 else v[0] - 256
            case "if":
                return v[1] if v[0] else v[2]
            case "and":
                return int(all(v))
            case "or":
                return int(any(v))
            case "not":
                return int(not v[0])
        return int(_PLAIN[op](v[0], v[1]))


_PLAIN: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "min": min,
    "max": max,
}

# xitari ends every episode after this many frames unless the game says otherwise (spec/games.md 8, X4).
XITARI_MAX_FRAMES: Final = 1_728_000


def _protocol(protocol: str) -> str:
    if protocol not in ("ale", "xitari"):
        raise VcsError(f"unknown protocol {protocol!r}; use 'ale' or 'xitari'")
    return protocol


@cache
def load_games() -> dict[str, Game]:
    """All games of ``games.json`` by name, in the order of the file (104 of them)."""
    return {
        g["rom"]: Game(
            name=g["rom"],
            display_name=g["display_name"],
            gymnasium_id=g["gymnasium_id"],
            md5=g["rom_md5"],
            controller=g["controller"],
            notes=tuple(g["notes"]),
            entry=g,
        )
        for g in load_json("games.json")["games"]
    }


def game_names() -> tuple[str, ...]:
    """The names of all games, which are also the file names of their ROM images without extension."""
    return tuple(load_games())


def get_game(name: str) -> Game:
    """The game called ``name``; raises VcsError (with near names) if there is none."""
    games = load_games()
    if not isinstance(name, str) or name not in games:
        import difflib

        near = difflib.get_close_matches(str(name), games, 3)
        hint = f"did you mean {', '.join(near)}?" if near else "vcs.games.game_names() lists all games"
        raise VcsError(f"there is no game called {name!r}; {hint}")
    return games[name]


def find_game(md5: str | None = None, stem: str | None = None) -> Game | None:
    """The game of a ROM image, or None for a ROM without rules.

    ``md5`` (of the uncompressed image, any case) or ``stem`` (file name without directory and extension, any
    case) may match; the MD5 is the stronger witness. Both protocols use this rule here: the file name alone
    would make xitari's rewards depend on how a user named a file (spec/games.md X1).
    """
    games = load_games()
    if md5 is not None:
        for game in games.values():
            if game.md5 == md5.lower():
                return game
    return games.get(stem.lower()) if stem else None


@cache
def _rules(name: str, protocol: str) -> Rules:
    entry = load_games()[name].entry
    if protocol == "xitari":
        if entry["xitari"] is None:
            return neutral_rules(protocol, name)
        # xitari has neither modes nor difficulties (M5)
        none = {"modes": [0], "difficulties": [0], "mode_rule": [], "settings": {}}
        entry = {**entry, **none, **entry["xitari"]}
    limit = entry.get("max_frames") or (XITARI_MAX_FRAMES if protocol == "xitari" else 0)
    return _make(entry, name, protocol, limit)


@cache
def neutral_rules(protocol: str = "ale", name: str = "") -> Rules:
    """Rules for a ROM that has none: reward 0, lives 0, never over, 18 actions (spec/environment.md 1.1)."""
    entry = {
        "state": {"reward": 0},
        "step": [],
        "game_over": 0,
        "lives": 0,
        "minimal_actions": range(18),
        "legal_actions": range(18),
        "starting_actions": [],
        "modes": [0],
        "difficulties": [0],
        "mode_rule": [],
        "settings": {},
        "reward_range": [0, 0],
    }
    return _make(entry, name, protocol, XITARI_MAX_FRAMES if protocol == "xitari" else 0)


def _make(entry: dict[str, Any], name: str, protocol: str, max_frames: int) -> Rules:
    persistent = {k: int(v) for k, v in entry.get("persistent_state", {}).items()}
    state = {k: int(v) for k, v in entry["state"].items()}
    bounds = entry["reward_range"]
    program = compile_rules(
        name,
        state=state,
        persistent_state=persistent,
        step=entry["step"],
        game_over=entry["game_over"],
        lives=entry["lives"],
        mode_rule=entry["mode_rule"],
        starting_actions=entry["starting_actions"],
        legal_actions=entry["legal_actions"],
        max_frames=max_frames,
        default_mode=entry["modes"][0],
    )
    program.setflags(write=False)
    return Rules(
        name=name,
        protocol=protocol,
        minimal_actions=tuple(entry["minimal_actions"]),
        legal_actions=tuple(entry["legal_actions"]),
        starting_actions=tuple((int(a), int(n)) for a, n in entry["starting_actions"]),
        modes=tuple(entry["modes"]),
        difficulties=tuple(entry["difficulties"]),
        reward_range=None if bounds is None else (bounds[0], bounds[1]),
        max_frames=max_frames,
        settings=dict(entry["settings"]),
        state=state,
        persistent_state=persistent,
        step=entry["step"],
        game_over=entry["game_over"],
        lives=entry["lives"],
        mode_rule=entry["mode_rule"],
        program=program,
    )
