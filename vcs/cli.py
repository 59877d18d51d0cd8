"""The `vcs` command. Each command is a few lines over the Python API; `--help` of each shows an example.

Commands of other parts of the project are loaded only when they are called, so that `vcs info` does not
import what `vcs audit` needs.
"""
from __future__ import annotations

import hashlib
import json
import warnings
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import vcs
from vcs import actions, files, roms
from vcs.command import INTERRUPTED
from vcs.errors import VcsError

if TYPE_CHECKING:
    from vcs.machine import Machine

console = Console()
console_error = Console(stderr=True)

# command -> module that holds it in its Typer object `app`, one line for the list of commands
ELSEWHERE = {
    "explore": ("vcs.explore.cli", "Open the explorer, a web page: point at a pixel, see what caused it."),
    "audit": ("vcs.xai.cli", "Score explanation methods against the machine's true causes."),
    "labels": ("vcs.xai.cli", "Check published labels of RAM cells against what the cells do."),
    "report": ("vcs.xai.cli", "Turn the records of an audit into a page."),
    "relax": ("vcs.relax.cli", "Measure how far a relaxed machine departs from the exact one."),
    "cannon": ("vcs.soft.cannon", "The experiment from joystick to cannon in Space Invaders."),
    "paper": ("vcs.paper", "Compute the numbers of the paper again."),
}


class Protocol(str, Enum):
    """How the machine is switched on and driven."""

    ale = "ale"
    xitari = "xitari"


RomArg = Annotated[str, typer.Argument(
    metavar="ROM", help="A game name (pong), or the path of a cartridge image.", show_default=False)]
MaybeRomArg = Annotated[str | None, typer.Argument(
    metavar="ROM", help="A game name or path.", show_default=False)]
FramesOpt = Annotated[int, typer.Option(
    "--frames", "-n", min=1, max=10_000_000, help="Frames to run, 60 a second.")]
ActionsOpt = Annotated[str, typer.Option(
    "--actions", "-a", metavar="noop|random|FILE",
    help="What is pressed: nothing, random actions, or a text file of actions (numbers 0-17 or names).")]
ProtocolOpt = Annotated[Protocol, typer.Option(
    "--protocol", help="Boot and step like ale-py 0.12 (ale) or like xitari (xitari).")]
SeedOpt = Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Seed of all randomness.")]


def build(command: str | None) -> typer.Typer:
    """The application. Only `command`'s module is imported if it is one of `ELSEWHERE`; the others of these
    are listed by name."""
    app = typer.Typer(
        name="vcs", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        help="Glass VCS: a bit-exact, differentiable Atari 2600. Run a game, look at the frame, ask what "
             "caused a pixel. Start with **vcs demo**; every command explains itself with --help.",
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback(invoke_without_command=True)(version)
    app.command(epilog="Example: vcs demo --out demo.png")(demo)
    app.command(epilog="Example: vcs info space_invaders")(info)
    app.command("run", epilog="Example: vcs run pong --frames 600 --actions random --out out")(run_frames)
    app.command(epilog="Example: vcs trace pong --frames 2 -o pong.npz")(trace)
    app.command(epilog="Example: vcs grad pong --frame 60 --pixel 100,16 --out out/pong")(grad)
    folder = Path(__file__).parent.parent
    for name, (module, summary) in ELSEWHERE.items():
        file = folder / module.replace(".", "/")
        if not file.with_suffix(".py").exists() and not (file / "__init__.py").exists():
            continue
        if name == command:
            attach(app, name, import_module(module).app)
        else:
            app.command(name, help=summary)(nothing)
    return app


def attach(app: typer.Typer, name: str, other: typer.Typer) -> None:
    """Give `app` the command `name` of `other`, or all of `other` as a group of that name."""
    for entry in other.registered_commands:
        if name in (entry.name, getattr(entry.callback, "__name__", None)):
            entry.name = name
            app.registered_commands.append(entry)
            return
    app.add_typer(other, name=name)


def nothing() -> None:
    """Stands in the list of commands for one whose module is not loaded."""


def run(argv: list[str]) -> None:
    """Run the command line; ends the process."""
    warnings.showwarning = note
    build(next((word for word in argv if not word.startswith("-")), None))(argv, prog_name="vcs")


def note(message: Warning | str, category: type[Warning], filename: str, lineno: int,
         file: TextIO | None = None, line: str | None = None) -> None:
    """A warning as one line: where in our code it was raised does not help who typed the command."""
    console_error.print(f"vcs: note: {message}", style="dim", highlight=False)


def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        console.print(f"glassvcs {vcs.__version__}", highlight=False)
        raise typer.Exit


def play(machine: Machine, codes: list[int]) -> tuple[float, int]:
    """Step through `codes` with a progress bar; returns the summed reward and the frames done.

    Ctrl-C ends the run early, and the caller keeps what was reached; a finished game starts anew.
    """
    reward, done = 0.0, 0
    try:
        for code in track(codes, "Running", console=console_error, transient=True):
            reward += machine.step(code)
            done += 1
            if machine.game_over:
                machine.reset()
    except KeyboardInterrupt:
        console.print(f"[yellow]interrupted after {done} frames[/yellow]")
    return reward, done


def play_up_to(machine: Machine, codes: list[int]) -> None:
    """`play` where another moment than the one asked for would be a wrong answer: Ctrl-C ends the command."""
    if play(machine, codes)[1] < len(codes):
        raise KeyboardInterrupt


def demo(
    rom: MaybeRomArg = None,
    out: Annotated[Path, typer.Option(help="Picture to write.")] = Path("demo.png"),
    frames: Annotated[int, typer.Option(min=1, max=100_000, help="Frames to play first.")] = 120,
    seed: SeedOpt = 0,
) -> None:
    """See the whole project in one minute: a frame, the causes of one of its pixels, and the proof.

    Plays a game, records the last frame instruction by instruction, computes what one pixel depends on,
    checks that the differentiable machine equals the exact one at every step, flips the bits that the answer
    names to see the pixel follow, and says what all that cost.
    """
    from vcs import demo as program

    program.run(rom, out, frames, seed, console)


def info(rom: MaybeRomArg = None) -> None:
    """Describe a cartridge: its type, controllers, picture and actions. Without ROM, list the names known
    here."""
    if rom is None:
        names = roms.available()
        console.print(" ".join(names) or "none", highlight=False)
        console.print(f"[dim]{len(names)} cartridges; more can be put in the folders of $VCS_ROM_PATH[/dim]")
        return
    found = roms.find(rom)
    from vcs import cart

    table = Table("property", "value", title=found.name)
    table.add_row("file", str(found.path))
    table.add_row("size", f"{len(found.data)} bytes")
    table.add_row("md5", found.md5)
    table.add_row("sha256", found.sha256)
    for protocol in Protocol:
        mapper = cart.detect(found.data, found.md5, None, protocol.value)
        table.add_row(f"cartridge type ({protocol.value})", mapper)
    properties = roms.properties(found.md5)
    table.add_row("controllers", f"{properties.left_controller} {properties.right_controller}".lower())
    table.add_row("game", found.game or "not known: no score, no lives, all 18 actions")
    record = roms.record(found.game) if found.game else None
    if record:
        words = {code: word for word, code in actions.NAMES.items()}
        rows, columns = record["screen_shape"]
        table.add_row("picture", f"{columns} x {rows}, {record['resolved_format']['ale']}")
        table.add_row("minimal actions", " ".join(words[a] for a in actions.legal(found.game, "ale")))
        table.add_row("modes", " ".join(map(str, record["ale_modes"])) or "-")
        table.add_row("difficulties", " ".join(map(str, record["ale_difficulties"])) or "-")
    console.print(table)


def run_frames(
    rom: RomArg,
    frames: FramesOpt = 600,
    what: ActionsOpt = "noop",
    protocol: ProtocolOpt = Protocol.ale,
    seed: SeedOpt = 0,
    out: Annotated[Path, typer.Option(help="Folder for screen.png, ram.bin and state.json.")] = Path("out"),
    scale: Annotated[int, typer.Option(min=1, max=16, help="Size of a line of the picture, in pixels.")] = 2,
) -> None:
    """Run a game for some frames and write the picture, the 128 bytes of RAM and the state it ends in."""
    from vcs import pictures

    machine = vcs.Machine(rom, protocol=protocol.value, seed=seed)
    reward, done = play(machine, actions.choose(what, frames, seed, machine.game, protocol.value))
    screen, ram = machine.screen, machine.ram
    files.write_bytes(out / "screen.png", pictures.png(machine.screen_rgb, scale))
    files.write_bytes(out / "ram.bin", ram.tobytes())
    state: dict[str, Any] = {
        "rom": machine.game or rom, "rom_sha256": hashlib.sha256(machine.rom).hexdigest(),
        "mapper": machine.mapper, "protocol": protocol.value, "seed": seed, "frames": done, "reward": reward,
        "lives": machine.lives, "game_over": machine.game_over,
        "registers": {name: int(value) for name, value in machine.registers._asdict().items()},
        "ram": ram.tobytes().hex(), "screen_shape": list(screen.shape),
        "screen_sha256": hashlib.sha256(screen.tobytes()).hexdigest(), "version": vcs.__version__,
    }
    files.write_text(out / "state.json", json.dumps(state, indent=1) + "\n")
    table = Table("what", "value", title=f"{state['rom']}, {done} frames")
    for key in ("mapper", "reward", "lives", "game_over"):
        table.add_row(key, str(state[key]))
    table.add_row("registers", " ".join(f"{k}={v:02X}" for k, v in state["registers"].items()))
    table.add_row("written", f"{out}/screen.png ram.bin state.json")
    console.print(table)
    if done < frames:
        raise typer.Exit(INTERRUPTED)


def trace(
    rom: RomArg,
    out: Annotated[Path, typer.Option("--out", "-o", help="Trace file to write (.npz).", show_default=False)],
    frames: Annotated[int, typer.Option("--frames", "-n", min=1, max=3600, help="Frames to record.")] = 1,
    skip: Annotated[int, typer.Option("--skip", min=0, max=10_000_000, help="Frames to run before.")] = 60,
    what: ActionsOpt = "noop",
    protocol: ProtocolOpt = Protocol.ale,
    seed: SeedOpt = 0,
) -> None:
    """Record everything that happens during some frames: each instruction, register write and drawn pixel."""
    machine = vcs.Machine(rom, protocol=protocol.value, seed=seed)
    codes = actions.choose(what, skip + frames, seed, machine.game, protocol.value)
    play_up_to(machine, codes[:skip])
    record = machine.trace(codes[skip:])
    record.save(out)
    table = Table("what", "count", title=str(out))
    for label, rows in (("frames", record.frames), ("instructions", record.instr), ("TIA writes", record.tia),
                        ("drawn runs", record.segments)):
        table.add_row(label, f"{len(rows):,}")
    table.add_row("bytes", f"{out.stat().st_size:,}")
    console.print(table)


def pixel(text: str) -> tuple[int, int]:
    """`ROW,COL` as two numbers."""
    parts = text.split(",")
    try:
        row, column = (int(part) for part in parts)
    except ValueError:
        raise VcsError(f"{text!r} is no pixel: give ROW,COL, two whole numbers, such as 100,80") from None
    return row, column


def grad(
    rom: RomArg,
    frame: Annotated[int, typer.Option("--frame", "-f", min=1, max=10_000_000, help="Frame to see.")] = 60,
    where: Annotated[str | None, typer.Option(
        "--pixel", "-p", metavar="ROW,COL", help="Pixel to explain; by default an interesting one.")] = None,
    horizon: Annotated[int, typer.Option(min=1, max=600, help="Frames to look back.")] = 1,
    rules: Annotated[str, typer.Option(help="One derivative a bit (bit) or a byte (value).")] = "bit",
    engine: Annotated[str, typer.Option(help="adjoint (compiled) or soft (readable, slow).")] = "adjoint",
    what: ActionsOpt = "noop",
    protocol: ProtocolOpt = Protocol.ale,
    seed: SeedOpt = 0,
    out: Annotated[Path, typer.Option(help="Folder for gradient.png, .json and .npz.")] = Path("out"),
) -> None:
    """Ask what a pixel depends on: its derivative with respect to RAM, ROM, registers and inputs."""
    from vcs import demo as program

    wanted = pixel(where) if where is not None else None
    machine = vcs.Machine(rom, protocol=protocol.value, seed=seed)
    if horizon > frame:
        raise VcsError(f"a horizon of {horizon} frames does not fit before frame {frame}: use --horizon "
                       f"{frame}")
    codes = actions.choose(what, frame, seed, machine.game, protocol.value)
    play_up_to(machine, codes[:frame - horizon])
    program.explain(machine, codes[frame - horizon:], wanted, rules, engine, out, console)
