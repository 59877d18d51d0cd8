"""Which mapper a cartridge has: detection by size and content, and the checks before one is used.

Models spec/cartridges.md 6, where the two references agree on everything but a length no rule covers. The
mappers themselves are in `vcs/_hard/cart.pxi`, whose enum has the same numbers as `MAPPERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vcs.errors import VcsError

__all__ = ["MAPPERS", "classify", "detect"]

MAPPERS: Final[dict[str, int]] = {
    name: number
    for number, name in enumerate(
        (
            "2K",
            "4K",
            "F8",
            "F8swap",
            "F8SC",
            "F6",
            "F6SC",
            "F4",
            "F4SC",
            "E0",
            "E7",
            "FE",
            "FASC",
            "3F",
            "3E",
            "MB",
            "MC",
            "AR",
            "DPC",
            "CV",
            "UA",
            "0840",
            "4A50",
        )
    )
}
"""Name of every mapper to the number the machine knows it by."""

AR_LOAD: Final = 8448
DPC_SIZES: Final = (10240, 10495, 10496)

# Two dumps whose bank order is swapped; nothing in their content says so.
_SWAPPED: Final = frozenset({"bc24440b59092559a1ec26055fd1270e", "75ee371ccfc4f43e7d9b8f24e1266b55"})

_CV: Final = (b"\x9d\xff\xf3", b"\x99\x00\xf4")
_E0: Final = (
    b"\x8d\xe0\x1f",
    b"\x8d\xe0\x5f",
    b"\x8d\xe9\xff",
    b"\xad\xe9\xff",
    b"\xad\xed\xff",
    b"\xad\xf3\xbf",
)
_FE: Final = (
    b"\x20\x00\xd0\xc6\xc5",
    b"\x20\xc3\xf8\xa5\x82",
    b"\xd0\xfb\x20\x73\xfe",
    b"\x20\x00\xf0\x84\xd6",
)


def _hits(data: bytes, signature: bytes, count: int) -> bool:
    """Whether the references' scan finds a signature `count` times: it never looks at the last byte of the
    file, and after a match goes on one byte behind the end of it."""
    seen = data[:-1]
    at = 0
    for _ in range(count):
        at = seen.find(signature, at)
        if at < 0:
            return False
        at += len(signature) + 1
    return True


def _any_hit(data: bytes, signatures: tuple[bytes, ...]) -> bool:
    return any(_hits(data, signature, 1) for signature in signatures)


def _equal_halves(data: bytes) -> bool:
    return data[: len(data) // 2] == data[len(data) // 2 :]


def _is_sc(data: bytes) -> bool:
    """Every 4 KiB bank begins with 256 equal bytes: nothing is stored under the RAM's ports."""
    return all(data[at : at + 256] == data[at : at + 1] * 256 for at in range(0, len(data), 4096))


def _is_cv(data: bytes) -> bool:
    return _any_hit(data, _CV)


def _is_e0(data: bytes) -> bool:
    return _any_hit(data, _E0)


def _is_e7(data: bytes) -> bool:
    """512 equal bytes under the RAM's ports, and a different one within 32 bytes of them."""
    b = data[0x3800:0x3801]
    return data[0x3800:0x3A00] == b * 512 and (data[0x37E0:0x3800] != b * 32 or data[0x3A00:0x3A20] != b * 32)


def _is_3e(data: bytes) -> bool:
    return _hits(data, b"\x85\x3e\xa9\x00", 1)


def _is_3f(data: bytes) -> bool:
    return _hits(data, b"\x85\x3f", 2)


def _is_ua(data: bytes) -> bool:
    return _hits(data, b"\x8d\x40\x02", 1)


def _is_fe(data: bytes) -> bool:
    return _any_hit(data, _FE)


_Rule = tuple[Callable[[bytes], bool], str]
_TIGERVISION: Final[tuple[_Rule, ...]] = ((_is_3e, "3E"), (_is_3f, "3F"))

# By size: the tests in order, and the mapper if none applies (None: the protocols differ).
_BY_SIZE: Final[dict[int, tuple[tuple[_Rule, ...], str | None]]] = {
    2048: (((_is_cv, "CV"),), "2K"),
    4096: (((_is_cv, "CV"), (_equal_halves, "2K")), "4K"),
    8192: (
        (
            (_is_sc, "F8SC"),
            (_equal_halves, "4K"),
            (_is_e0, "E0"),
            *_TIGERVISION,
            (_is_ua, "UA"),
            (_is_fe, "FE"),
        ),
        "F8",
    ),
    12288: ((), "FASC"),
    16384: (((_is_sc, "F6SC"), (_is_e7, "E7"), *_TIGERVISION), "F6"),
    32768: (((_is_sc, "F4SC"), *_TIGERVISION), "F4"),
    65536: (_TIGERVISION, "MB"),
    131072: (_TIGERVISION, "MC"),
    **dict.fromkeys(DPC_SIZES, ((), "DPC")),
}

# Sizes a mapper can be used with: the test, and how a message names them.
_EXACT: Final = {
    "F8": 8192,
    "F8swap": 8192,
    "F8SC": 8192,
    "E0": 8192,
    "FE": 8192,
    "UA": 8192,
    "FASC": 12288,
    "F6": 16384,
    "F6SC": 16384,
    "E7": 16384,
    "F4": 32768,
    "F4SC": 32768,
    "MB": 65536,
}


def _size_problem(mapper: str, size: int) -> str | None:
    """What sizes the mapper takes, if it does not take this one."""
    if mapper in _EXACT:
        return None if size == _EXACT[mapper] else f"exactly {_EXACT[mapper]} bytes"
    if mapper in ("2K", "4K"):
        least = 2048 if mapper == "2K" else 4096
        return None if size >= least else f"at least {least} bytes"
    if mapper == "CV":
        return None if size in (2048, 4096) else "2048 or 4096 bytes"
    if mapper == "DPC":
        return None if 10240 <= size <= 10496 else "10240 to 10496 bytes"
    if mapper in ("3F", "3E"):
        return None if size and size % 2048 == 0 else "a multiple of 2048 bytes"
    if mapper == "MC":
        return (
            None if size and size % 1024 == 0 and size <= 131072 else "a multiple of 1024 bytes up to 131072"
        )
    if mapper == "AR":
        return None if size and size % AR_LOAD == 0 else f"a multiple of {AR_LOAD} bytes"
    return None


def classify(data: bytes, md5: str, protocol: str) -> str:
    """The mapper a reference chooses for an image by itself (section 6).

    data: the image. md5: its MD5, lower-case hexadecimal. protocol: "ale" or "xitari".
    Raises VcsError for an empty image, and with protocol "ale" for a size no rule covers.
    """
    size = len(data)
    if md5 in _SWAPPED:
        return "F8swap"
    if not size:
        raise VcsError("the cartridge image is empty; give the bytes of a ROM of 2 KiB or more")
    if size % AR_LOAD == 0:
        return "AR"
    rules, otherwise = _BY_SIZE.get(size, (_TIGERVISION, None))
    for test, mapper in rules:
        if test(data):
            return mapper
    if otherwise is None:
        if protocol == "xitari":
            return "4K"
        raise VcsError(
            f"no cartridge type is known for an image of {size} bytes without the code of a 3F or 3E "
            f"cartridge; name one with mapper=, one of {', '.join(MAPPERS)}"
        )
    return otherwise


def detect(data: bytes, md5: str, forced: str | None = None, protocol: str = "ale") -> str:
    """The mapper to use for an image: a key of `MAPPERS`.

    data: the image. md5: its MD5, lower-case hexadecimal. forced: a mapper's name (any case) that decides
    instead of the content; None detects. protocol: "ale" or "xitari".
    Raises VcsError for an unknown name, a size the mapper cannot have, or one the protocol cannot run.
    """
    if forced is None:
        mapper = classify(data, md5, protocol)
    else:
        known = {name.upper(): name for name in MAPPERS}
        if str(forced).upper() not in known:
            raise VcsError(f"there is no cartridge type {forced!r}; known are {', '.join(MAPPERS)}")
        mapper = known[str(forced).upper()]
        if (sizes := _size_problem(mapper, len(data))) is not None:
            raise VcsError(
                f"a {mapper} cartridge needs an image of {sizes}, and this one has {len(data)}; leave "
                f"mapper= out to detect the type"
            )
    if mapper == "AR" and protocol == "xitari":
        raise VcsError("xitari cannot run a Supercharger (AR) cartridge; use protocol='ale'")
    return mapper
