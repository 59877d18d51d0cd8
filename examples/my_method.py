"""Your own explanation method in ten lines, scored against the machine's true causes.

    vcs audit --plugin examples/my_method.py --methods half_step,saliency --games pong,breakout --out mine

A method gets the gameplay state, the output to explain and the candidate causes, and returns one number per
cause. Here: halve the byte of a RAM cause and see how far the output moves on the real machine.
"""

from vcs import xai


@xai.register("half_step", title="Half step", tradition="intervention")
def half_step(state, output, causes):
    """Change of the output when a cause's byte is halved."""
    runs = [state.write({c.cell: state.ram[c.cell] // 2}) if c.cell >= 0 else () for c in causes]
    return abs(state.values(output, runs) - state.value(output))


if __name__ == "__main__":
    for kind in ("content", "position"):
        result = xai.score(xai.State("pong"), "half_step", kind)
        print(f"{kind}: F {result.faithfulness:.3f}, S {result.sufficiency:.3f}, {result.minimality}")
