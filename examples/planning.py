"""Play by looking ahead: Monte Carlo tree search that restores snapshots of the machine.

    python examples/planning.py --game breakout --steps 200 --simulations 40

A node of the tree holds a snapshot. A simulation walks down the tree by UCB1, adds one node, plays at random
for a while from there, and adds the discounted reward to every node on the way. Taking or restoring a
snapshot costs about a microsecond, because it shares its two pictures with the machine until the machine
draws again; a node that is kept holds some 100 KB.
"""
from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field

import numpy as np
from rich.progress import track

import vcs

DISCOUNT = 0.98


@dataclass
class Node:
    """A state of the game: how often it was passed, and the mean discounted reward from it on."""

    state: vcs.machine.Snapshot
    over: bool
    reward: float = 0.0
    visits: int = 0
    value: float = 0.0
    children: dict[int, Node] = field(default_factory=dict)


def choose(node: Node, actions: tuple[int, ...], spread: float, rng: np.random.Generator) -> int:
    """UCB1; actions that were never tried come first, in random order."""
    fresh = [a for a in actions if a not in node.children]
    if fresh:
        return int(rng.choice(fresh))

    def score(action: int) -> float:
        child = node.children[action]
        mean = (child.reward + DISCOUNT * child.value) / max(spread, 1e-9)
        return mean + math.sqrt(2 * math.log(node.visits) / child.visits)

    return max(actions, key=score)


def plan(machine: vcs.Machine, rng: np.random.Generator, simulations: int = 40, depth: int = 20) -> int:
    """The action that a tree search from here likes best. The machine is afterwards where it was."""
    root = Node(machine.snapshot(), machine.game_over)
    largest = 1.0
    for _ in range(simulations):
        node, path = root, [root]
        while not node.over and len(path) <= depth:
            action = choose(node, machine.actions, largest, rng)
            if action in node.children:
                node = node.children[action]
                path.append(node)
                continue
            machine.restore(node.state)
            lives = machine.lives
            reward = machine.step(action) - (machine.lives < lives)
            child = Node(machine.snapshot(), machine.game_over, reward)
            node.children[action] = child
            path.append(child)
            break
        total, weight = 0.0, 1.0
        machine.restore(path[-1].state)
        for _ in range(depth - len(path)):       # a life is worth a point
            if machine.game_over:
                break
            lives = machine.lives
            reward = machine.step(int(rng.choice(machine.actions)))
            total += weight * (reward - (machine.lives < lives))
            weight *= DISCOUNT
        for node in reversed(path):
            node.visits += 1
            node.value += (total - node.value) / node.visits
            total = node.reward + DISCOUNT * total
        largest = max(largest, abs(total))
    machine.restore(root.state)
    return max(root.children, key=lambda a: root.children[a].visits)


def play(game: str, steps: int, simulations: int, seed: int) -> tuple[float, float]:
    """Score of the search and of random play over the same number of steps."""
    rng = np.random.default_rng(seed)
    scores = []
    for searching in (True, False):
        machine = vcs.Machine(game, frame_skip=5)
        score = 0.0
        for _ in track(range(steps), description="search" if searching else "random"):
            if machine.game_over:
                break
            action = plan(machine, rng, simulations) if searching else int(rng.choice(machine.actions))
            score += machine.step(action)
        scores.append(score)
    return scores[0], scores[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="breakout", help="name of a game (default breakout)")
    parser.add_argument("--steps", type=int, default=200, help="agent steps of five frames (default 200)")
    parser.add_argument("--simulations", type=int, default=40, help="per step (default 40)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    try:
        search, chance = play(args.game, args.steps, args.simulations, args.seed)
        print(f"search {search:g}, random play {chance:g}")
    except KeyboardInterrupt:
        print("stopped")
