"""The explorer's server under load: right answers, flat memory, no descriptors left open."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
TOKEN = "load-test-token-0123456789"
WANTED = 1000  # requests a second, over HTTP; the websocket's come on top


def resident(pid: int) -> int:
    """Resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid: int) -> int:
    """Open file descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


async def visitor(port: int, until: float, pause: float, seen: dict[str, int], fresh: bool) -> None:
    """GET the page over and over, on one connection or on a fresh one each time; at most one in `pause` s."""
    request = f"GET /{TOKEN}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    reader: Any = None
    due = time.monotonic()
    while time.monotonic() < until:
        if reader is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
        body = await reader.readexactly(length)
        right = head.startswith(b"HTTP/1.1 200") and body.rstrip().endswith(b"</html>")
        seen["right" if right else "wrong"] += 1
        if fresh:
            writer.close()
            reader = None
        due = max(due + pause, time.monotonic() - 1)
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def tab(port: int, until: float, seen: dict[str, int]) -> None:
    """Step and hover over a websocket; the same frames must always show the same."""
    import json

    from websockets.asyncio.client import connect

    url = f"ws://127.0.0.1:{port}/{TOKEN}/ws"
    async with connect(url, origin=f"http://127.0.0.1:{port}", max_size=None) as ws:  # type: ignore[arg-type]

        async def ask(**message: Any) -> Any:
            await ws.send(json.dumps(message))
            return await ws.recv()

        await ask(op="hello")
        first: dict[int, bytes] = {}
        number = 0
        while time.monotonic() < until:
            number = number % 40 + 1
            if number == 1:
                await ask(op="seek", frame=0)
            answer = await ask(op="step", action=number % 18)
            picture = answer[-160 * 200 :]
            seen["right" if first.setdefault(number, picture) == picture else "wrong"] += 1
            if number % 10 == 0:
                text = await ask(op="hover", row=100, column=80)
                seen["right" if "chains" in json.loads(text) else "wrong"] += 1


async def load(
    pid: int, port: int, seconds: float, seen: dict[str, int], memory: list[int], files: list[int]
) -> None:
    until = time.monotonic() + seconds
    visitors = 10
    jobs = [visitor(port, until, visitors / WANTED, seen, fresh=k == 0) for k in range(visitors)]
    jobs += [tab(port, until, seen) for _ in range(2)]

    async def watch() -> None:
        while time.monotonic() < until:
            memory.append(resident(pid))
            files.append(descriptors(pid))
            await asyncio.sleep(seconds / 60)

    await asyncio.gather(*jobs, watch())


def minute(seconds: float) -> dict[str, Any]:
    """Load a server of its own process; figures as `tests.reliability` wants them."""
    command = [
        sys.executable,
        "-m",
        "vcs",
        "explore",
        "glass",
        "--no-browser",
        "--port",
        "0",
        "--token",
        TOKEN,
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
    )
    assert process.stdout is not None
    seen, memory, files = {"right": 0, "wrong": 0}, list[int](), list[int]()
    try:
        line = process.stdout.readline()
        port = int(re.search(r"127\.0\.0\.1:(\d+)", line)[1])  # type: ignore[index]
        time.sleep(3)  # it loads what the first click needs
        asyncio.run(load(process.pid, port, seconds, seen, memory, files))
        time.sleep(2)
        after = descriptors(process.pid)
    finally:
        process.terminate()
        process.communicate()
    early, late = memory[len(memory) // 4], memory[-1]
    total = seen["right"] + seen["wrong"]
    note = (
        f"{total / seconds:,.0f} a second; resident {early / 2**20:.1f} MB after a quarter, "
        f"{late / 2**20:.1f} MB at the end; {after} descriptors afterwards, {min(files)} at the start"
    )
    return {
        "executions": total,
        "lost": seen["wrong"],
        "seconds": round(seconds),
        "note": note,
        "grown": late - early,
        "left": after - min(files),
    }


def test_a_few_seconds() -> None:
    for package in ("websockets", "starlette", "uvicorn"):
        pytest.importorskip(package)
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    outcome = minute(4)
    assert outcome["executions"] > 100 and outcome["lost"] == 0, outcome
    assert outcome["left"] <= 2, outcome
