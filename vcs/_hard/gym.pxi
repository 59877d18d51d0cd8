# What a Gymnasium step needs from the machine at full speed: repeated agent steps, and the picture in colour or gray.
# Included at the end of machine.pyx.

from libc.string cimport memcmp


cdef void rgb_rows(const uint8_t* px, int rows, const uint32_t* lut, uint8_t* out) noexcept nogil:
    """Palette indices to RGB. lut: bytes R G B 0 of each index, in memory order.

    Most rows, and of the other rows most stretches of eight pixels, repeat what is above them."""
    cdef int r, x, k
    cdef const uint8_t* p = px
    for r in range(rows):
        if r > 0 and memcmp(p, p - W, W) == 0:
            memcpy(out, out - 3 * W, 3 * W)
            p += W
            out += 3 * W
            continue
        for x in range(0, W, 8):
            if r > 0 and memcmp(p, p - W, 8) == 0:
                memcpy(out, out - 3 * W, 24)
            else:
                for k in range(7):             # four bytes at once; the next pixel overwrites the fourth
                    memcpy(out + 3 * k, &lut[p[k]], 4)
                memcpy(out + 21, &lut[p[7]], 3)
            p += 8
            out += 24


cdef void gray_rows(const uint8_t* px, int rows, const uint8_t* lut, uint8_t* out) noexcept nogil:
    """Palette indices through a table of bytes, as rgb_rows does it."""
    cdef int r, x, k
    cdef const uint8_t* p = px
    for r in range(rows):
        if r > 0 and memcmp(p, p - W, W) == 0:
            memcpy(out, out - W, W)
            p += W
            out += W
            continue
        for x in range(0, W, 8):
            if r > 0 and memcmp(p, p - W, 8) == 0:
                memcpy(out, out - W, 8)
            else:
                for k in range(8):
                    out[k] = lut[p[k]]
            p += 8
            out += 8


def play(Core core not None, int action, int frames, float strength=1.0):
    """`frames` frames with one action, whatever frame_skip is; returns the sum of their rewards (int)."""
    cdef int total
    cdef VCS* m = core._mine()
    core.busy = True
    with nogil:
        total = env_play(m, action, strength, frames)
    core.busy = False
    core._check()
    return total


def picture_rgb(Core core not None, const uint32_t[::1] lut not None):
    """uint8[rows, 160, 3]: the picture in colour. lut: uint32[256], bytes R G B 0 of each palette index."""
    if lut.shape[0] != 256:
        raise VcsError(f"the colour table has {lut.shape[0]} entries; pass 256")
    out = np.empty((core.m.h, W, 3), np.uint8)
    cdef uint8_t[:, :, ::1] view = out
    cdef VCS* m = core._mine()
    core.busy = True
    with nogil:
        rgb_rows(m.cur.px, m.h, &lut[0], &view[0, 0, 0])
    core.busy = False
    return out


def picture_gray(Core core not None, const uint8_t[::1] lut not None):
    """uint8[rows, 160]: the picture through a table of bytes (uint8[256])."""
    if lut.shape[0] != 256:
        raise VcsError(f"the gray table has {lut.shape[0]} entries; pass 256")
    out = np.empty((core.m.h, W), np.uint8)
    cdef uint8_t[:, ::1] view = out
    cdef VCS* m = core._mine()
    core.busy = True
    with nogil:
        gray_rows(m.cur.px, m.h, &lut[0], &view[0, 0])
    core.busy = False
    return out


def run_program(Core core not None, int entry):
    """Run the game's program once on the RAM as it is, without a frame; returns (reward, over, lives). For tests.

    entry: `vcs.games.H_INIT` .. `H_START`. Raises VcsError if the program is damaged or does not end."""
    if not P_INIT <= entry <= P_START:
        raise VcsError(f"entry {entry} does not exist; use vcs.games.H_INIT to H_START")
    cdef VCS* m = core._mine()
    m.fault = 0
    core.busy = True
    with nogil:
        prog_run(m, entry)
    core.busy = False
    core._check()
    if core.m.fault == FAULT_PROGRAM:
        raise VcsError("the game's program is damaged or ran too long; check the game table")
    return core.m.s.reward, core.m.s.over, core.m.s.lives
