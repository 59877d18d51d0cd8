"""Power-on, boot, inputs and agent steps under both protocols (spec/environment.md, spec/riot.md 5)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vcs import Machine, VcsError, machine
from vcs._hard.machine import Core
from vcs.cart import MAPPERS
from vcs.games import get_game

Rom = Callable[[str], Any]
SWCHA, SWCHB = 0x0280, 0x0282
# riot.md 5.5
RAM0 = bytes.fromhex("b896c049cb55c87ffbb445662b3410cab9ceff8f4f44a18a04c5cdfc75e70aad")
TIMERS = [51, 32, 74, 65, 64, 78, 39, 92]


def quiet(**options: Any) -> Core:
    """A console that has run no instruction: the format is given, so there is no probe."""
    return Core(bytes(4096), MAPPERS["4K"], format=1, **options)


# --------------------------------------------------------------------------------------- power-on


def test_power_on_ram() -> None:
    assert quiet().ram.tobytes()[:32] == RAM0
    assert not quiet(ale=False).ram.any()
    assert quiet(system_seed=7).ram.tobytes()[:32] != RAM0


def test_timer_values_of_the_system_stream() -> None:
    core = quiet()
    got = [core.riot()["n"]]
    for _ in TIMERS[1:]:
        core.system_reset()
        got.append(core.riot()["n"])
    assert got == TIMERS
    core = quiet(ale=False)
    core.system_reset()
    assert core.riot()["n"] == 25


@pytest.mark.parametrize(
    ("mapper", "size", "ram", "third"),
    [
        ("F8SC", 8192, 128, "6de0422b0d155e90b81ec35ea665df21"),
        ("FASC", 12288, 256, "79298a9e6846f198eb28cd7349d2648d"),
        ("CV", 2048, 1024, "b65ab1e8e381d330356695bd043368c6"),
        ("E7", 16384, 2048, "d491ca33dfa3e2a21db5789c1ad55ed4"),
        ("3E", 8192, 32768, "4e40005864270a946f66c60c68ced418"),
    ],
)
def test_cartridge_ram_at_power_on(mapper: str, size: int, ram: int, third: str) -> None:
    """cartridges.md 3: refilled at every reset (ale), filled once (xitari)."""
    core = Core(bytes(size), MAPPERS[mapper], format=1)
    core.system_reset()
    core.system_reset()
    assert len(core.cart_ram) == ram
    assert core.cart_ram.tobytes()[:16] == bytes.fromhex(third)
    core = Core(bytes(size), MAPPERS[mapper], format=1, ale=False)
    first = core.cart_ram.tobytes()
    assert first[:8] == bytes.fromhex("a95ffeea06a1f973")
    core.system_reset()
    assert core.cart_ram.tobytes() == first


def test_format_decides_height_and_colour_loss() -> None:
    for number, rows, pal in ((1, 210, False), (2, 250, True), (3, 250, False)):
        core = Core(bytes(4096), MAPPERS["4K"], format=number)
        assert (core.rows, core.pal) == (rows, pal)
    assert Core(bytes(4096), MAPPERS["4K"], format=2, height=214).rows == 214


# ----------------------------------------------------------------------------------------- inputs


def test_joystick_lines(rom: Rom) -> None:
    """riot.md 3: SWCHA for actions 0..17, player A in the left port, and swapped (wizard_of_wor)."""
    want = bytes.fromhex("FF FF EF 7F BF DF 6F AF 5F 9F EF 7F BF DF 6F AF 5F 9F")
    core = quiet()
    for action, byte in enumerate(want):
        core.set_inputs(action)
        assert core.peek(SWCHA) == byte
    core.set_inputs(0, 4)
    assert core.peek(SWCHA) == 0xFB
    swapped = Machine(rom("wizard_of_wor"))
    swapped.step(2)
    assert swapped.peek(SWCHA) == 0xFE


def test_surround_is_swapped_in_ale_only(rom: Rom) -> None:
    for protocol, byte in (("ale", 0xFE), ("xitari", 0xEF)):
        m = Machine(rom("surround"), protocol=protocol)
        m.step(2)
        assert m.peek(SWCHA) == byte


def test_console_switches(rom: Rom) -> None:
    core = quiet()
    for keys, byte in ((0, 0x3F), (1, 0x3E), (2, 0x3D)):
        core.set_inputs(0, keys=keys)
        assert core.peek(SWCHB) == byte
    for difficulty, byte in enumerate((0x3F, 0x7F, 0xBF, 0xFF)):
        core.difficulty = difficulty
        core.set_inputs(0)
        assert core.peek(SWCHB) == byte
    for protocol, byte in (("xitari", 0xFF), ("ale", 0x3F)):  # D5
        m = Machine(rom("amidar"), protocol=protocol)
        m.step(0)
        assert m.peek(SWCHB) == byte


def test_paddle_sequence(rom: Rom) -> None:
    """environment.md 5.4, breakout."""
    m = Machine(rom("breakout"))
    assert m.paddle == (408823, 408823)
    for action, position, button in (
        (3, 385823, 1), (4, 408823, 1), (11, 385823, 0), (12, 408823, 0), (6, 385823, 1), (9, 408823, 1),
    ):  # fmt: skip
        m.step(action)
        assert (m.paddle[0], m.peek(SWCHA) >> 7) == (position, button)
    for _ in range(40):
        m.step(3)
    assert m.paddle[0] == 27450
    for _ in range(60):
        m.step(4)
    assert m.paddle[0] == 790196
    m.reset()
    assert m.paddle == (408823, 408823)


def test_pong_swaps_its_paddles(rom: Rom) -> None:
    m = Machine(rom("pong"))
    m.step(11)
    assert m.peek(SWCHA) == 0xBF  # the button of paddle 1 is bit 6


@pytest.mark.parametrize(
    ("strength", "step"),
    [(0.7, 16099), (0.3, 6900), (0.9, 20699), (0.95, 21849), (0.21, 4829), (0.1, 2300), (0.001, 23),
     (-0.5, 11500), (2.0, 46000), (0.0, 0), (float("nan"), 0), (float("inf"), 408823 - 27450),
     (1e30, 408823 - 27450)],
)  # fmt: skip
def test_paddle_strength(strength: float, step: int, rom: Rom) -> None:
    m = Machine(rom("breakout"))
    m.step(3, strength)
    assert 408823 - m.paddle[0] == step


def test_paddle_limits(rom: Rom) -> None:
    assert Machine(rom("backgammon")).paddle[0] == 513725
    assert Machine(rom("blackjack")).paddle[0] == 411225
    assert Machine(rom("breakout"), paddle_min=0, paddle_max=1001).paddle[0] == 500


def test_illegal_actions_are_noop(rom: Rom) -> None:
    m = Machine(rom("skiing"))
    m.step(1)
    assert m.peek(SWCHA) == 0xFF
    m.step(10)  # UPFIRE is illegal as a whole
    assert m.peek(SWCHA) == 0xFF


# ------------------------------------------------------------------------------------------ steps


def test_sticky_stream(rom: Rom) -> None:
    """environment.md 6.3: seed 42, p 0.25; the frames whose action is taken."""
    m = Machine(rom("seaquest"), seed=42, repeat_action_probability=0.25)
    taken, before = "", 0xFF
    for k in range(20):
        m.step(2 + k % 4)  # UP, RIGHT, LEFT, DOWN in turn, so that a repeated action shows
        after = m.peek(SWCHA)
        taken += "1" if after == (0xEF, 0x7F, 0xBF, 0xDF)[k % 4] else "0"
        assert taken[-1] == "1" or after == before
        before = after
    assert taken == "11110001110110001111"


def test_xitari_returns_the_last_reward_again(rom: Rom) -> None:
    """environment.md 6.1: pong idle ends at frame 3056 with -1."""
    m = Machine(rom("pong"), protocol="xitari")
    total = 0.0
    while not m.game_over:
        last = m.step(0)
        total += last
    assert (m.frame, last, total) == (3056, -1.0, -21.0)
    ram = m.ram
    assert [m.step(0) for _ in range(3)] == [-1.0] * 3
    assert m.frame == 3056 and (m.ram == ram).all()


def test_ale_returns_zero_after_the_end(rom: Rom) -> None:
    m = Machine(rom("pong"))
    while not m.game_over:
        m.step(0)
    frame, ram = m.frame, m.ram
    assert m.step(3) == 0.0 and m.frame == frame and (m.ram == ram).all()
    m.reset()
    assert m.episode_frame == 0 and m.frame == frame and not m.game_over


def test_truncation_counts_frames(rom: Rom) -> None:
    m = Machine(rom("pong"), frame_skip=4, max_num_frames_per_episode=10)
    counts = []
    for _ in range(4):
        m.step(0)
        counts.append(m.episode_frame)
    assert counts == [4, 8, 10, 10] and m.truncated and not m.game_over


def test_truncation_on_loss_of_life(rom: Rom) -> None:
    """environment.md 6.4: lives are compared with those before the first reset."""
    for game in ("amidar", "bank_heist", "demon_attack", "turmoil"):
        assert Machine(rom(game), truncate_on_loss_of_life=True).truncated
    m = Machine(rom("breakout"), truncate_on_loss_of_life=True)
    while not m.truncated:
        m.step(1)
    assert m.lives == 4 and not m.game_over


def test_reward_clamp(rom: Rom) -> None:
    free, clamped = (Machine(rom("pong"), frame_skip=800, reward_min=low) for low in (-(2**31), -1))
    assert free.step(0) < -1 and clamped.step(0) == -1


def test_frames_of_mode_rules_count(rom: Rom) -> None:
    """environment.md 6.5."""
    for game, frames in {
        "air_raid": 8, "backgammon": 2, "basic_math": 5, "berzerk": 20, "double_dunk": 13, "lost_luggage": 38,
        "name_this_game": 134, "pooyan": 1, "surround": 1, "pong": 0,
    }.items():  # fmt: skip
        m = Machine(rom(game))
        assert (m.frame, m.episode_frame) == (frames, frames), game
        m.reset()
        assert m.frame == 2 * frames, game


def test_frame_skip_reaches_into_the_boot(rom: Rom) -> None:
    """environment.md 4.1: acts of a mode rule obey frame_skip (berzerk: 20 acts)."""
    assert Machine(rom("berzerk"), frame_skip=4).frame == 80


def test_mode_and_difficulty_survive_resets(rom: Rom) -> None:
    m = Machine(rom("breakout"), mode=8, difficulty=1)
    m.reset()
    assert (m.mode, m.difficulty, m.ram[50]) == (8, 1, 8)
    with pytest.raises(VcsError, match="no mode 7"):
        Machine(rom("breakout"), mode=7)


def test_unknown_images_play_without_rewards() -> None:
    machine._warn_unknown.cache_clear()  # another test may have used up the one warning of this name
    with pytest.warns(UserWarning, match="no game rules"):
        m = Machine(bytes(2048) + b"\x4c\x00\xf0" + bytes(2041) + b"\x00\xf8\x00\xf8")
    m.reset()
    assert m.step(1) == 0.0 and m.lives == 0 and not m.game_over and m.game is None


def test_rules_of_the_default_mode() -> None:
    assert get_game("air_raid").rules().default_mode == 1


@pytest.mark.parametrize("protocol", ["ale", "xitari"])
def test_boots_on_threads_are_the_same(protocol: str, rom: Rom) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def play(_: int) -> bytes:
        m = Machine(rom("seaquest"), protocol=protocol, seed=1)
        m.reset()
        m.run(np.arange(300, dtype=np.int32) % 18)
        return bytes(m.ram.tobytes() + m.screen.tobytes())

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(play, range(8)))) == 1


def test_colour_switch_and_second_player(rom: Rom) -> None:
    """environment.md 5.5: the switch stays where it is put. Player B holds the other port."""
    m = Machine(rom("space_invaders"))
    m.step(0)
    assert m.colour and m.peek(SWCHB) == 0x3F
    m.colour = False
    m.step(0)
    assert m.peek(SWCHB) == 0x37
    m.set_inputs(3, 12, keys=1)
    m.run_frame()
    assert (m.peek(SWCHA), m.peek(SWCHB)) == (0x7B, 0x36)


def test_actions_may_be_read_only() -> None:
    """An array that somebody else owns, such as one from a file that is mapped into memory."""
    actions = np.zeros(3, np.int32)
    actions.flags.writeable = False
    played = Machine("glass")
    assert played.run(actions).tolist() == [0, 0, 0]
    assert len(played.trace(actions).frames) == 3
    assert len(played.record(actions)["rewards"]) == 3
