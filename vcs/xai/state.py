"""The shared gameplay state of the audit: checkpoint, tail, causes, outputs, and cached re-runs.

Sections 1 to 5 of the audit protocol. `State` is what every method gets: it can be asked for the value of
an output under any set of interventions (exact re-runs, each done once), for RAM along the trajectory, and
for the candidate cells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vcs import checks, roms
from vcs.data import load_json
from vcs.errors import VcsError
from vcs.trace import Trace
from vcs.xai import metrics
from vcs.xai.causes import RAM, Act, Cause, Do, Intervention, audit_causes
from vcs.xai.console import AuditMachine
from vcs.xai.oracle import Oracle
from vcs.xai.outputs import Bytes, Content, Outcome, Output, Position, choose_sampler, is_position_concept
from vcs.xai.rng import action_stream

FALLBACK = {13: "enemy_score", 14: "player_score", 49: "ball_x", 54: "ball_y", 51: "player_y", 50: "enemy_y"}
DENSITY_FLOOR, DENSITY_GATE = 0.5, 4

Run = tuple[Intervention, ...]


def _key(run: Run) -> frozenset[Intervention] | Run:
    """What makes a run the same run: writes to different places commute, writes to one place do not."""
    places = {u.location for u in run if isinstance(u, Do)}
    return frozenset(run) if len(places) + sum(isinstance(u, Act) for u in run) == len(run) else run


def actions_of(seed: int) -> tuple[list[int], int]:
    """The action stream of a seed and the length of its prefix (90); seed 0 is the published stream."""
    data = load_json("audit_actions.json")
    if seed == 0:
        return list(data["actions"]), int(data["prefix"])
    return action_stream(seed, len(data["actions"])), int(data["prefix"])


def stream_hash(actions: Sequence[int]) -> str:
    """SHA-256 of the comma-joined actions, the provenance of a state."""
    return hashlib.sha256(",".join(map(str, actions)).encode()).hexdigest()


def labelled_games() -> list[str]:
    """Games with published RAM labels (54), sorted."""
    return sorted(load_json("audit_candidates.json"))


def scored_games() -> list[str]:
    """The 42 games of the published audit, sorted."""
    return sorted(load_json("audit_expected.json")["games"])


def _checked(labels: Any) -> dict[int, str] | None:
    """Candidate cells, if they are RAM cells with concepts."""
    if labels is None:
        return None
    fits = isinstance(labels, Mapping) and all(isinstance(c, int) and 0 <= c < 128 for c in labels)
    if not fits or not all(isinstance(concept, str) for concept in labels.values()):
        raise VcsError(f"labels is {labels!r:.60}: give a mapping from RAM cells 0..127 to concepts")
    return dict(labels)


class State:
    """One gameplay state of one game, with its causes, outputs and oracle.

    game: a ROM name, path or bytes. seed: of the action stream (0 = the published one). threads: of the
    oracle. labels: candidate cells with their concepts, in order; default: the published labels, and for a
    game without an entry the cells found by measurement (`vcs.xai.labels.discover`), with ``labelled`` False.

    Attributes: ``ram`` uint8[128] at the checkpoint, ``pool`` uint8[91, 128] RAM after 0..90 actions,
    ``tail``, ``oracle``, ``baseline`` (an Outcome), ``cells`` in list order, ``concepts``, ``causes``,
    ``content`` and ``position`` (the audited outputs), ``density``.
    """

    def __init__(
        self, game: Any, seed: int = 0, *, threads: int = 1, labels: Mapping[int, str] | None = None
    ) -> None:
        checks.whole("seed", seed, 0, 2**63)
        labels = _checked(labels)
        image = roms.find(game)
        self.game, self.rom_sha256, self.seed = image.name, image.sha256, seed
        self.stream, self.prefix = actions_of(seed)
        self.tail = self.stream[self.prefix :]
        self.machine = AuditMachine(image)
        pool = [self.machine.ram]
        for action in self.stream[: self.prefix]:
            self.machine.step(action)
            pool.append(self.machine.ram)
        self.pool: Bytes = np.stack(pool)
        self.ram = self.pool[-1]
        self.oracle = Oracle(self.machine, self.tail, threads=threads)
        self.baseline = self.oracle.baseline
        self.gradients: dict[tuple[str, str], list[Any]] = {}  # end-to-end sweeps that methods share
        self.labelled = True
        if labels is None:
            labels = self._published_labels()
        self.cells: list[int] = list(labels)
        self.concepts: dict[int, str] = dict(labels)
        self._cache: dict[frozenset[Intervention] | Run, Outcome] = {_key(()): self.baseline}
        self.causes: list[Cause] = audit_causes(self.cells, [int(b) for b in self.ram], self.concepts)

    def _published_labels(self) -> dict[int, str]:
        entries = load_json("audit_candidates.json").get(self.game)
        if entries is None:
            from vcs.xai.labels import discover

            self.labelled = False
            return discover(self.oracle)
        return {e["ram_index"]: e["concept"] for e in entries} or dict(FALLBACK)

    # ------------------------------------------------------------------ re-runs
    def outcomes(self, runs: Sequence[Run]) -> list[Outcome]:
        """The outcome of each of ``runs``, interventions at the checkpoint; known ones are not run again."""
        keys = [_key(run) for run in runs]
        new = {k: run for k, run in zip(keys, runs, strict=True) if k not in self._cache}
        if new:
            self._cache.update(zip(new, self.oracle.run(list(new.values())), strict=True))
        return [self._cache[k] for k in keys]

    def values(self, output: Output, runs: Sequence[Run]) -> NDArray[np.float64]:
        """float64[len(runs)]: the output under each run."""
        return np.array([output.read(o) for o in self.outcomes(runs)])

    def value(self, output: Output, run: Run = ()) -> float:
        """The output under one run; without interventions, y(baseline)."""
        return float(self.values(output, [run])[0])

    @staticmethod
    def write(values: Mapping[int, int]) -> Run:
        """The run that writes RAM cells at the checkpoint. values: cell 0..127 -> byte 0..255."""
        return tuple(Do(RAM + i, "set", int(v)) for i, v in sorted(values.items()))

    def masked(self, cells: Iterable[int]) -> Run:
        """The run that sets RAM cells to 0 at the checkpoint."""
        return self.write(dict.fromkeys(cells, 0))

    @staticmethod
    def occluded(causes: Iterable[Cause]) -> Run:
        """The run that occludes causes (2.7)."""
        return tuple(dict.fromkeys(u for cause in causes for u in cause.occlusion))

    @property
    def sorted_cells(self) -> list[int]:
        """The candidate cells by index, as section 9 orders them."""
        return sorted(self.cells)

    # ------------------------------------------------------------------ oracle and outputs
    def effects(self, output: Output, causes: Sequence[Cause] | None = None) -> NDArray[np.float64]:
        """The oracle: |Delta y| of an output for each of ``causes`` (default: all) (4.3), float64[n]."""
        causes = self.causes if causes is None else causes
        return np.abs(self.values(output, [c.do for c in causes]) - output.read(self.baseline))

    @cached_property
    def persistence(self) -> dict[int, float]:
        """Per candidate cell, the largest effect of any cause on the cell itself (4.1)."""
        outcomes = self.outcomes([c.do for c in self.causes])
        return {
            c: max(abs(float(o.ram[c]) - float(self.baseline.ram[c])) for o in outcomes) for c in self.cells
        }

    @cached_property
    def content(self) -> Content:
        """The content output: the cell that some cause moves most, the first on ties (4.1)."""
        return Content.of(max(self.cells, key=lambda c: self.persistence[c]))

    @cached_property
    def position(self) -> Position:
        """The position output with its sampler (4.2, 5)."""
        probed = [i for i in self.cells if is_position_concept(self.concepts[i])]
        probed = list(dict.fromkeys([*probed, 49, 54]))
        runs = [self.write({i: (int(self.ram[i]) + 24) % 256}) for i in probed]
        outcomes = self.oracle.run(runs, actions=[0] * 15, screens=True)
        probes = {i: o.picture() for i, o in zip(probed, outcomes, strict=True)}
        return Position.of(
            choose_sampler(self.cells, self.concepts, self.ram, self.baseline.picture(), probes)
        )

    def output(self, kind: str) -> Output:
        """The audited output of a kind, ``content`` or ``position``; VcsError for another word."""
        if kind not in ("content", "position"):
            raise VcsError(f"unknown output {kind!r}; the audit has content and position")
        return self.content if kind == "content" else self.position

    @cached_property
    def density(self) -> int:
        """Causes that change more than half a pixel (4.4)."""
        outcomes = self.outcomes([c.do for c in self.causes])
        return sum(o.changed > DENSITY_FLOOR for o in outcomes)

    @cached_property
    def trace(self) -> Trace:
        """The recorded baseline: the tail from the checkpoint, for end-to-end gradients (`vcs.grads`)."""
        return self.machine.clone().trace(self.tail)

    def trace_at(self, ram: Bytes) -> Trace:
        """The recorded tail from the checkpoint with other RAM contents: ram uint8[128]."""
        machine = self.machine.clone()
        for i, value in enumerate(ram):
            machine.poke_ram(i, int(value))
        return machine.trace(self.tail)

    def curves(
        self, output: Output, attribution: Sequence[float] | NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Deletion and insertion curve of an output on the true machine, float64[n + 1] each: causes are
        occluded, or spared, in the order of the attribution, float64[n] (7.5)."""
        order = [self.causes[i] for i in metrics.descending(attribution)]
        n = len(order)
        deletion = [self.occluded(order[:j]) for j in range(n + 1)]
        insertion = [self.occluded(order[j:]) for j in range(n + 1)]
        values = self.values(output, deletion + insertion)
        return values[: n + 1], values[n + 1 :]
