"""The gradient of a pixel, and the check: change what it names, and see what the pixel does.

    python examples/pixel.py --game space_invaders --frame 120

Prints who drew the pixel, the instruction that set its colour, the bits with the largest derivatives, and for
each of them what the pixel does when the bit is flipped. A derivative promises the first order only: flips of
positions and of table indices do more, or less, than it says.
"""
from __future__ import annotations

import argparse

import vcs
from vcs import demo, gradient, layout


def main(game: str = "glass", frame: int = 120, count: int = 6) -> float:
    """The share of flips that did exactly what the derivative says."""
    machine = vcs.Machine(game)
    machine.run([0] * (frame - 1))
    start = machine.clone()
    trace = machine.trace([0])
    place, _, _ = demo.interesting(start, [0], trace)

    origin = gradient.origin(trace, vcs.Pixel(*place))
    print(f"{game}, frame {frame}, row {place[0]}, column {place[1]}: "
          f"colour {int(trace.screens[-1][place])}, drawn by {demo.OBJECTS[int(trace.winner[-1][place])]}")
    if origin.instruction >= 0:
        print(f"{origin.register} was set by {demo.instruction(trace, origin.instruction)}")

    answer = vcs.grad(trace, vcs.Pixel(*place), rules="bit", wrt=["ram", "rom"])
    for name, derivative in answer.top(count):
        where = layout.parse(name.split(":")[0])
        print(f"  {name:<12} {derivative:+8.4g}   first used by {demo.use(trace, where)}")

    tried = demo.flips(start, [0], place, answer, count)
    for flip in tried:
        print(f"  flip bit {flip.bit} of {layout.name(flip.location)}: predicted {flip.predicted:+g}, "
              f"seen {flip.seen:+d}")
    return sum(flip.held for flip in tried) / max(1, len(tried))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="glass", help="name of a game (default glass)")
    parser.add_argument("--frame", type=int, default=120, help="frame to see (default 120)")
    args = parser.parse_args()
    print(f"{main(args.game, args.frame):.0%} of the flips did exactly what the derivative says")
