"""The RIOT against measured vectors: timer reads at every distance, rebasing, ports, and whole programs."""

from __future__ import annotations

from typing import Any

import pytest

import vcs
from conformance.vectors import load
from vcs._hard.machine import Core, bus_access, rebase_cycles
from vcs.cart import MAPPERS

pytestmark = pytest.mark.filterwarnings("ignore:.*no game rules")  # the programs are nobody's game

DATA = load("riot_vectors")
READS = {"INTIM": 0x284, "TIMINT": 0x285}
START = 1000  # cycle of the timer write in the register tests


def program(code: str, patches: dict[int, int]) -> bytes:
    """The 4 KiB image the vectors describe: filled with NOP, code at $F000, vectors to it."""
    image = bytearray(b"\xea" * 4096)
    image[: len(code) // 2] = bytes.fromhex(code)
    for offset, value in patches.items():
        image[offset] = value
    image[0xFFC:0x1000] = b"\x00\xf0\x00\xf0"
    return bytes(image)


@pytest.fixture(scope="module")
def core() -> Core:
    return Core(program("4c00f0", {}), MAPPERS["4K"], ale=False, format=1)


@pytest.mark.parametrize("v", DATA["first_read"], ids=lambda v: f"{v['write_address']}_{v['N']}")
def test_first_read_after_a_write(core: Core, v: dict[str, Any]) -> None:
    address = int(v["write_address"], 16)
    intim, before, after = [], "", ""
    for d in range(v["d_first"], v["d_last"] + 1):
        bus_access(core, address, v["N"], START)
        for register in ("TIMINT", "INTIM", "TIMINT"):
            value = bus_access(core, READS[register], cycle=START + d)
            if register == "INTIM":
                intim.append(value)
            elif len(intim) < d - v["d_first"] + 1:
                before += str(value >> 7)
            else:
                after += str(value >> 7)
    assert bytes(intim).hex() == v["intim"]
    assert before == v["timint_before"]
    assert after == v["timint_after"]


@pytest.mark.parametrize("v", DATA["sequences"], ids=lambda v: f"{v['write_address']}_{v['N']}")
def test_sequences(core: Core, v: dict[str, Any]) -> None:
    bus_access(core, int(v["write_address"], 16), v["N"], START)
    found = [[d, r, bus_access(core, READS[r], cycle=START + d)] for d, r, _ in v["events"]]
    assert found == v["events"]


@pytest.mark.parametrize("n", [0, 1, 0x45, 0xFF])
@pytest.mark.parametrize(("address", "shift"), [(0x294, 0), (0x295, 3), (0x296, 6), (0x297, 10)])
def test_intim_in_the_cycle_of_the_write(core: Core, address: int, shift: int, n: int) -> None:
    """What an opcode fetched right behind the write sees: the cycles that the timer runs, and no side effect
    (measured with programs in ale-py; tests/fuzz/found/ale-* are some)."""
    bus_access(core, address, n, START)
    assert bus_access(core, READS["INTIM"], cycle=START) == n << shift & 255
    after = START + (n << shift) + 2  # the first read that stops the timer
    assert bus_access(core, READS["TIMINT"], cycle=after) == 0x80
    assert bus_access(core, READS["INTIM"], cycle=after) == (0xFD if shift == 0 else 0xFE)


@pytest.mark.parametrize("rebased", [False, True], ids=["no_rebase", "rebased"])
@pytest.mark.parametrize("v", DATA["rebase"], ids=lambda v: f"{v['write_address']}_{v['N']}")
def test_rebasing_is_invisible(core: Core, v: dict[str, Any], rebased: bool) -> None:
    bus_access(core, int(v["write_address"], 16), v["N"], START)
    origin = START  # cycle of the timer write on the counter's present scale
    found = []
    for step, (d, register, _) in enumerate(v["events"]):
        if rebased and step % 2 == 0 and v["rebase_before_read"][step // 2]:
            bus_access(core, 0x80, cycle=origin + d)
            rebase_cycles(core)
            origin = -d
        cycle = origin + d
        found.append([d, register, bus_access(core, READS[register], cycle=cycle)])
    assert found == v["events"]


@pytest.mark.parametrize("v", DATA["cpu_roms"], ids=lambda v: v["name"])
@pytest.mark.parametrize("protocol", ["xitari", "ale"])
def test_programs(v: dict[str, Any], protocol: str) -> None:
    m = vcs.Machine(program(v["code_at_F000"], {0xD00: 1}), protocol=protocol)
    expected = bytes.fromhex(v["ram_80_expected"])
    assert m.ram.tobytes()[: len(expected)].hex() == expected.hex()


@pytest.mark.parametrize("protocol", ["xitari", "ale"])
def test_boots(protocol: str) -> None:
    v = DATA["boot_rom"]
    states = v["xitari" if protocol == "xitari" else "ale_py"]
    m = vcs.Machine(program(v["code_at_F000"], {0x900: 1}), protocol=protocol)
    found = [m.ram.tobytes()[:8].hex()]
    for _ in states[1:]:
        m.reset()
        found.append(m.ram.tobytes()[:8].hex())
    assert found == states


def test_ale_power_on() -> None:
    v = DATA["ale_py_power_on"]
    core = Core(program("4c00f0", {}), MAPPERS["4K"], ale=True, format=1, system_seed=v["seed"])
    assert core.ram.tobytes().hex() == v["riot_ram"]
    # a fixed format needs no probe: construction draws once for the RIOT itself, then at the console's reset
    found = [core.riot()["n"]]
    for _ in v["timer_values"][2:]:
        core.system_reset()
        found.append(core.riot()["n"])
    assert found == v["timer_values"][1:]


@pytest.mark.parametrize("protocol", ["xitari", "ale"])
def test_ports(protocol: str) -> None:
    m = vcs.Machine("pitfall", protocol=protocol)
    key = "xitari" if protocol == "xitari" else "ale_py"
    for v in DATA["swcha_by_action"]:
        m.set_inputs(v["action"])
        assert bus_access(m, 0x280) == v[key], v["action"]
    m.set_inputs(0)
    assert bus_access(m, 0x282) == DATA["swchb"]["idle_default_properties"]
    m.set_inputs(0, keys=1)
    assert bus_access(m, 0x282) == DATA["swchb"]["reset_pressed"]
    bus_access(m, 0x281, 0xFF)
    bus_access(m, 0x280, 0x5A)
    m.set_inputs(0)
    assert bus_access(m, 0x280) == 0xFF  # neither the direction register nor a store matters (riot.md 3)


def test_switches_follow_the_difficulty() -> None:
    m = vcs.Machine("pitfall")
    for v in DATA["swchb_by_ale_difficulty"]:
        m.difficulty = v["difficulty"]
        m.step(0)
        assert bus_access(m, 0x282) == v["swchb"]
