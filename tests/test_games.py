"""The games' rules: the table, the compiler, and the program that the machine runs (spec/games.md)."""
from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vcs import Machine, VcsError, games
from vcs._hard.machine import Core, run_program
from vcs.cart import MAPPERS
from vcs.data import load_json
from vcs.games import H_INIT, H_RESET, H_STEP, Interpreter

# The programs need RAM and, for klax, cartridge RAM, which this mapper has at $F080 (cartridges.md 2).
BLANK = bytes(16384)
CART_RAM = 0xF080


def console(rules: games.Rules) -> Core:
    """A machine that only runs the program: no cartridge code, RAM and cartridge RAM all 0."""
    core = Core(BLANK, MAPPERS["F6SC"], ale=rules.protocol == "ale", format=1, program=rules.program)
    for i in range(128):
        core.poke_ram(i, 0)
        core.poke_cart_ram(i, 0)
    run_program(core, H_INIT)
    return core


@pytest.mark.parametrize("name", games.game_names())
def test_program_vectors(name: str, vectors: Callable[[str], Any]) -> None:
    """spec/games.md 9: reward, over and lives as the reference computed them."""
    rules = games.get_game(name).rules()
    core = console(rules)
    ram, cart = [0] * 128, bytearray(128)
    plain = Interpreter.of(rules, lambda address: cart[address - CART_RAM])
    for entry in vectors("games_vectors")[name]["program"]:
        for index, value in entry["set"].items():
            core.poke_ram(int(index), value)
            ram[int(index)] = value
        for address, value in entry.get("bus", {}).items():
            core.poke_cart_ram(int(address, 16) - CART_RAM, value)
            cart[int(address, 16) - CART_RAM] = value
        assert list(run_program(core, H_STEP)) == entry["out"]
        assert list(plain.step(ram)) == entry["out"]
        if entry.get("then_reset"):
            run_program(core, H_RESET)
            plain.reset()


@pytest.mark.parametrize("protocol", ["ale", "xitari"])
@pytest.mark.parametrize("name", games.game_names())
def test_compiled_equals_interpreted(name: str, protocol: str) -> None:
    rules = games.get_game(name).rules(protocol)
    core = console(rules)
    plain = Interpreter.of(rules, lambda address: 0)
    rng = random.Random(name)
    assert rules.program[games.H_LIVES] == plain.lives
    for step in range(60):
        ram = [rng.choice((0, 1, 2, 128, 255, rng.randrange(256))) for _ in range(128)]
        for index, value in enumerate(ram):
            core.poke_ram(index, value)
        assert run_program(core, H_STEP) == plain.step(ram)
        if step % 20 == 19:
            run_program(core, H_RESET)
            plain.reset()


@pytest.mark.parametrize("name", games.game_names())
def test_every_mode_can_be_reached(
    name: str, vectors: Callable[[str], Any], rom: Callable[[str], Any]
) -> None:
    """spec/games.md 9, `after_reset`: RAM, lives, over and the frame counter after a reset in each mode."""
    for want in vectors("games_vectors")[name]["after_reset"]:
        # the vectors were measured one load each, with the mode's reset as the second boot
        machine = Machine(rom(name))
        machine.mode = want["mode"]
        machine.reset()
        assert f"{zlib.crc32(machine.ram.tobytes()):08x}" == want["ram_crc32"], want
        got = (machine.lives, int(machine.over), machine.episode_frame)
        assert got == (want["lives"], want["over"], want["episode_frame"]), want


def test_table_agrees_with_the_properties() -> None:
    table = load_json("properties.json")["roms"]
    for name, game in games.load_games().items():
        for protocol in ("ale", "xitari"):
            if protocol == "xitari" and not game.in_xitari:
                continue
            rules = game.rules(protocol)
            assert list(rules.minimal_actions) == table[name]["minimal_actions"][protocol], (name, protocol)
            assert list(rules.legal_actions) == table[name]["legal_actions"][protocol], (name, protocol)
        assert game.md5 == table[name]["md5"]
        assert list(game.rules().modes) == table[name]["ale_modes"]
        assert list(game.rules().difficulties) == table[name]["ale_difficulties"]
        assert game.rules().program[games.H_LIVES] == game.entry["lives_before_first_frame"]


def test_action_names() -> None:
    codes = load_json("games.json")["action_codes"]
    assert {a.name: a.value for a in games.Action} == {k: v for k, v in codes.items() if v < 18}


def test_finding_games() -> None:
    pong = games.get_game("pong")
    assert games.find_game(md5=pong.md5.upper()) is pong
    assert games.find_game(stem="Pong") is pong
    assert games.find_game(md5="0" * 32, stem="pong") is pong
    assert games.find_game(md5="0" * 32, stem="combat") is None
    assert games.find_game() is None
    with pytest.raises(VcsError, match="did you mean pong"):
        games.get_game("pongg")
    with pytest.raises(VcsError, match="'ale' or 'xitari'"):
        pong.rules("stella")


def test_xitari_lacks_forty_games() -> None:
    lacking = [g for g in games.load_games().values() if not g.in_xitari]
    assert len(lacking) == 40
    rules = lacking[0].rules("xitari")
    assert rules.minimal_actions == tuple(range(18)) and rules.starting_actions == () and rules.lives == 0


@pytest.mark.parametrize(
    ("why", "step"),
    [
        ("RAM index 128", [["reward", ["R", 128]]]),
        ("read before", [["reward", "nobody"]]),
        ("not an operation", [["reward", ["xor", 1, 2]]]),
        ("not an operation", [["reward", ["+", 1]]]),
        ("not an operation", [["reward", ["rand"]]]),
        ("not an expression", [["reward", 1.5]]),
        ("not an expression", [["reward", []]]),
        ("does not fit", [["reward", 2**31]]),
        ("more than 40 variables", [[f"v{i}", 0] for i in range(40)]),
        ("values at once", [["reward", ["bcd", *([["+", 0, 1]] * 65)]]]),
    ],
)
def test_bad_rules_are_refused(why: str, step: list[Any]) -> None:
    with pytest.raises(VcsError, match=why):
        games.compile_rules(
            "home-brew", state={"reward": 0}, persistent_state={}, step=step, game_over=0, lives=0)


def test_rules_need_a_reward() -> None:
    with pytest.raises(VcsError, match="'reward'"):
        games.compile_rules("home-brew", state={}, persistent_state={}, step=[], game_over=0, lives=0)


def test_damaged_programs_do_no_harm() -> None:
    """Whatever the words behind the header: the run ends and memory is safe (VCS_SANITIZE=1 watches)."""
    rng = random.Random(5)
    base = games.get_game("video_cube").rules().program
    refused = 0
    for _ in range(400):
        words = base.copy()
        for _ in range(rng.randrange(1, 12)):
            words[rng.randrange(2, len(words))] = rng.choice(
                (rng.randrange(45), rng.randrange(-9, 600), rng.randrange(-(2**31), 2**31)))
        core = Core(BLANK, MAPPERS["F6SC"], format=1, program=words)
        for entry in (H_INIT, H_RESET, H_STEP):
            try:
                run_program(core, entry)
            except VcsError:
                refused += 1
    assert refused > 100
    for bad in (np.zeros(0, np.int32), np.zeros(5, np.int32), base[:-1]):
        with pytest.raises(VcsError, match="header"):
            Core(BLANK, MAPPERS["F6SC"], format=1, program=bad)


def test_a_mode_that_is_never_reached_ends(rom: Callable[[str], Any]) -> None:
    """A mode rule watches RAM: with RAM that never shows the mode, the boot gives up instead of hanging."""
    machine = Machine(rom("breakout"))
    machine.mode = 1000  # no byte is 1000
    with pytest.raises(VcsError, match="never reached"):
        machine.reset()
    machine.mode = 4
    machine.reset()
    assert machine.lives == 5
