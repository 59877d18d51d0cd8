"""The theorems of soft.md sections 2, 4, 5 and 9, a test for every property, under its name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autograd import grad, jacobian
from soft_flat import execute

import vcs
from vcs import soft
from vcs._hard.machine import run_vector
from vcs.soft import ops, relax
from vcs.soft.cpu import OPCODES
from vcs.soft.ops import Cell
from vcs.soft.rules import rule_set

RNG = np.random.default_rng(20)
VALUE = rule_set("value")
CORNER = 1 / math.log(1019)  # T* of soft.md 5.2


@pytest.fixture(scope="module")
def space_invaders() -> vcs.Trace:
    if "space_invaders" not in vcs.roms.available():
        pytest.skip("the image of space_invaders is not on this machine (it comes with ale-py)")
    m = vcs.Machine("space_invaders")
    m.reset()
    return m.trace([0])


# ------------------------------------------------------------------------------------------ Theorem 1


def test_T1_1_the_one_hot_read_is_the_array_element() -> None:
    for cells in (RNG.integers(256, size=4096).astype(float), RNG.integers(256, size=128).astype(float)):
        one_hot = np.zeros(len(cells))
        for address in range(len(cells)):
            one_hot[address] = 1.0
            assert ops.read(cells, address) == cells[address] == one_hot @ cells
            one_hot[address] = 0.0
    bits = RNG.integers(2, size=(128, 8)).astype(float)
    assert all(ops.read(bits, i) == bits[i] @ ops.WEIGHTS for i in range(128))


def test_T1_2_the_jacobian_of_the_read_is_one_hot() -> None:
    rom = RNG.integers(256, size=4096).astype(float)
    for address in RNG.integers(4096, size=20):
        one_hot = grad(lambda r, address=address: VALUE.pack(VALUE.read(r, int(address)))[0])(rom)
        assert one_hot[address] == 1.0 and np.count_nonzero(one_hot) == 1


@pytest.mark.parametrize("alpha", [0.1, 1.0, 2.0, 6.0, 20.0, 1000.0])
def test_T1_3_the_straight_through_value_is_the_hard_one(alpha: float) -> None:
    """Every branch displacement, both flags, both senses: the value never depends on alpha."""
    for displacement in range(256):
        delta = displacement - 256 if displacement > 127 else displacement
        for flag, sense, pc in itertools.product((0, 1), (-1, 1), (0, 0xF7F0, 0xFFFE)):
            taken = flag == (sense == 1)
            assert VALUE.branch(pc, flag, displacement, sense, alpha) == (pc + 2 + taken * delta) & 0xFFFF


@pytest.mark.parametrize("opcode", range(256))
def test_T1_4_one_step_of_every_opcode(opcode: int) -> None:
    """1000 random states each: registers, flags and every store equal the hard machine's, which keeps
    time."""
    if OPCODES[opcode].mnemonic == "KIL":
        pytest.skip("stops the processor: there is no step")
    rng = np.random.default_rng(opcode)
    memory = bytearray(rng.integers(256, size=65536, dtype=np.uint8).tobytes())
    states = rng.integers(256, size=(1000, 5))
    places = rng.integers(65536, size=1000)
    for (a, x, y, sp, p), pc in zip(states.tolist(), places.tolist()):
        old = memory[pc]
        memory[pc] = opcode
        registers = (a, x, y, sp, p | 0x30)
        soft_after, soft_stores = execute(memory, (*registers, pc))
        before = {address: memory[address] for address, _ in soft_stores}
        hard_after, _, accesses, _ = run_vector(pc, registers, memory)
        assert soft_after == tuple(hard_after), (registers, pc)
        assert soft_stores == [(address, value) for kind, address, value, _ in accesses if kind == 1]
        for address, value in before.items():
            memory[address] = value
        memory[pc] = old


@pytest.mark.parametrize(("alpha", "T"), [(1.0, 5.0), (2.0, 0.5), (6.0, 0.14), (20.0, 0.05)])
def test_T1_5_T1_6_the_trajectory_at_any_alpha_and_T(
    alpha: float, T: float, space_invaders: vcs.Trace
) -> None:
    """Checked inside: registers, flags, stores and reads after every instruction, every pixel. All games and
    more frames: tests/test_soft_replay.py and `python -m conformance pxc2`."""
    soft.replay(space_invaders, alpha=alpha, T=T)()


def _pc_slope(flag: float, alpha: float, delta: float) -> float:
    g = ops.gate(2 * flag - 1, alpha)
    return 2 * alpha * g * (1 - g) * delta


def test_T1_7_the_gradient_is_not_trivially_zero() -> None:
    crisp = grad(lambda c: VALUE.pack(VALUE.branch(0xF000, VALUE.number(c, 0), 100, 1, 10.0))[0])(np.ones(1))
    assert crisp[0] == pytest.approx(0.09079, rel=1e-4)
    assert crisp[0] == pytest.approx(_pc_slope(1.0, 10.0, 100), rel=1e-12)
    assert _pc_slope(0.5, 10.0, 100) == pytest.approx(500.0)


def test_T1_8_the_hard_map_is_flat_where_the_surrogate_is_not() -> None:
    def hard(flag: float) -> int:
        return int(VALUE.branch(0xF000, round(flag), 100, 1, 10.0))

    assert hard(0.9) == hard(1.0) == hard(1.1)
    assert hard(-0.1) == hard(0.0) == hard(0.1)


def test_T1_9_the_switch_leaves_no_trace(space_invaders: vcs.Trace) -> None:
    exact = soft.replay(space_invaders)
    first = exact().ram
    soft.replay(space_invaders, alpha=1.0, T=5.0)()
    third = exact().ram
    assert np.array_equal(first, third)


def test_T1_9_the_switch_of_the_hard_machine_leaves_no_trace() -> None:
    def run(m: vcs.Machine) -> bytes:
        for _ in range(5):
            m.step(0)
        return m.ram.tobytes() + m.screen.tobytes()

    m = vcs.Machine("glass")
    m.reset()
    start = m.snapshot()
    first = run(m)
    m.restore(start)
    m.relax(1.0, 5.0)
    run(m)
    m.relax()
    m.restore(start)
    assert run(m) == first


# ------------------------------------------------------------------------------------------ Theorem 2


def test_T2_1_loser_mass_of_the_dispatch() -> None:
    K, gap, T = 256, 1.0, 0.1
    logits = np.zeros(K)
    logits[17] = gap
    losers = 1 - ops.select(logits, np.eye(K), T)[17]
    bound = (K - 1) * math.exp(-gap / T)
    assert losers == pytest.approx(0.011444, abs=5e-7)
    assert bound == pytest.approx(0.011577, abs=5e-7)
    assert losers <= bound


def test_T2_2_error_of_the_gate() -> None:
    error = ops.gate(-1.0, 6.0)
    assert error == pytest.approx(0.0024726, abs=5e-8)
    assert math.exp(-6) == pytest.approx(0.0024788, abs=5e-8)
    for alpha, m in itertools.product((0.5, 2.0, 6.0, 20.0), (0.1, 0.5, 1.0)):
        assert ops.gate(-m, alpha) <= math.exp(-alpha * m)


def test_T2_3_pull_of_the_relaxed_read() -> None:
    q = math.exp(-1 / 0.14)
    assert 2 * q / (1 + q) == pytest.approx(0.00157973, abs=1e-8)
    assert 255 * 2 * q / (1 + q) == pytest.approx(0.402832, abs=1e-6)
    assert 510 * q == pytest.approx(0.403150, abs=1e-6)
    # the window of four on each side loses less than the infinite sum above
    for T in (0.05, 0.1, 0.14, 0.2):
        w = ops.read_weights(T, relax.WINDOW)
        assert w.sum() == pytest.approx(1.0)
        q = math.exp(-1 / T)
        assert 1 - w[0] <= 2 * q / (1 + q) + 1e-15


def test_T2_4_convergence() -> None:
    """log error against 1/T (read) and against alpha (branch) has slope -1."""
    for T in (0.15, 0.12, 0.1, 0.08):
        a, b = (1 - ops.read_weights(t, relax.WINDOW)[0] for t in (T, T * 0.99))
        slope = (math.log(b) - math.log(a)) / (1 / (T * 0.99) - 1 / T)
        assert slope == pytest.approx(-1, rel=0.01)
    for alpha in (6.0, 8.0, 10.0, 12.0):
        a, b = (ops.gate(-1.0, x) for x in (alpha, alpha + 0.01))
        assert (math.log(b) - math.log(a)) / 0.01 == pytest.approx(-1, rel=0.01)


@pytest.mark.parametrize("T", [0.14, 0.1443, 0.145, 0.15])
def test_T2_5_the_rounding_regime(T: float) -> None:
    """round(relaxed) is exact iff the pull is under 1/2: all 256^3 neighbourhoods for k = -1, 0, 1."""
    w0, w1 = ops.read_weights(T, 1)[:2]
    centre = np.arange(256.0)[:, None]
    both = np.arange(511.0)[None, :]  # left + right: all that the pull depends on
    pull = w1 * (both - 2 * centre)
    assert np.array_equal(np.rint(w0 * centre + w1 * both) == centre, np.abs(pull) < 0.5)


def test_T2_6_saturation() -> None:
    rows = RNG.normal(size=(256, 5))
    logits = np.zeros(256)
    logits[200] = 1e4
    assert np.array_equal(ops.select(logits, rows, 0.1), rows[200])
    assert ops.gate(1.0, 1000.0) == 1.0 and ops.gate(-1.0, 1000.0) == 0.0
    assert VALUE.relaxed_branch(0xF000, 1, 100, 1, 1000.0) == VALUE.branch(0xF000, 1, 100, 1, 1000.0)
    memory = RNG.integers(256, size=9).tolist()
    assert ops.relaxed_read(*memory, weights=ops.read_weights(0.01, 4)) == memory[0]


def test_soft_select_has_its_exact_derivative() -> None:
    logits, rows = RNG.normal(size=7), RNG.normal(size=(7, 3))
    j = jacobian(lambda u: VALUE.select(u, rows, 0.5))(logits)
    h = 1e-6
    numeric = np.stack(
        [
            (ops.select(logits + h * e, rows, 0.5) - ops.select(logits - h * e, rows, 0.5)) / (2 * h)
            for e in np.eye(7)
        ],
        axis=1,
    )
    assert np.allclose(j, numeric, atol=1e-8)
    jr = jacobian(lambda r: VALUE.select(logits, r, 0.5))(rows)
    w = ops.select(logits, np.eye(7), 0.5)
    assert np.allclose(jr, np.einsum("i,kl->kil", w, np.eye(3)))


# ----------------------------------------------------------------------------- vectors of section 2


@pytest.mark.parametrize(
    ("centre", "around", "T", "soft_value", "result"),
    [
        (255, 0, 0.14, 254.59717, 255),
        (255, 0, 0.1443, 254.50171, 255),
        (255, 0, 0.1444, 254.49932, 254),
        (255, 0, 0.15, 254.35178, 254),
        (0, 255, 0.145, 0.51522, 1),
    ],
)
def test_vectors_of_the_relaxed_read(
    centre: int, around: int, T: float, soft_value: float, result: int
) -> None:
    cells = [centre] + [around] * 8
    w = ops.read_weights(T, 4)
    assert float(w @ np.array(cells, float)) == pytest.approx(soft_value, abs=1e-5)
    assert ops.relaxed_read(*cells, weights=w) == result


@pytest.mark.parametrize(
    ("at", "delta", "alpha", "exact", "result"),
    [
        (0xFEA0, -5, 2.0, 0xFE9D, 0xFE9E),
        (0xFF49, -13, 3.0, 0xFF3E, 0xFF3F),
        (0xF524, 35, 4.0, 0xF549, 0xF548),
        (0xF879, 122, 5.0, 0xF8F5, 0xF8F4),
        (0xF879, 122, 5.5, 0xF8F5, 0xF8F5),
    ],
)
def test_vectors_of_the_relaxed_branch(at: int, delta: int, alpha: float, exact: int, result: int) -> None:
    assert VALUE.branch(at, 1, delta & 255, 1, alpha) == exact
    assert VALUE.relaxed_branch(at, 1, delta & 255, 1, alpha) == result


def test_derivative_of_the_relaxed_read() -> None:
    cells = RNG.integers(256, size=128).astype(float)
    w = ops.read_weights(0.14, 4)
    order = [0, -1, 1, -2, 2, -3, 3, -4, 4]

    def read(c: Any) -> Any:
        return VALUE.pack(VALUE.relaxed_read(*[VALUE.read(c, 60 + k) for k in order], weights=w))[0]

    expected = np.zeros(128)
    expected[[60 + k for k in order]] = w
    assert np.allclose(grad(read)(cells), expected)


# ----------------------------------------------------------------------------- corollary 5.1 and 5.2


def test_5_1_the_straight_through_gradient_is_the_surrogates() -> None:
    for flag, sense, delta, alpha in itertools.product((0, 1), (-1, 1), (-128, -5, 127), (2.0, 6.0)):
        z = sense * (2 * flag - 1)

        def surrogate(f: float, sense: int = sense, delta: int = delta, alpha: float = alpha) -> float:
            return ops.gate(sense * (2 * f - 1), alpha) * delta

        numeric = (surrogate(flag + 1e-6) - surrogate(flag - 1e-6)) / 2e-6

        def program(c: Any, sense: int = sense, delta: int = delta, alpha: float = alpha) -> Any:
            return VALUE.pack(VALUE.branch(0xF000, VALUE.number(c, 0), delta & 255, sense, alpha))[0]

        assert grad(program)(np.array([float(flag)]))[0] == pytest.approx(numeric, rel=1e-6)
        assert program(np.array([float(flag)])) == 0xF002 + (delta if z > 0 else 0)


def test_5_2_every_branch_is_exact_above_the_bound() -> None:
    """exact iff |delta| / (1 + exp(alpha)) < 1/2, and so for every displacement when alpha > ln 255."""
    assert math.log(255) == pytest.approx(5.54126, abs=1e-5)
    for alpha in (2.0, 4.0, 5.0, 5.5, math.log(255) - 1e-9, math.log(255) + 1e-9, 6.0):
        all_exact = True
        for displacement, flag in itertools.product(range(256), (0, 1)):
            delta = abs(displacement - 256 if displacement > 127 else displacement)
            exact = VALUE.relaxed_branch(0x8000, flag, displacement, 1, alpha) == VALUE.branch(
                0x8000, flag, displacement, 1, alpha
            )
            assert exact == (delta / (1 + math.exp(alpha)) < 0.5), (alpha, displacement)
            all_exact &= exact
        assert all_exact == (alpha > math.log(255))


def test_5_2_every_read_is_exact_below_the_bound() -> None:
    """The worst neighbourhood: 255 against 0 on every side. Exact below T*, not above."""
    assert pytest.approx(0.1443715, abs=1e-7) == CORNER
    for T in (0.05, 0.14, CORNER - 1e-7):
        w = ops.read_weights(T, relax.WINDOW)
        for centre in range(256):
            for around in (0, 255):
                assert ops.relaxed_read(centre, *[around] * 8, weights=w) == centre
    # 0.14445 lies above T* by more than the window of four loses
    assert ops.relaxed_read(255, *[0] * 8, weights=ops.read_weights(0.14445, relax.WINDOW)) == 254


def test_5_2_a_program_is_exact_inside_the_corner(space_invaders: vcs.Trace) -> None:
    soft.replay(space_invaders, mode="full", alpha=5.5413, T=0.14437)()


def test_relaxed_rom_is_the_relaxed_read_of_every_byte() -> None:
    rom = RNG.integers(256, size=8192, dtype=np.uint8)
    seen = relax.relaxed_rom(rom, 0.2)
    w = ops.read_weights(0.2, relax.WINDOW)
    for index in (0, 3, 4095, 4096, 5000, 8191):
        beside = [int(rom[n - vcs.layout.ROM]) for n in relax.neighbours(vcs.layout.ROM + index, 8192)]
        assert seen[index] == ops.relaxed_read(int(rom[index]), *beside, weights=w)


# ------------------------------------------------------------------------------------------ section 9


@pytest.mark.parametrize(
    ("alpha", "g", "slope", "relative"),
    [
        (2.0, 0.62246, 0.470007, 0.5252),
        (6.0, 0.81757, 0.894879, 1.0),
        (20.0, 0.99331, 0.132961, 0.1486),
    ],
)
def test_9_1_slope_of_the_gate(alpha: float, g: float, slope: float, relative: float) -> None:
    gate = ops.gate(0.25, alpha)
    mine = alpha * gate * (1 - gate)
    assert gate == pytest.approx(g, abs=1e-5)
    assert mine == pytest.approx(slope, abs=1e-6)
    six = ops.gate(0.25, 6.0)
    assert mine / (6 * six * (1 - six)) == pytest.approx(relative, abs=1e-4)


def test_9_1_the_steepest_gate() -> None:
    alphas = np.linspace(5, 8, 30001)
    slopes = np.array([a * ops.gate(0.25, a) * (1 - ops.gate(0.25, a)) for a in alphas])
    assert alphas[slopes.argmax()] == pytest.approx(6.174, abs=1e-3)
    assert slopes.max() == pytest.approx(0.895486, abs=1e-6)


@pytest.mark.parametrize(
    ("alpha", "peak", "relative"), [(2.0, 0.46996, 0.5250), (6.0, 0.89510, 1.0), (20.0, 0.13639, 0.1524)]
)
def test_9_1_peak_of_the_scene(alpha: float, peak: float, relative: float) -> None:
    """Two placements of a sprite blended by the gate; central difference with step 0.02 at z = 0.25."""

    def image(z: float) -> Any:
        g = ops.gate(z, alpha)
        scene = np.zeros((80, 140))
        scene[29:45, 55:63] += 1 - g
        scene[29:45, 83:91] += g
        return scene

    step = 0.02
    peak_here = np.abs((image(0.25 + step) - image(0.25 - step)) / (2 * step)).max()
    assert peak_here == pytest.approx(peak, abs=5e-6)
    assert peak_here / 0.89510 == pytest.approx(relative, abs=5e-3)


@pytest.mark.parametrize(
    ("T", "spread", "largest"), [(2.0, 6.0, 0.0665), (0.5, 3.0, 0.1330), (0.1, 1.342, 0.2974)]
)
def test_9_3_spread_of_the_temperature(T: float, spread: float, largest: float) -> None:
    columns = np.arange(30, 111).astype(float)
    w = ops.select(-(((columns - 70) / 6) ** 2), np.eye(len(columns)), T)
    mean = w @ columns
    assert math.sqrt(w @ (columns - mean) ** 2) == pytest.approx(spread, abs=5e-3)
    assert w.max() == pytest.approx(largest, abs=5e-5)


# --------------------------------------------------------------------------------- the sampler of 2.8


def test_2_8_the_sampler_has_the_symmetric_derivative(rom: Callable[[str], Any]) -> None:
    """d occ(c) / d px = (foot(c-1) - foot(c+1)) / 2, the hard footprint's central difference."""
    from vcs.soft import tia

    rom("space_invaders")
    m = vcs.Machine("space_invaders")
    m.reset()
    t = m.trace([0])
    columns = np.arange(160)
    values = [0] * len(tia.PARAMETERS)
    for name, number in {"COLUP0": 0x40, "GRP0": 0b10110001, "pos P0": 50}.items():
        values[tia.PARAMETERS.index(name)] = number
    at = tia.PARAMETERS.index("pos P0")
    for nusiz in (0, 3, 5, 7):
        segment = t.segments[:1].copy()
        for field in ("vblank", "comb", "ctrlpf", "reflect", "m0mode"):
            segment[field] = 0
        segment["colu"], segment["skip"], segment["nusiz"] = 0, 0, (nusiz, 0)
        scene = tia.Scene.of(segment[0], columns)
        for position in (0, 50, 155):
            values[at] = position
            slope = sum(p.slope for p in tia.slopes(tuple(values), scene) if p.parameter == at)
            left, right = list(values), list(values)
            left[at], right[at] = (position - 1) % 160, (position + 1) % 160
            central = (tia.draw(tuple(right), scene) - tia.draw(tuple(left), scene)) / 2
            assert np.array_equal(slope, central)


def test_a_cell_is_an_int() -> None:
    assert Cell(255) + 1 == 256 and isinstance(Cell(1), int)
