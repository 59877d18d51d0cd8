"""Conformance: is our machine, bit for bit, the machine the references are?

Commands (``python -m conformance NAME --help``):

=========  ==========================================================================================
pxc1       every instruction of ``golden/xitari/instructions``: PC, A X Y SP P, cycle counter, RAM
pxc2       hard against soft against adjoint, along traces of real games
pxcs       every screen of ``golden/xitari/frames``
golden     everything in ``golden/xitari/frames``: RAM, screen, reward, lives, game over
reset      the boot states of ``reset_vectors.json``, both protocols
ale        live against the installed ale-py: RAM, screen, reward, lives, game over, frame counters
trace      a trace file that another emulator wrote: its instructions, and its pixels if asked
document   writes the tables of ``docs/conformance.md`` from the JSON reports
=========  ==========================================================================================

One case (``cases.Case``) is one game under one set of parameters; it is run in a worker process
(``workers``), because some images end an ale-py process, and gives an ``Outcome``. Nothing here knows
a game by name: a difference is located (``locate``), never excused.
"""

from vcs import command

command.quiet("conformance")
