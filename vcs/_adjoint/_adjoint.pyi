from typing import Any

import numpy as np
import numpy.typing as npt

LOCATIONS: dict[str, int]
ROWS: dict[str, int]

class Opcodes:
    def __init__(self, rows: list[tuple[str, str, int]]) -> None: ...

class Adjoint:
    def __init__(
        self,
        opcodes: Opcodes,
        image: npt.NDArray[np.uint8],
        cart_size: int,
        lanes: int,
        bits: bool,
    ) -> None: ...
    @property
    def state(self) -> npt.NDArray[np.float64]: ...
    @property
    def cart(self) -> npt.NDArray[np.float64]: ...
    @property
    def rom(self) -> npt.NDArray[np.float64]: ...
    def sweep(
        self,
        instr: npt.NDArray[Any],
        tia: npt.NDArray[Any],
        segments: npt.NDArray[Any],
        frames: npt.NDArray[Any],
        x0: npt.NDArray[np.int32],
        height: int,
        pixels: npt.NDArray[np.int64],
        weights: npt.NDArray[np.float64],
        alpha: float,
        read_weights: list[float],
        branch: npt.NDArray[np.int64],
        meet: npt.NDArray[np.int64],
        start: npt.NDArray[np.int64],
        place: npt.NDArray[np.int32],
        other: npt.NDArray[np.int32],
        here: npt.NDArray[np.int32],
        slope: float,
    ) -> npt.NDArray[np.float64]: ...
