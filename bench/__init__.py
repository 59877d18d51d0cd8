"""Benchmarks: how fast we are, always beside the peer measured in the same run.

``python -m bench NAME`` times our machine and a peer in turn (A B A B ...), takes medians, and gives the
ratio as the median of the ratios pair by pair, so that a computer that slows down meanwhile favours neither.

=========  =========================================  ================================================
rollout    frames/s of one machine on one core        ale-py, the same actions
vector     frames/s of 64 preprocessed environments   ale-py's AtariVectorEnv
gym        steps/s of a Gymnasium environment         our core alone; ale-py's ALE/...-v5
snapshot   save + restore pairs/s                     ale-py's cloneState + restoreState
gradient   instructions/s of a gradient               our soft engine (autograd)
soft       instructions/s of the differentiable       -
           engines, forward and backward
=========  =========================================  ================================================

``python -m bench report FILES`` writes ``bench/RESULTS.md`` and its bar chart from the JSON files.
"""

from vcs import command

command.quiet("bench")
