"""The page's messages and their answers: one `Session` a tab.

A message is a JSON object with `op`, a number `id` that comes back with every answer, and the fields of
that operation. An answer is a JSON object, or (for pictures and files) bytes: the length of a JSON header
(4 bytes, little endian), the header, the content. Long operations send `progress` (0 to 1) and parts of the
result before the answer.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import numpy as np

from vcs import actions, asm, demo, layout, roms
from vcs.demo import content
from vcs.errors import VcsError
from vcs.explore import chain, explain, export
from vcs.explore.explain import Array, Flip, Moment, Stopped, Target
from vcs.explore.tape import LONGEST, Poke, Tape
from vcs.gradient import RULES
from vcs.machine import palette
from vcs.soft.rules import NAMES

LARGEST: Final = 256 * 1024  # bytes of a message
HORIZON: Final = 15
CHUNK: Final = 4096  # bytes disassembled at once
THUMB: Final = (4, 2)  # a thumbnail shows every 4th row and every 2nd column
_DIGITS: Final = "0123456789abcdefgh"  # an action of a remembered tape is one of these

Answer = tuple[dict[str, Any], bytes | None]
Progress = Callable[[dict[str, Any]], None]


def parse(text: str) -> dict[str, Any]:
    """A message as a dict with a checked `op` and `id`. Raises VcsError, one sentence, for anything else."""
    if len(text) > LARGEST:
        raise VcsError(f"the message is too large: at most {LARGEST // 1024} KB are accepted")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise VcsError("the message is no JSON: send one JSON object a message") from None
    if not isinstance(message, dict) or not isinstance(message.get("op"), str):
        raise VcsError('the message has no operation: send a JSON object with "op", one of ' + ", ".join(OPS))
    if message["op"] not in OPS:
        raise VcsError(f"there is no operation {message['op'][:40]!r}: use one of {', '.join(OPS)}")
    whole(message, "id", 0, 2**53, 0)
    return message


def whole(message: Mapping[str, Any], name: str, low: int, high: int, default: int | None = None) -> int:
    """A whole number of a message. Raises VcsError if it is missing, something else or out of range."""
    value = message.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise VcsError(f"{name} must be a whole number from {low} to {high}")
    return value


def choice(message: Mapping[str, Any], name: str, known: tuple[str, ...], default: str) -> str:
    """One of some words. Raises VcsError for another."""
    value = message.get(name, default)
    if value not in known:
        raise VcsError(f"{name} must be one of {', '.join(known)}")
    return str(value)


def binary(header: Mapping[str, Any], body: bytes) -> bytes:
    """An answer with content."""
    head = json.dumps(header).encode()
    return len(head).to_bytes(4, "little") + head + body


class Session:
    """One tab: its tape, and what it looks at.

    image, source: the cartridge and how it was named. frames: NOOP frames of a new tape. `answer` is called
    by one thread at a time; `long` operations may run in another one meanwhile, and `stop` ends them.
    """

    def __init__(self, image: roms.Rom, source: str, *, protocol: str, seed: int, frames: int) -> None:
        self.image, self.source, self.frames = image, source, frames
        self.tape = Tape(image, protocol, seed)
        self.lock = threading.Lock()
        self._jobs = 0
        self._moments: dict[tuple[int, int, int], Moment] = {}

    # ------------------------------------------------------------------ dispatch
    def answer(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        """The answer of a short operation. Raises VcsError for what cannot be done."""
        with self.lock:
            answer: Answer = getattr(self, f"_{message['op']}")(message, progress)
            return answer

    def prepare(self, message: Mapping[str, Any], progress: Progress) -> Callable[[], Answer]:
        """The first, short half of a long operation; what it returns is to be called in a thread of its own.

        A newer long operation ends the older ones: they raise `Stopped`."""
        with self.lock:
            self._jobs += 1
            job: Callable[[], Answer] = getattr(self, f"_{message['op']}")(message, self._watched(progress))
            return job

    def stop(self) -> None:
        """End all long operations."""
        self._jobs += 1

    def _watched(self, progress: Progress) -> Progress:
        mine = self._jobs

        def send(part: dict[str, Any]) -> None:
            if self._jobs != mine:
                raise Stopped
            progress(part)

        return send

    # ------------------------------------------------------------------ the tape
    def _hello(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        remembered = message.get("tape")
        note = ""
        if remembered is not None:
            note = self._remember(remembered, progress)
        if remembered is None or note:
            self.tape.reset()
            for _ in range(self.frames):
                if not self.tape.machine.game_over:
                    self.tape.step()
        machine = self.tape.machine
        record = roms.record(self.image.game) if self.image.game else None
        words = {code: word for word, code in actions.NAMES.items()}
        about = {
            "name": self.image.name,
            "game": self.image.game,
            "sha256": self.image.sha256,
            "size": len(machine.rom),
            "mapper": machine.mapper,
            "protocol": machine.protocol,
            "rows": machine.rows,
            "palette": palette(machine.pal, machine.protocol).tobytes().hex(),
            "top": machine._settings["y0"],
            "places": {
                i: layout.name(i)
                for i in (
                    *range(layout.CPU, layout.CPU + 4),
                    *range(layout.TIA_W, layout.TIA_W + layout.TIA_W_SIZE),
                )
            },
            "labels": explain.labels(self.image),
            "actions": [words[a] for a in machine.actions] if record else [],
            "methods": explain.method_list(),
            "rules": sorted(NAMES, key=lambda name: name != RULES),  # the default first
            "horizon": HORIZON,
            "longest": LONGEST,
            "note": note,
            "restored": remembered is not None and not note,
        }
        self.tape.told = 0
        return self._picture(about)

    def _remember(self, tape: Any, progress: Progress) -> str:
        """Build the tape a page remembers again; returns why not, "" if done."""
        if not isinstance(tape, dict) or tape.get("rom") != self.image.sha256:
            return f"This page was showing another cartridge; the server now has {self.image.name}."
        text, pokes = tape.get("actions"), tape.get("pokes", [])
        if not isinstance(text, str) or not re.fullmatch(f"[{_DIGITS}]*", text):
            raise VcsError("the remembered tape has no actions: start anew by closing this tab")
        try:
            given = [Poke(*(int(v) for v in p)) for p in pokes]
        except (TypeError, ValueError, OverflowError):
            raise VcsError("the remembered tape has pokes that are no (frame, location, value)") from None
        with contextlib.suppress(VcsError):
            codes = [_DIGITS.index(c) for c in text]
            self.tape.load(
                codes,
                given,
                whole(tape, "at", 0, LONGEST, len(codes)),
                lambda done: progress({"progress": done}),
            )
            return ""
        return "The game this page remembered does not fit this server; it starts anew."

    def _picture(self, extra: Mapping[str, Any] | None = None) -> Answer:
        tape, shown = self.tape, self.tape.shown
        line, clock = tape.clock()
        registers = shown.cpu()
        header = {
            "frame": tape.frame,
            "instruction": tape.instruction,
            "length": len(tape),
            "line": line,
            "clock": clock,
            "ram": shown.ram.tobytes().hex(),
            "registers": dict(zip(("A", "X", "Y", "SP", "P", "PC"), registers)),
            "lives": shown.lives,
            "over": tape.machine.game_over,
            "rows": shown.rows,
            "tape": tape.news(),
            **(extra or {}),
        }
        if tape.instruction:
            trace = tape.trace(1)
            row = trace.instr[tape.instruction]
            header["next"] = demo.instruction(trace, tape.instruction)
            header["bank"] = int(row["bank"])
        return header, shown.screen.tobytes()

    def _step(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        unit = choice(message, "unit", ("frame", "line", "instruction"), "frame")
        count = whole(message, "count", -1000, 1000, 1)
        action = whole(message, "action", 0, 17) if message.get("action") is not None else None
        tape = self.tape
        if unit == "frame":
            if count < 0:
                tape.seek(max(0, tape.frame + count + (tape.instruction > 0)))
            for _ in range(count):
                tape.step(action)
        elif count < 0 and not tape.instruction:
            if tape.frame == 0:
                raise VcsError("this is the first frame of the tape: there is nothing before it")
            tape.seek(tape.frame - 1)
            last = tape.instructions - 1
            if unit == "instruction":
                tape.enter(max(0, last + 1 + count))
            else:
                tape.enter(last)
                tape.enter_line(count + 1)
        elif unit == "instruction":
            there = tape.instruction + count
            tape.enter(max(0, min(there, tape.instructions)) if tape.instruction else there, action)
        else:
            tape.enter_line(count, action)
        return self._picture()

    def _seek(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        self.tape.seek(whole(message, "frame", 0, LONGEST))
        return self._picture()

    def _reset(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        self.tape.reset()
        return self._picture()

    def _place(self, message: Mapping[str, Any]) -> int:
        name = message.get("location")
        if not isinstance(name, str) or len(name) > 40:
            raise VcsError('location must be a name such as "RAM[0x1C]", "COLUP0", "A" or "ROM[0x123]"')
        return layout.parse(name)

    def _poke(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        self.tape.poke(self._place(message), whole(message, "value", 0, 255))
        return self._picture()

    def _unpoke(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        self.tape.unpoke(whole(message, "index", 0, 10**6))
        return self._picture()

    def _thumbs(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        found = self.tape.pictures(whole(message, "count", 2, 40, 12))
        small = [np.ascontiguousarray(screen[:: THUMB[0], :: THUMB[1]]) for _, screen in found]
        rows, columns = small[0].shape
        header = {"frames": [f for f, _ in found], "rows": rows, "columns": columns, "length": len(self.tape)}
        return header, b"".join(s.tobytes() for s in small)

    # ------------------------------------------------------------------ looking back
    def _horizon(self, message: Mapping[str, Any]) -> int:
        return whole(message, "horizon", 1, HORIZON, 1)

    def _hover(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        trace = self.tape.trace(self._horizon(message))
        row, column = whole(message, "row", 0, 1000), whole(message, "column", 0, 159)
        answer = chain.pixel(trace, row, column)
        answer["chains"] = {
            name: [asdict(link) for link in links] for name, links in answer["chains"].items()
        }
        answer["first"] = self.tape.end - len(trace.frames)
        if self.tape.instruction and answer["instruction"] >= 0:
            now = int(trace.frames["first_instr"][-1]) + self.tape.instruction
            answer["waiting"] = answer["instruction"] >= now
        return answer, None

    def _byte(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        trace = self.tape.trace(self._horizon(message))
        where = whole(message, "cell", 0, layout.RAM_SIZE - 1)
        links = [asdict(link) for link in chain.cell(trace, where)]
        return {"cell": where, "chains": {"value": links}, "first": self.tape.end - len(trace.frames)}, None

    def _moment(self, message: Mapping[str, Any]) -> tuple[Moment, int, int]:
        tape = self.tape
        horizon = self._horizon(message)
        start, end = tape.start(horizon), tape.end
        key = (start, end, tape.version)
        if key not in self._moments:
            while len(self._moments) > 1:
                self._moments.pop(next(iter(self._moments)))
            pool = partial(tape.recent_ram, start, explain.POOL)
            self._moments[key] = Moment(tape.at(start), tape.actions[start:end], tape.trace(horizon), pool)
        return self._moments[key], start, end

    def _asked(self, message: Mapping[str, Any]) -> tuple[Target, str, str]:
        target = Target.parse(message.get("target"), self.tape.machine.rows)
        rules = choice(message, "rules", tuple(NAMES), RULES)
        method = message.get("method", explain.OWN)
        if method not in [m["name"] for m in explain.method_list()]:
            raise VcsError("there is no such method here: use gradient or one that `vcs audit` lists")
        return target, rules, method

    def _explain(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        """The gradient: fast, so it is answered before the oracle is asked."""
        moment, start, end = self._moment(message)
        target, rules, _ = self._asked(message)
        began = time.perf_counter()
        found = moment.gradient(target, rules)
        seconds = time.perf_counter() - began
        trace = moment.trace
        others = explain.predicted(found, moment.other_flips)
        rom = found.rom.reshape(len(found.rom), -1)
        hot = np.flatnonzero(np.abs(rom).sum(axis=1))
        answer = {
            "text": target.text,
            "value": found.value,
            "start": start,
            "end": end,
            "horizon": found.horizon,
            "rules": rules,
            "ms": 1000 * seconds,
            "ram": found.ram.reshape(128, -1).tolist(),
            "ram_predicted": explain.predicted(found, moment.ram_flips).reshape(128, 8).tolist(),
            "ram_start": trace.ram0.tobytes().hex(),
            "others": _rows(moment, moment.other_flips, others, start),
            "rom": [[int(i), *rom[i].tolist()] for i in hot],
            "rom_predicted": [
                [i, *explain.predicted(found, explain.rom_flips(trace, [i])).tolist()]
                for i in moment.hot(found)
            ],
            "top": found.top(12),
        }
        return answer, None

    # long operations: the first half under the lock, the second anywhere
    def _oracle(self, message: Mapping[str, Any], progress: Progress) -> Callable[[], Answer]:
        """Exact effects: scope "ram" (1,024 flips), "others" (registers, inputs), "rom" (the bytes the
        gradient names) or "used" (every ROM byte the trace read); and the agreement of the method with
        them."""
        moment, start, _ = self._moment(message)
        target, rules, method = self._asked(message)
        scope = choice(message, "scope", ("ram", "others", "rom", "used"), "ram")
        if method != explain.OWN:
            _ = moment.pool  # from the tape, which only this half may touch

        def job() -> Answer:
            began = time.perf_counter()
            found = moment.gradient(target, rules)
            flips = self._flips(moment, scope, found)
            effects = moment.effects(target, flips, _reporting(flips, progress, scope))
            seconds = time.perf_counter() - began
            answer: dict[str, Any] = {
                "scope": scope,
                "ms": 1000 * seconds,
                "flips": len(flips),
                "start": start,
            }
            scores = explain.predicted(found, flips)
            if scope == "ram":
                answer["effects"] = effects.reshape(128, 8).tolist()
                if method != explain.OWN:
                    progress({"progress": 1.0, "doing": method})
                    scores = moment.scored(target, rules, method)
                    answer["scores"] = scores.reshape(128, 8).tolist()
            elif scope == "others":
                answer["others"] = _rows(moment, flips, effects, start)
            else:
                answer["rom"] = [
                    [flips[i].index, *effects[i : i + 8].tolist()] for i in range(0, len(flips), 8)
                ]
            answer["agreement"] = explain.agreement(scores, effects)
            return answer, None

        return job

    @staticmethod
    def _flips(moment: Moment, scope: str, found: Any) -> list[Flip]:
        if scope == "ram":
            return moment.ram_flips
        if scope == "others":
            return moment.other_flips
        return explain.rom_flips(moment.trace, moment.used if scope == "used" else moment.hot(found))

    def _export(self, message: Mapping[str, Any], progress: Progress) -> Callable[[], Answer]:
        """A file: kind "npz", "csv" or "python"."""
        kind = choice(message, "kind", ("npz", "csv", "python"), "npz")
        moment, start, end = self._moment(message)
        target, rules, method = self._asked(message)
        if method != explain.OWN:
            _ = moment.pool
        played, pokes = self.tape.actions[:end], list(self.tape.pokes)

        def job() -> Answer:
            effects = scores = np.zeros(len(moment.ram_flips))  # the program computes its own
            if kind != "python":
                report = _reporting(moment.ram_flips, progress, "file")
                effects = moment.effects(target, moment.ram_flips, report)
                scores = moment.scored(target, rules, method)
            about = export.Explanation(
                self.source, played, pokes, start, end, moment, target, rules, method, scores, effects
            )
            name = re.sub(r"[^a-z0-9_]+", "-", f"{self.image.name}-{end}-{target.text}".lower()).strip("-")
            if kind == "npz":
                return {"file": f"{name}.npz"}, export.npz(about)
            if kind == "csv":
                return {"file": f"{name}.csv"}, export.table(about).encode()
            return {"file": f"{name}.py"}, export.program(about).encode()

        return job

    def _listing(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        """The disassembly of 4 KB of the image, guided by what the last frames executed."""
        size = len(self.tape.rom)
        part = whole(message, "part", 0, max(0, (size - 1) // CHUNK), 0)
        trace = self.tape.trace(self._horizon(message))
        first = part * CHUNK
        data = self.tape.machine.rom[first : first + CHUNK]
        offsets = trace.instr["loc0"].astype(np.int64) - layout.ROM
        inside = (offsets >= first) & (offsets < first + len(data))
        pcs = trace.instr["pc"][inside].astype(np.int64)
        at, which = np.unique(offsets[inside] - first, return_index=True)
        origin = 0x10000 - len(data)
        vectors = [data[-4] | data[-3] << 8] if len(data) >= 4 else []
        if len(at):  # where the program saw this part, so that addresses read as in the chain
            origin = min(max(0, int(pcs[which[0]]) - int(at[0])), 0x10000 - len(data))
        entries = [*(origin + int(i) for i in at), *vectors]
        lines = asm.disassemble(data, origin, entries)
        ran = {int(i) for i in at}
        rows = [
            [first + x.offset, x.address, x.data.hex(" "), x.text, int(x.is_code), int(x.offset in ran)]
            for x in lines
        ]
        return {"part": part, "parts": (size + CHUNK - 1) // CHUNK, "lines": rows}, None

    def _cancel(self, message: Mapping[str, Any], progress: Progress) -> Answer:
        self.stop()
        return {}, None


def _rows(moment: Moment, flips: list[Flip], values: Array, start: int) -> list[list[Any]]:
    """One row a place: group, name, content, and the numbers of its flips."""
    rows: dict[tuple[str, str], list[Any]] = {}
    for flip, value in zip(flips, values.tolist()):
        if flip.part == "inputs":
            name, holds = f"{layout.name(flip.do.location)}@{start + flip.index + 1}", int(flip.step < 0)
        else:
            name, holds = layout.name(flip.do.location), content(moment.trace, flip.do.location)
        rows.setdefault((flip.part, name), [flip.part, name, holds, []])[3].append(value)
    return list(rows.values())


def _reporting(flips: list[Flip], progress: Progress, scope: str) -> Callable[[int, Array], None]:
    def report(done: int, effects: Array) -> None:
        part: dict[str, Any] = {"progress": done / len(flips), "scope": scope}
        if scope == "ram":
            part["part"] = [(done - len(effects)) // 8, effects.reshape(-1, 8).tolist()]
        progress(part)

    return report


LONG: Final = ("oracle", "export")
OPS: Final = (
    *("hello", "step", "seek", "reset", "poke", "unpoke", "thumbs"),
    *("hover", "byte", "listing", "explain", "oracle", "export", "cancel"),
)
__all__ = ["LARGEST", "LONG", "OPS", "Session", "binary", "parse"]
