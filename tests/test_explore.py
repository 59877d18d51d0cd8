"""The explorer: its tape, chains and explanations; who its server lets in; and the page in a real browser.

The browser tests drive Debian's Chromium through playwright. With VCS_EXPLORE_IMAGES=docs/images they write
the screenshots of docs/explorer.md.
"""

from __future__ import annotations

import base64
import csv
import http.client
import io
import json
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

import vcs
from vcs import layout, roms
from vcs.errors import VcsError
from vcs.explore import chain, explain, protocol
from vcs.explore.explain import Moment, Target
from vcs.explore.server import HEADERS, MOST_TABS, Server, application, assets
from vcs.explore.tape import RECENT, Poke, Tape
from vcs.gradient import RULES

TOKEN = "a-token-for-the-tests-0123456789"
PADDLE = 121, 17  # a pixel of Pong's left paddle after 60 frames
CANNON = 190, 36  # a pixel of Space Invaders' cannon after 400 frames
DIGIT = 10, 40  # a pixel of Pong's left score after 258 frames

pytestmark = pytest.mark.filterwarnings("ignore:.*has no game rules")


def tape(game: str, frames: int) -> Tape:
    made = Tape(roms.find(game))
    for _ in range(frames):
        made.step()
    return made


def moment(t: Tape, horizon: int) -> Moment:
    start = t.start(horizon)
    return Moment(t.at(start), t.actions[start : t.end], t.trace(horizon))


# ---------------------------------------------------------------- the tape


def test_rewind_is_exact() -> None:
    t = Tape(roms.find("glass"))
    rng = np.random.default_rng(0)
    seen = []
    for action in rng.integers(0, 18, 3 * RECENT).tolist():
        seen.append((t.machine.ram.tobytes(), t.machine.screen.tobytes(), t.machine.cpu()))
        t.step(action)
    assert len(t._snapshots) < 1.5 * RECENT
    for frame in [0, 191, 5, 100, 99, 98, 17, 150, *rng.integers(0, 192, 20).tolist()]:
        t.seek(frame)
        assert (t.machine.ram.tobytes(), t.machine.screen.tobytes(), t.machine.cpu()) == seen[frame]


def test_snapshots_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcs.explore.tape.SNAPSHOTS", 80)
    t = tape("glass", 1500)
    assert len(t._snapshots) <= 80
    screen = t.machine.screen.tobytes()
    t.seek(700)
    t.seek(1500)
    assert len(t._snapshots) <= 80 and t.machine.screen.tobytes() == screen


def test_stepping_into_a_frame_ends_where_the_frame_ends() -> None:
    t = tape("glass", 10)
    t.step(3)
    after = t.machine.ram.tobytes(), t.machine.screen.tobytes()
    t.seek(10)
    t.enter(1)
    assert t.instruction == 1 and t.frame == 10 and t.end == 11
    line = t.clock()[0]
    t.enter_line(30)
    assert t.clock()[0] == line + 30
    t.enter_line(-10)
    assert t.clock()[0] == line + 20
    while t.instruction:
        t.enter(min(t.instruction + 700, t.instructions))
    assert t.frame == 11 and (t.machine.ram.tobytes(), t.machine.screen.tobytes()) == after
    t.seek(10)
    t.enter(50)
    t.step()
    assert t.frame == 11 and t.machine.ram.tobytes() == after[0]


def test_pokes_act_and_can_be_taken_back() -> None:
    t = tape("glass", 40)
    plain = t.machine.ram.tobytes()
    t.seek(20)
    t.poke(layout.RAM + 5, 0xA5)
    t.poke(layout.ROM + 3, 0x00)
    assert t.machine.ram[5] == 0xA5 and t.machine.rom[3] == 0 and len(t) == 40
    assert t.start(15) == 5 and t.end == 20
    t.seek(19)
    assert t.machine.rom == t.rom  # before the poke the cartridge is whole
    t.seek(25)
    assert t.machine.rom[3] == 0 and t.start(15) == 20
    t.unpoke(1)
    t.unpoke(0)
    t.seek(40)
    assert t.machine.ram.tobytes() == plain and t.machine.rom == t.rom


def test_a_new_action_in_the_past_replaces_the_future() -> None:
    t = tape("glass", 30)
    t.seek(10)
    t.step()
    assert len(t) == 30  # the tape's own action
    t.step(1)
    assert len(t) == 12 and t.actions[-1] == 1 and t.news()["from"] == 0
    t.step(2)
    assert t.news() == {"from": 12, "actions": [2], "pokes": []}


def test_a_remembered_tape_is_built_again() -> None:
    t = tape("glass", 50)
    t.seek(30)
    t.poke(7, 99)
    t.seek(50)
    other = Tape(roms.find("glass"))
    other.load(t.actions, t.pokes, 50)
    assert other.machine.screen.tobytes() == t.machine.screen.tobytes() and other.frame == 50
    for actions, pokes, at in (
        ([18], [], 0),
        ([0], [Poke(2, 0, 0)], 0),
        ([0], [], 2),
        ([0], [Poke(0, 999, 0)], 0),
    ):
        with pytest.raises(VcsError):
            other.load(actions, pokes, at)
    assert other.frame == 50


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.seek(999),
        lambda t: t.step(18),
        lambda t: t.poke(layout.parse("INTIM"), 0),
        lambda t: t.poke(0, 256),
        lambda t: t.unpoke(0),
        lambda t: t.enter(10**6),
    ],
)
def test_what_a_tape_cannot_do(call: Callable[[Tape], Any]) -> None:
    with pytest.raises(VcsError, match=r"^[^\n]{10,}$"):
        call(tape("glass", 3))


# ---------------------------------------------------------------- chains


def ends(links: list[chain.Link]) -> list[str]:
    """Where the ways by value end, in order."""
    found: list[str] = []
    for link in links:
        found += ends(link.links) if link.links else [link.location]
    return found


def test_the_colour_of_pongs_paddle_comes_from_rom(rom: Any) -> None:
    rom("pong")
    t = tape("pong", 60)
    answer = chain.pixel(t.trace(2), *PADDLE)
    assert (answer["object"], answer["register"]) == ("player 0", "COLUP0")
    (colour,) = answer["chains"]["colour"]
    assert colour.text == "STA COLUP0,X" and colour.value == answer["colour"] == 0x38
    assert ends([colour])[0] == "ROM[0x65A]"
    assert answer["chains"]["shape (GRP0)"][0].links[0].text == "LDY #$F0"
    machine = t.at(58)
    machine.poke_rom(0x65A, 0xC8)  # and so it is
    machine.step(0)
    machine.step(0)
    assert machine.screen[PADDLE] == 0xC8


def test_the_chain_of_the_cannon_names_its_ram_byte(rom: Any) -> None:
    rom("space_invaders")
    answer = chain.pixel(tape("space_invaders", 400).trace(2), *CANNON)
    assert "RAM[0x1C]" in ends(answer["chains"]["motion (HMP0)"])
    assert answer["position"] == 34 and "RESP0" in answer["chains"]["placed by RESP0"][0].text


def test_every_pixel_has_a_chain() -> None:
    trace = tape("glass", 30).trace(2)
    for row in range(0, 210, 7):
        for column in range(0, 160, 9):
            answer = chain.pixel(trace, row, column)
            colour = answer["chains"].get("colour")
            if colour and colour[0].row >= 0:
                # the playfield's score mode and the chip's lowest bit apart, what was stored is what shows
                assert colour[0].value is not None and colour[0].value & 0xFE == answer["colour"]
    assert all(link.value == trace.x1[cell] for cell in range(128) for link in chain.cell(trace, cell))
    with pytest.raises(VcsError):
        chain.pixel(trace, 210, 0)


# ---------------------------------------------------------------- explanations


def test_effects_are_what_the_machine_does() -> None:
    t = tape("glass", 40)
    m = moment(t, 3)
    for target in (Target("pixel", 100, 80), Target("region", 90, 70, 110, 100), Target("ram", cell=3)):
        effects = m.effects(target, m.ram_flips)
        for k in (0, 77, 500, 1023):
            machine = t.at(37)
            machine.poke_ram(k // 8, int(machine.ram[k // 8]) ^ 1 << k % 8)
            for action in t.actions[37:40]:
                machine.step(action)
            if target.kind == "ram":
                seen = float(machine.ram[3]) - float(t.machine.ram[3])
            else:
                bottom, right = target.bottom or target.row + 1, target.right or target.column + 1
                place = slice(target.row, bottom), slice(target.column, right)
                seen = machine.screen[place].mean() - t.machine.screen[place].mean()
            assert effects[k] == pytest.approx(seen)


def test_predictions_are_derivative_times_step() -> None:
    m = moment(tape("glass", 40), 2)
    target = Target("ram", cell=0)
    for rules in ("value", "bit"):
        derivative = m.gradient(target, rules)
        found = explain.predicted(derivative, m.ram_flips).reshape(128, 8)
        signs = 1 - 2.0 * (m.trace.ram0[:, None] >> np.arange(8) & 1)
        slopes = derivative.ram[:, None] * 2.0 ** np.arange(8) if rules == "value" else derivative.ram
        assert np.array_equal(found, slopes * signs)
    others = explain.predicted(m.gradient(target, "value"), m.other_flips)
    assert len(others) == len(m.other_flips) and np.isfinite(others).all()


def test_agreement() -> None:
    assert explain.agreement([1, -2, 3], [2, 4, -6]) == pytest.approx(1)
    assert explain.agreement([0, 0, 0], [1, 2, 3]) is None
    assert explain.agreement([1, 2, 3], [5, -5, 5]) is None


def test_methods_that_fit_answer() -> None:
    m = moment(tape("glass", 30), 1)
    offered = {entry["name"]: entry["kinds"] for entry in explain.method_list()}
    assert offered["gradient"] == ["pixel", "region", "ram"] and offered["saliency"] == ["ram"]
    for name, kinds in offered.items():
        if name in ("gradient", "lime", "kernel_shap", "rise"):  # slow; the audit's tests have them
            continue
        target = Target("pixel", 100, 80) if "pixel" in kinds else Target("ram", cell=3)
        assert m.scores(target, name).shape == (1024,), name
    exact = np.abs(m.effects(Target("ram", cell=3), m.ram_flips))
    assert np.array_equal(m.scores(Target("ram", cell=3), "oracle"), exact)
    with pytest.raises(VcsError, match="read-out"):
        m.scores(Target("pixel", 1, 1), "saliency")
    with pytest.raises(VcsError, match="re-runs"):
        m.scores(Target("pixel", 1, 1), "extremal_perturbation")


@pytest.mark.parametrize(
    "data",
    [
        None,
        7,
        {},
        {"kind": ["pixel"]},
        {"kind": "pixel", "row": 1},
        {"kind": "pixel", "row": True, "column": 1},
        {"kind": "pixel", "row": 1.5, "column": 1},
        {"kind": "pixel", "row": 210, "column": 1},
        {"kind": "region", "row": 5, "column": 5, "bottom": 5, "right": 9},
        {"kind": "region", "row": 5, "column": 5, "bottom": 9, "right": 161},
        {"kind": "ram", "cell": 128},
    ],
)
def test_targets_that_are_none(data: Any) -> None:
    with pytest.raises(VcsError, match=r"^[^\n]{10,}$"):
        Target.parse(data, 210)


# ---------------------------------------------------------------- the server


class Served:
    """A server in a thread."""

    def __init__(self, game: str, *, frames: int = 30, token: str = TOKEN, port: int = 0) -> None:
        app = application(roms.find(game), game, token, protocol="ale", seed=0, frames=frames)
        self.server = Server(app, token, port)
        self.port, self.url = self.server.port, self.server.url
        self.thread = threading.Thread(target=self.server.serve_here, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a path taken literally."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            link.putrequest("GET", path, skip_host="Host" in headers)
            for name, value in headers.items():
                link.putheader(name.replace("_", "-"), value)
            link.endheaders()
            answer = link.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            link.close()

    def talk(self, token: str = TOKEN, origin: str | None = "", **more: Any) -> ClientConnection:
        address = f"ws://127.0.0.1:{self.port}/{token}/ws"
        own = f"http://127.0.0.1:{self.port}" if origin == "" else origin
        return connect(address, origin=own, max_size=2**24, **more)  # type: ignore[arg-type]


def ask(ws: ClientConnection, **message: Any) -> tuple[dict[str, Any], bytes]:
    """The last answer to a message, and its content."""
    ws.send(json.dumps({"id": 1, **message}))
    return answer_of(ws)


def answer_of(ws: ClientConnection) -> tuple[dict[str, Any], bytes]:
    while True:
        data, body = ws.recv(timeout=120), b""
        if isinstance(data, bytes):
            size = int.from_bytes(data[:4], "little")
            data, body = data[4 : 4 + size].decode(), data[4 + size :]
        answer: dict[str, Any] = json.loads(data)
        if "progress" not in answer:
            return answer, body


@pytest.fixture(scope="module")
def glass() -> Iterator[Served]:
    served = Served("glass")
    yield served
    served.stop()


def test_only_this_computer_is_listened_to(glass: Served) -> None:
    assert glass.server.socket.getsockname()[0] == "127.0.0.1"
    with pytest.raises(VcsError, match=f"port {glass.port} cannot be used"):
        Server(application(roms.find("glass"), "glass", TOKEN), TOKEN, glass.port)


def test_the_page_and_its_protection(glass: Served) -> None:
    for name in ("", *assets()):
        status, headers, body = glass.get(f"/{TOKEN}/{name}")
        assert status == 200 and body and headers["content-security-policy"].startswith("default-src 'none'")
        assert "unsafe" not in headers["content-security-policy"]
        assert all(headers[k.lower()] == v for k, v in HEADERS.items())
    page = assets()["index.html"][0].decode()
    assert "<style" not in page and " style=" not in page and not re.search(r" on[a-z]+=", page)
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.S) == [""]
    named = set(re.findall(r'(?:src|href)="([^"#]+)"', page))
    for name, (content, _) in assets().items():
        if name.endswith(".js"):
            named |= {n.removeprefix("./") for n in re.findall(r'from "([^"]+)"', content.decode())}
        if not name.endswith(".svg"):  # a namespace is no address that is loaded
            assert not re.search(rb"https?://", content), f"{name} names another place"
    assert named <= set(assets())


def test_a_wrong_token_is_refused(glass: Served) -> None:
    for token in (TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "x", "%00", "t%C3%A4st"):
        for name in ("", "main.js", "nothing"):
            status, headers, body = glass.get(f"/{token}/{name}")
            assert status == 403 and b"wrong token" in body and "content-security-policy" in headers
        with pytest.raises(InvalidStatus, match="403"):
            glass.talk(token.replace("%", ""))
    assert glass.get("/")[0] == glass.get(f"/{TOKEN}")[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "../server.py",
        "..%2fserver.py",
        "%2e%2e/server.py",
        "static/../../server.py",
        "....//server.py",
        "/etc/passwd",
        "..\\server.py",
        "index.html%00.js",
        "server.py",
        "__init__.py",
        "%2fetc%2fpasswd",
    ],
)
def test_no_path_leads_out(glass: Served, path: str) -> None:
    status, _, body = glass.get(f"/{TOKEN}/{path}")
    assert status in (403, 404) and b"import" not in body and b"root:" not in body


def test_other_hosts_and_origins_are_refused(glass: Served) -> None:
    port = glass.port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        f"127.0.0.1.evil.example:{port}",
        "[::1]",
        "",
        "localhost.evil",
    ):
        status, _, body = glass.get(f"/{TOKEN}/", Host=host)
        assert status in (400, 403) and b"<html" not in body
    assert glass.get(f"/{TOKEN}/", Host=f"localhost:{port}")[0] == 200
    for origin in (
        "http://evil.example",
        "null",
        f"http://127.0.0.1:{port + 1}",
        f"https://127.0.0.1:{port}",
    ):
        assert glass.get(f"/{TOKEN}/main.js", Origin=origin)[0] == 403
        with pytest.raises(InvalidStatus, match="403"):
            glass.talk(origin=origin)
    with pytest.raises(InvalidStatus, match="403"):
        glass.talk(origin=None)
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert glass.get(f"/{TOKEN}/", Sec_Fetch_Site=site)[0] == status


def test_messages_that_are_none_are_refused(glass: Served) -> None:
    with glass.talk() as ws:
        ask(ws, op="hello")
        bad: list[str | bytes] = [
            "",
            "no",
            "[]",
            "7",
            "null",
            '"step"',
            "{}",
            '{"op": 3}',
            '{"op": "fly"}',
            '{"op": "__init__"}',
            "{" * 9000,
            "[" * 9000,
            '{"op": "step", "id": "x"}',
            '{"op": "step", "id": -1}',
            '{"op": "step", "count": 1e3}',
            '{"op": "step", "count": 99999}',
            '{"op": "step", "action": 18}',
            '{"op": "step", "unit": "mile"}',
            '{"op": "step", "unit": ["frame"]}',
            '{"op": "seek"}',
            '{"op": "seek", "frame": 12345}',
            '{"op": "hover", "row": 5}',
            '{"op": "hover", "row": 999, "column": 0}',
            '{"op": "explain"}',
            '{"op": "explain", "target": {"kind": "ram", "cell": 3}, "rules": "none"}',
            '{"op": "explain", "target": {"kind": "ram", "cell": 3}, "horizon": 16}',
            '{"op": "oracle", "target": {"kind": "ram", "cell": 3}, "scope": "all"}',
            '{"op": "oracle", "target": {"kind": "ram", "cell": 3}, "method": "../x"}',
            '{"op": "export", "target": {"kind": "ram", "cell": 3}, "kind": "exe"}',
            '{"op": "poke", "location": "RAM[0]", "value": 256}',
            '{"op": "poke", "location": "nowhere", "value": 1}',
            '{"op": "poke", "location": 3, "value": 1}',
            '{"op": "unpoke", "index": 0}',
            '{"op": "listing", "part": 9}',
            '{"op": "thumbs", "count": 1000}',
            b"\x00\x01",
            '{"op": "step", "count": NaN}',
            json.dumps({"op": "hello", "tape": {"rom": roms.find("glass").sha256, "actions": 5}}),
            '{"op": "seek", "frame": 1' + "0" * 5000 + "}",
        ]
        for message in bad:
            ws.send(message)
            answer, _ = answer_of(ws)
            assert re.fullmatch(r"[^\n]{10,300}", answer["error"]), message
        assert ask(ws, op="step")[0]["frame"] == 31  # and the tab still lives


def test_large_messages_are_refused(glass: Served) -> None:
    with glass.talk() as ws:
        ws.send('{"op": "step", "x": "' + "x" * protocol.LARGEST + '"}')
        assert "too large" in answer_of(ws)[0]["error"]
        with pytest.raises(ConnectionClosed):
            ws.send("x" * 5 * protocol.LARGEST)
            for _ in range(3):
                ws.recv(timeout=20)
    with glass.talk() as ws:  # the server lives
        assert ask(ws, op="hello")[0]["frame"] == 30


def test_too_many_tabs_are_refused(glass: Served) -> None:
    with ExitStack() as tabs:
        for _ in range(MOST_TABS):
            ask(tabs.enter_context(glass.talk()), op="step")
        with glass.talk() as one_more:
            assert "tabs are open" in answer_of(one_more)[0]["error"]


def test_two_connections_are_two_machines(glass: Served) -> None:
    with glass.talk() as one, glass.talk() as two:
        ask(one, op="hello")
        ask(two, op="hello")
        assert ask(one, op="step", count=5)[0]["frame"] == 35
        assert ask(two, op="step", count=-7)[0]["frame"] == 23
        assert ask(one, op="step", unit="instruction")[0]["instruction"] == 1


def test_a_newer_question_stops_the_older_one(glass: Served) -> None:
    with glass.talk() as ws:
        ask(ws, op="hello")
        target = {"kind": "pixel", "row": 100, "column": 80}
        for number in range(1, 6):
            ws.send(json.dumps({"id": number, "op": "oracle", "target": target, "horizon": number}))
        last = {}
        while len(last) < 5:
            answer, _ = answer_of(ws)
            last[answer["id"]] = answer
        assert "effects" in last[5] and sum("stopped" in a for a in last.values()) >= 3


def test_answers_equal_the_python_api(glass: Served) -> None:
    with glass.talk() as ws:
        hello, screen = ask(ws, op="hello")
        t = tape("glass", 30)
        assert screen == t.machine.screen.tobytes() and bytes.fromhex(hello["ram"]) == t.machine.ram.tobytes()
        asked: dict[str, Any] = {"target": {"kind": "pixel", "row": 100, "column": 80}, "horizon": 4}
        m, target = moment(t, 4), Target("pixel", 100, 80)
        for rules in ("value", "bit"):
            found, _ = ask(ws, op="explain", rules=rules, **asked)
            derivative = vcs.grad(t.trace(4), vcs.Pixel(100, 80), rules=rules)
            assert (
                found["ram"] == derivative.ram.reshape(128, -1).tolist()
                and found["value"] == derivative.value
            )
            assert {i: row for i, *row in found["rom"]} == {
                int(i): np.atleast_1d(derivative.rom[i]).tolist()
                for i in np.flatnonzero(derivative.rom.reshape(4096, -1).any(1))
            }
        exact, _ = ask(ws, op="oracle", scope="ram", **asked)
        assert exact["effects"] == m.effects(target, m.ram_flips).reshape(128, 8).tolist()
        others, _ = ask(ws, op="oracle", scope="others", **asked)
        flat = [v for row in others["others"] for v in row[3]]
        assert flat == m.effects(target, m.other_flips).tolist()
        rom, _ = ask(ws, op="oracle", scope="rom", **asked)
        flips = explain.rom_flips(m.trace, [row[0] for row in rom["rom"]])
        assert [v for row in rom["rom"] for v in row[1:]] == m.effects(target, flips).tolist()
        listing, _ = ask(ws, op="listing")
        code = {line[0]: line[3] for line in listing["lines"] if line[4]}
        ran = {int(i) - layout.ROM for i in m.trace.instr["loc0"]}
        assert ran & set(range(4096)) <= set(code)


@pytest.mark.parametrize(
    ("target", "rules", "method"),
    [
        ({"kind": "pixel", "row": 100, "column": 80}, "value", "gradient"),
        ({"kind": "region", "row": 90, "column": 60, "bottom": 110, "right": 99}, "bit", "gradient"),
        ({"kind": "ram", "cell": 3}, "value", "expected_gradients_e2e_value"),
    ],
)
def test_exports_and_the_program_agree(
    glass: Served, target: dict[str, Any], rules: str, method: str
) -> None:
    """The npz, the CSV and the program that the page gives away hold the same numbers."""
    with glass.talk() as ws:
        ask(ws, op="hello")
        ask(ws, op="seek", frame=12)
        ask(ws, op="poke", location="RAM[0x03]", value=77)
        ask(ws, op="poke", location="ROM[0x800]", value=0x5A)
        ask(ws, op="step", count=3, action=3)
        asked: dict[str, Any] = {"target": target, "horizon": 5, "rules": rules, "method": method}
        shown, _ = ask(ws, op="oracle", scope="ram", **asked)
        name, npz = ask(ws, op="export", kind="npz", **asked)
        _, table = ask(ws, op="export", kind="csv", **asked)
        code_name, code = ask(ws, op="export", kind="python", **asked)
    assert name["file"].endswith(".npz") and code_name["file"].endswith(".py")
    space: dict[str, Any] = {"__name__": "exported"}
    exec(compile(code, code_name["file"], "exec"), space)
    with np.load(io.BytesIO(npz), allow_pickle=False) as arrays:
        assert arrays["start"] == 12 and arrays["end"] == 15
        assert np.array_equal(arrays["effects"], space["effects"])
        assert np.allclose(arrays["scores"], space["scores"], rtol=1e-12, atol=0)
        assert np.array_equal(arrays["d_ram"], space["derivative"].ram)
        assert shown["effects"] == arrays["effects"].tolist()
        if shown["agreement"] is None:
            assert space["agreement"] is None and np.isnan(arrays["agreement"])
        else:
            assert (
                space["agreement"] == pytest.approx(shown["agreement"]) == pytest.approx(arrays["agreement"])
            )
        rows = list(csv.reader(io.StringIO(table.decode())))
        assert len(rows) == 1025 and rows[0] == ["location", "bit", "content", method, "effect"]
        assert [float(r[4]) for r in rows[1:]] == arrays["effects"].ravel().tolist()
        assert [float(r[3]) for r in rows[1:]] == arrays["scores"].ravel().tolist()


_names = ["frame", "line", "instruction", "RAM[3]", "ROM[0x123]", "A", "bit", "value", "rise", "pixel", "ram"]
_values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-3, 300)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(_names)
    | st.lists(st.lists(st.floats(), max_size=4), max_size=3)
    | st.dictionaries(
        st.sampled_from(["kind", "row", "column", "cell"]), st.integers(-1, 200) | st.just("ram")
    )
)
_fields = (
    "unit count action frame location value index target horizon rules method scope kind part tape row "
    "column cell"
)
_messages = st.builds(
    lambda op, fields: {"op": op, **fields},
    st.sampled_from([op for op in protocol.OPS if op not in protocol.LONG]),
    st.dictionaries(st.sampled_from(_fields.split()), _values, max_size=5),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_messages, min_size=1, max_size=6))
def test_any_message_is_answered_or_refused_in_a_sentence(messages: list[dict[str, Any]]) -> None:
    session = protocol.Session(roms.find("glass"), "glass", protocol="ale", seed=0, frames=3)
    for message in messages:
        try:
            answer, _ = session.answer(protocol.parse(json.dumps(message)), lambda part: None)
            json.dumps(answer)
        except VcsError as why:
            assert re.fullmatch(r"[^\n]{10,300}", str(why)), message


# ---------------------------------------------------------------- the page in a browser

IMAGES = os.environ.get("VCS_EXPLORE_IMAGES")
browser_only = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="needs Chromium (Debian: apt install chromium)"
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A headless Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


class Page:
    """A tab of the explorer and what a person does in it."""

    def __init__(self, tab: Any, url: str) -> None:
        self.tab = tab
        self.trouble: list[str] = []
        tab.set_default_timeout(60_000)
        tab.on("pageerror", lambda error: self.trouble.append(str(error)))
        tab.on("console", self.heard)
        tab.goto(url)
        tab.wait_for_selector("body[data-ready]")

    def heard(self, message: Any) -> None:
        # a server that is away is what some tests are about
        if message.type == "error" and "ERR_CONNECTION" not in message.text and "403" not in message.text:
            self.trouble.append(message.text)

    def place(self, row: int, column: int) -> dict[str, float]:
        box = self.tab.locator("#screen").bounding_box()
        return {"x": (column + 0.5) * box["width"] / 160, "y": (row + 0.5) * box["height"] / 210}

    def settled(self) -> None:
        """Wait until everything about the target has been answered."""
        self.tab.wait_for_selector("body[data-job=done]")

    def click(self, row: int, column: int) -> None:
        self.tab.locator("#screen").click(position=self.place(row, column))
        self.settled()

    def look_back(self, frames: int) -> None:
        self.tab.locator("#horizon").fill(str(frames))
        self.tab.locator("#horizon").dispatch_event("change")
        if self.state("target"):
            self.settled()

    def state(self, name: str) -> Any:
        return self.tab.evaluate(f"explorer.{name}")

    def wait(self, what: str) -> None:
        """Wait until an expression holds; playwright's own way needs the eval that the page forbids."""
        for _ in range(2400):
            if self.tab.evaluate(what):
                return
            self.tab.wait_for_timeout(25)
        raise AssertionError(f"it never came to {what}")

    def frame(self, frame: int) -> None:
        self.wait(f"explorer.view.frame === {frame} && explorer.view.instruction === 0")

    def text(self, where: str) -> str:
        return str(self.tab.locator(where).inner_text())

    def press(self, button: str) -> None:
        self.tab.locator(button).click()

    def picture(self) -> np.ndarray[Any, Any]:
        """The colours on the canvas, uint8[210, 160, 3]."""
        from PIL import Image

        url = self.tab.evaluate("document.getElementById('screen').toDataURL()")
        png = base64.b64decode(url.split(",", 1)[1])
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))

    def shoot(self, name: str) -> None:
        """A picture for the documentation, if asked for."""
        if IMAGES:
            from PIL import Image

            image = Image.open(io.BytesIO(self.tab.screenshot()))
            target = Path(IMAGES) / f"explore-{name}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            small = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            small.save(target, optimize=True)
            assert target.stat().st_size < 150_000


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Page]]:
    """`visit(served)`: a new tab of a server; afterwards nothing may have gone wrong in any."""
    opened: list[tuple[Any, Page]] = []

    def go(served: Served, width: int = 1280, height: int = 800, **more: Any) -> Page:
        context = chromium.new_context(viewport={"width": width, "height": height}, **more)
        page = Page(context.new_page(), served.url)
        opened.append((context, page))
        return page

    yield go
    for context, page in opened:
        context.close()
        assert page.trouble == []


@pytest.fixture(scope="module")
def pong(rom: Callable[[str], roms.Rom]) -> Iterator[Served]:
    rom("pong")
    served = Served("pong", frames=60)
    yield served
    served.stop()


@pytest.fixture(scope="module")
def invaders(rom: Callable[[str], roms.Rom]) -> Iterator[Served]:
    rom("space_invaders")
    served = Served("space_invaders", frames=400)
    yield served
    served.stop()


@browser_only
def test_load_play_and_step(glass: Served, visit: Callable[..., Page]) -> None:
    page = visit(glass)
    t = tape("glass", 30)
    assert np.array_equal(page.picture(), t.machine.screen_rgb)
    assert page.text("#status") == "connected" and "glass" in page.text("#game")
    page.press("#play")
    page.tab.keyboard.down("ArrowRight")
    page.wait("explorer.view.frame > 60")
    page.tab.keyboard.up("ArrowRight")
    page.press("#play")
    page.wait("!explorer.playing")
    page.tab.wait_for_timeout(100)
    played = page.state("actions")
    assert 3 in played and set(played) <= {0, 3}  # RIGHT was held
    t = Tape(roms.find("glass"))
    t.load(played, [], len(played))
    assert np.array_equal(page.picture(), t.machine.screen_rgb)
    end = len(played)
    page.tab.keyboard.press(",")
    page.frame(end - 1)
    t.seek(end - 1)
    assert np.array_equal(page.picture(), t.machine.screen_rgb)
    page.press("[data-step=instruction][data-count='1']")
    page.wait("explorer.view.instruction === 1")
    page.press("[data-step=line][data-count='1']")
    page.wait("explorer.view.instruction > 1")
    inside = page.state("view.instruction")
    page.press("[data-step=instruction][data-count='-1']")
    page.wait(f"explorer.view.instruction === {inside - 1}")
    t.enter(inside - 1)
    assert bytes(page.tab.evaluate("Array.from(explorer.ram)")) == t.shown.ram.tobytes()
    assert page.state("view.registers.PC") == t.shown.cpu()[5]
    page.press("[data-step=frame][data-count='1']")
    page.frame(end)
    page.tab.locator("#time").fill("10")
    page.frame(10)
    t.seek(10)
    assert np.array_equal(page.picture(), t.machine.screen_rgb)
    assert len(page.state("actions")) == end  # rewinding forgets nothing


@browser_only
def test_a_click_shows_what_python_says(pong: Served, visit: Callable[..., Page]) -> None:
    page = visit(pong)
    page.look_back(2)
    page.click(*PADDLE)
    m, target = moment(tape("pong", 60), 2), Target("pixel", *PADDLE)
    derivative = m.gradient(target, RULES)
    effects = m.effects(target, m.ram_flips)
    assert page.state("gradient.ram") == derivative.ram.tolist()
    assert page.state("effects") == effects.reshape(128, 8).tolist()
    assert f"= {derivative.value:g}" in page.text("#target")
    agreement = explain.agreement(explain.predicted(derivative, m.ram_flips), effects)
    assert page.text("#agreement") == ("n/a" if agreement is None else f"{agreement:.3f}")
    strongest = int(np.abs(effects).reshape(128, 8).max(1).argmax())
    page.press(f"#ram-oracle [data-cell='{strongest}']")
    rows = page.tab.locator("#cell tbody tr")
    for bit in range(8):
        shown = rows.nth(7 - bit).locator("td .figure").nth(1).inner_text()
        assert float(shown) == pytest.approx(effects[8 * strongest + bit], rel=1e-2)
    label = page.tab.locator(f"#ram-oracle [data-cell='{strongest}']").get_attribute("aria-label")
    assert label.startswith(f"RAM[0x{strongest:02X}]") and "largest" in label
    # a RAM byte, the other rules, another method
    page.press("#known button:has-text('ball_x')")
    page.settled()
    page.tab.locator("#rules").select_option("value")
    page.settled()
    target = Target("ram", cell=0x31)
    assert page.state("gradient.ram") == m.gradient(target, "value").ram.reshape(128, 1).tolist()
    page.tab.locator("#method").select_option("occlusion")
    page.settled()
    scores = m.scores(target, "occlusion")
    assert page.state("scores") == scores.reshape(128, 8).tolist()
    assert page.text("#agreement") == f"{explain.agreement(scores, m.effects(target, m.ram_flips)):.3f}"
    # a region, dragged
    begin, end = page.place(100, 10), page.place(140, 30)
    box = page.tab.locator("#screen").bounding_box()
    page.tab.mouse.move(box["x"] + begin["x"], box["y"] + begin["y"])
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + end["x"], box["y"] + end["y"], steps=4)
    page.tab.mouse.up()
    page.settled()
    assert page.state("target") == {"kind": "region", "row": 100, "column": 10, "bottom": 141, "right": 31}
    target = Target("region", 100, 10, 141, 31)
    assert np.allclose(page.state("effects"), m.effects(target, m.ram_flips).reshape(128, 8))
    page.shoot("region")
    page.press("#bits")
    assert page.tab.locator("#ram-oracle i").first.is_visible()


@browser_only
def test_export_from_the_page(glass: Served, visit: Callable[..., Page], tmp_path: Path) -> None:
    page = visit(glass)
    page.press("#tab-export")
    page.press("[data-export=npz]")
    assert "Nothing is explained yet" in page.text("#note")
    page.click(100, 80)
    for kind in ("png", "npz", "csv", "python"):
        with page.tab.expect_download() as coming:
            page.press(f"[data-export={kind}]")
        coming.value.save_as(tmp_path / kind)
    assert (tmp_path / "png").read_bytes().startswith(b"\x89PNG")
    with np.load(tmp_path / "npz", allow_pickle=False) as arrays:
        assert arrays["effects"].tolist() == page.state("effects")
    assert (tmp_path / "csv").read_text().count("\n") == 1025
    space: dict[str, Any] = {"__name__": "exported"}
    exec((tmp_path / "python").read_text(), space)
    assert space["effects"].tolist() == page.state("effects") and "vcs.grad" in page.text("#code")


@browser_only
def test_reconnect_after_a_restart(visit: Callable[..., Page]) -> None:
    served = Served("glass")
    page = visit(served)
    page.press("[data-step=frame][data-count='1']")
    page.frame(31)
    page.press("#tab-poke")
    page.tab.locator("#poke-place").fill("RAM[0x05]")
    page.tab.locator("#poke-value").fill("$5A")
    page.press("#poke button[type=submit]")
    page.wait("explorer.pokes.length === 1")
    page.press("[data-step=frame][data-count='1']")
    page.frame(32)
    before = page.picture()
    served.stop()
    page.tab.wait_for_selector("#status[data-state=wait]")
    assert "no server" in page.text("#status")
    served = Served("glass", port=served.port)
    page.tab.wait_for_selector("body[data-ready='2']")
    assert page.text("#status") == "connected" and page.state("view.frame") == 32
    assert np.array_equal(page.picture(), before) and page.state("pokes") == [[31, 5, 0x5A]]
    # with a new token, which the page cannot know, it says so; the same tab goes on at the new address
    served.stop()
    served = Served("glass", port=served.port, token=TOKEN[::-1])
    page.tab.wait_for_selector("#status[data-state=off]")
    assert "new token" in page.text("#status")
    page.tab.goto(served.url)
    page.tab.wait_for_selector("body[data-ready='1']")
    assert page.state("view.frame") == 32 and np.array_equal(page.picture(), before)
    # another cartridge starts anew, and is named
    served.stop()
    if "pong" in roms.available():
        served = Served("pong", port=served.port, token=TOKEN[::-1])
        page.tab.wait_for_selector("body[data-ready='2']")
        assert "another cartridge" in page.text("#note") and page.state("view.frame") == 30
        served.stop()
    served.thread.join(20)


@browser_only
def test_two_tabs(glass: Served, visit: Callable[..., Page]) -> None:
    one, two = visit(glass), visit(glass)
    one.press("[data-step=frame][data-count='1']")
    one.frame(31)
    two.press("[data-step=frame][data-count='-1']")
    two.frame(29)
    one.click(100, 80)
    two.click(100, 80)
    assert one.state("gradient.end") == 31 and two.state("gradient.end") == 29


@browser_only
def test_a_wrong_token_in_a_browser(glass: Served, chromium: Any) -> None:
    tab = chromium.new_page()
    answer = tab.goto(glass.url.replace(TOKEN, "x" * 20))
    assert answer.status == 403 and "wrong token" in tab.inner_text("body")
    # a page of another origin cannot open the websocket although it knows the token
    address = glass.url.replace("http:", "ws:") + "ws"
    tab.goto("data:text/html,<p>elsewhere</p>")
    opened = tab.evaluate(
        "address => new Promise(done => { const s = new WebSocket(address);"
        " s.onopen = () => done('open'); s.onerror = () => done('refused'); })",
        address,
    )
    assert opened == "refused"
    tab.close()


@browser_only
def test_task_the_rom_byte_of_pongs_paddle(pong: Served, visit: Callable[..., Page]) -> None:
    """Which ROM byte gives Pong's left paddle its colour? With nothing but the page."""
    page = visit(pong)
    page.look_back(2)
    page.click(*PADDLE)
    assert "player 0" in page.text("#origin h3") and "COLUP0" in page.text("#origin h3")
    first = page.tab.locator("#origin .way").first.locator(".chip.ROM").first
    assert first.inner_text() == "ROM[0x65A] = $38"
    first.click()
    row = page.tab.locator("#listing .row.found")
    row.wait_for()
    assert "ROM[0x65A]" in row.inner_text()
    method, oracle = (row.locator("b").nth(i).inner_text() for i in (0, 1))
    assert float(method) and float(oracle)  # the gradient names the byte, and the machine agrees
    page.shoot("paddle")
    page.press("#tab-poke")
    page.tab.locator("#poke-place").fill("ROM[0x65A]")
    page.tab.locator("#poke-value").fill("$C8")
    page.press("#poke button[type=submit]")
    page.wait("explorer.pokes.length === 1")
    page.press("[data-step=frame][data-count='1']")
    page.frame(61)
    page.press("[data-step=frame][data-count='1']")
    page.frame(62)
    page.settled()
    page.tab.locator("#origin h3:has-text('colour $C8')").wait_for()
    page.shoot("paddle-poked")


@browser_only
def test_task_the_ram_byte_of_the_cannon(invaders: Served, visit: Callable[..., Page]) -> None:
    """Which RAM byte moves the Space Invaders cannon?"""
    page = visit(invaders)
    page.look_back(2)
    page.click(*CANNON)
    page.press("#origin .way .name:has-text('motion (HMP0)')")
    motion = page.tab.locator("#origin .way", has_text="motion (HMP0)")
    assert motion.locator(".chip.RAM").first.inner_text().startswith("RAM[0x1C]")
    sizes = np.abs(np.array(page.state("scores"))).max(1)
    assert sizes.argmax() == 0x1C  # the gradient's only byte, and one of the few the oracle has
    assert np.abs(np.array(page.state("effects"))[0x1C]).max() > 0
    page.press("#ram-oracle [data-cell='28']")
    assert "player_x" in page.text("#cell")
    page.press("#tab-inputs")
    page.tab.locator("#inputs tr[data-name='P0 right@399']").wait_for()  # pressed, it would move, too
    page.press("#tab-cell")
    page.shoot("cannon")
    page.tab.locator("#cell input").fill("100")
    page.press("#cell button[type=submit]")
    page.wait("explorer.pokes.length === 1")
    page.press("[data-step=frame][data-count='1']")
    page.frame(401)
    page.settled()
    page.tab.locator("#screen").hover(position=page.place(CANNON[0], CANNON[1] + 65))
    page.tab.locator("#origin h3:has-text('player 0')").wait_for()
    page.tab.locator("#screen").hover(position=page.place(*CANNON))
    page.tab.locator("#origin h3:has-text('background')").wait_for()
    page.shoot("cannon-poked")


@browser_only
def test_task_why_the_score_changes(pong: Served, visit: Callable[..., Page]) -> None:
    """Why do Pong's score digits change?"""
    page = visit(pong)
    page.press("#play")
    page.tab.locator("#speed").select_option("4")
    page.wait("explorer.ram[0x0D] === 1")
    page.press("#play")
    page.wait("!explorer.playing")
    page.tab.wait_for_timeout(200)
    page.tab.locator("#time").fill("258")
    page.frame(258)
    # the digit: its shape comes through a pointer into a table, which the bit rules and the oracle follow
    page.look_back(2)
    page.tab.locator("#rules").select_option("bit")
    page.click(*DIGIT)
    page.press("#origin .way .name:has-text('shape (PF1)')")
    assert "LDA ($C5),Y" in page.text("#origin .steps") and page.tab.locator("#origin .hop.address").count()
    effects, scores = (np.abs(np.array(page.state(name))).max(1) for name in ("effects", "scores"))
    assert np.flatnonzero(effects).tolist() == np.flatnonzero(scores).tolist() == [0x0D, 0x16]
    assert float(page.text("#agreement")) > 0.5
    page.press("#ram-oracle [data-cell='13']")
    assert "enemy_score" in page.text("#cell")
    page.shoot("digit")
    # the byte: what wrote it when it changed, and what would have kept it from changing
    page.tab.locator("#time").fill("256")
    page.frame(256)
    page.look_back(1)
    page.press("#known button:has-text('enemy_score')")
    page.settled()
    page.tab.locator("#origin h3:has-text('what last wrote RAM[0x0D]')").wait_for()
    assert "INC $8D,X" in page.text("#origin") and "F3AB" in page.text("#origin")
    ball = np.array(page.state("effects"))[0x31]
    assert ball.min() == -1  # had the ball been elsewhere, no point would have been scored
    assert "ball_x" in page.text("#strong")
    page.shoot("score")
    page.tab.locator("#time").fill("255")
    page.frame(255)
    page.settled()
    assert page.state("ram[0x0D]") == 0


@browser_only
def test_inside_a_frame_and_on_a_phone(invaders: Served, visit: Callable[..., Page]) -> None:
    page = visit(invaders)
    for _ in range(3):
        page.tab.keyboard.press(".")
    page.frame(403)
    page.tab.keyboard.press("]")
    page.wait("explorer.view.instruction > 0")
    for _ in range(100):
        page.tab.keyboard.press("]")
    page.wait("explorer.view.line > 100")
    page.tab.wait_for_timeout(300)
    page.tab.locator("#screen").hover(position=page.place(200, 30))
    page.tab.locator("#origin h3:has-text('not drawn yet')").wait_for()
    page.shoot("beam")
    phone = visit(invaders, 390, 844, has_touch=True)
    assert phone.tab.evaluate("document.documentElement.scrollWidth") <= 390
    place = phone.place(*CANNON)
    phone.tab.locator("#screen").tap(position=place)
    phone.settled()
    assert phone.state("target") == {"kind": "pixel", "row": CANNON[0], "column": CANNON[1]}
    for name in ("rom", "registers", "inputs", "poke", "export", "cell"):
        phone.press(f"#tab-{name}")
        assert phone.tab.locator(f"#{name}").is_visible()
        assert phone.tab.evaluate("document.documentElement.scrollWidth") <= 390, name
    phone.tab.evaluate("scrollTo(0, 0)")
    phone.shoot("phone")
    phone.press("#play")
    phone.tab.locator("#pad [data-line='16']").dispatch_event("pointerdown", {"pointerId": 1})
    phone.wait("explorer.view.frame > 405")
    phone.press("#play")


def test_a_free_port_is_found_and_the_command_says_where(tmp_path: Path) -> None:
    """`vcs explore` prints the address, answers there, and ends at an interrupt."""
    import signal
    import subprocess
    import sys

    command = [
        sys.executable,
        "-m",
        "vcs",
        "explore",
        "glass",
        "--port",
        "0",
        "--no-browser",
        "--frames",
        "5",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/([A-Za-z0-9_-]{32})/", line)
        assert found, line
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", int(found[1])), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        link = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=30)
        link.request("GET", f"/{found[2]}/")
        assert link.getresponse().status == 200
        link.close()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) in (0, 130, -signal.SIGINT)
    done = subprocess.run([*command, "--token", "short"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "token" in done.stderr and "Traceback" not in done.stderr
