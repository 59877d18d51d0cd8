# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: nonecheck=False, embedsignature=True
"""The hard machine: the bus, the frame, and the Python class over them.

One translation unit: the chips are included below, one a file, so that the compiler can inline across
them. Everything down to `class Core` is plain C: no Python object, no global state, no GIL.
"""
import hashlib
import struct

import numpy as np

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport exp
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from vcs._hard.state cimport *
from vcs.errors import VcsError

cnp.import_array()

cdef extern from *:
    """
    #define vcs_ref_add(p) __atomic_add_fetch((p), 1, __ATOMIC_RELAXED)
    #define vcs_ref_sub(p) __atomic_sub_fetch((p), 1, __ATOMIC_ACQ_REL)
    #define vcs_ref_get(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    """
    int64_t vcs_ref_add(int64_t*) nogil
    int64_t vcs_ref_sub(int64_t*) nogil
    int64_t vcs_ref_get(int64_t*) nogil
    int __builtin_ctz(unsigned int) nogil

cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t, size_t)


# ------------------------------------------------------------------------------------------- pictures

cdef Frame* frame_room() noexcept nogil:
    """Room for a picture, aligned to 64 bytes; its content is undefined, its one owner the caller. NULL: none left."""
    cdef Frame* f = <Frame*>aligned_alloc(64, (sizeof(Frame) + 63) & ~<size_t>63)
    if f != NULL:
        f.refs = 1
    return f


cdef Frame* frame_new() noexcept nogil:
    """A black picture, or NULL."""
    cdef Frame* f = frame_room()
    if f != NULL:
        memset(f.px, 0, sizeof(f.px))
    return f


cdef inline Frame* frame_share(Frame* f) noexcept nogil:
    vcs_ref_add(&f.refs)
    return f


cdef inline void frame_drop(Frame* f) noexcept nogil:
    if f != NULL and vcs_ref_sub(&f.refs) == 0:
        free(f)


cdef inline void own_picture(VCS* m, Frame** slot) noexcept nogil:
    """Make a picture private before it is drawn on: a snapshot may hold it too."""
    cdef Frame* f
    if vcs_ref_get(&slot[0].refs) == 1:
        return
    f = frame_room()
    if f == NULL:
        m.oom = 1                      # draw on the shared one rather than crash; Core raises MemoryError
        return
    memcpy(f.px, slot[0].px, sizeof(f.px))
    frame_drop(slot[0])
    slot[0] = f


# ----------------------------------------------------------------------------------------------- chips

cdef inline void leave_window(VCS* m) noexcept nogil:
    """An access asked to stop or changed the mapping: the CPU looks for its code anew before the next instruction, and
    data of the window are read the slow way until then."""
    m.event = 1
    m.win_span = 0
    m.win_end = 0


include "rng.pxi"
include "riot.pxi"
include "tia.pxi"
include "cart.pxi"


# ------------------------------------------------------------------------------------------------- bus

cdef uint32_t slow_read(VCS* m, uint32_t ea, uint32_t prev, uint32_t cyc) noexcept nogil:
    """Everything that is neither RAM nor plain ROM. `prev` is the byte on the bus before (tia.md 12)."""
    m.s.cycles = cyc
    m.s.latch = <uint8_t>prev
    if ea & 0x1000:
        return cart_read(m, ea)
    if ea & 0x80 and ea & 0x200:
        return riot_read(m, ea)
    if m.low_page and (ea & 0x1FFF) < 0x40:
        return cart_read(m, ea)
    if m.ua_pages and (ea & 0x1F80) == 0x200:
        return cart_read(m, ea)
    return tia_read(m, ea)


cdef uint32_t bus_read(VCS* m, uint32_t ea, uint32_t prev, uint32_t cyc) noexcept nogil:
    if ea & 0x1000:
        if (ea & 0xFFF) - m.fast_lo < m.fast_n:
            return m.seg[((ea >> 10) & 3) | ((ea >> 11) & 4)][ea & 0x3FF]
    elif (ea & 0x280) == 0x80:
        return m.s.ram[ea & 0x7F]
    return slow_read(m, ea, prev, cyc)


cdef inline uint32_t low_read(VCS* m, uint32_t ea, uint32_t prev, uint32_t cyc) noexcept nogil:
    """A read below $0080."""
    m.s.cycles = cyc
    m.s.latch = <uint8_t>prev
    if m.low_page and ea < 0x40:
        return cart_read(m, ea)
    return tia_read(m, ea)


cdef uint32_t low_store(VCS* m, uint32_t ea, uint32_t v, uint32_t cyc) noexcept nogil:
    """A store below $0080 that low_write (tia.pxi) leaves over; returns the cycle counter."""
    if not m.low_page or ea >= 0x40:
        return tia_write(m, ea, v, cyc)
    m.s.cycles = cyc
    cart_write(m, ea, v)
    return m.s.cycles


cdef uint32_t bus_write(VCS* m, uint32_t ea, uint32_t v, uint32_t cyc) noexcept nogil:
    cdef uint32_t a = ea & 0x1FFF
    m.s.cycles = cyc
    if a & 0x1000:
        cart_write(m, ea, v)
    elif a & 0x80:
        if a & 0x200:
            riot_write(m, ea, v)
        else:
            m.s.ram[a & 0x7F] = <uint8_t>v
    elif (m.low_page and a < 0x40) or (m.ua_pages and (a & 0x1F80) == 0x200):
        cart_write(m, ea, v)
    else:
        return tia_write(m, ea, v, cyc)
    return m.s.cycles


cdef int bus_peek(VCS* m, int addr) noexcept nogil:
    """The byte at an address without side effects; for TIA and RIOT registers the stored one."""
    cdef uint32_t a = <uint32_t>addr & 0xFFFF
    if a & 0x1000:
        return cart_peek(m, a)
    if a & 0x80:
        if not a & 0x200:
            return m.s.ram[a & 0x7F]
        if a & 7 == 0:
            return m.s.swcha
        if a & 7 == 1:
            return m.s.swacnt
        return m.s.swchb if a & 7 == 2 else 0
    return m.s.tia.regs[a & 0x3F]


# ------------------------------------------------------------------------------------------------- CPU

cdef uint32_t decimal(uint32_t b) noexcept nogil:
    return 10 * (b >> 4) + (b & 15)


cdef uint32_t adc_decimal(uint32_t a, uint32_t o, uint32_t c) noexcept nogil:
    """cpu.md 7.3; result in bits 0-7, carry bit 8, overflow bit 9."""
    cdef uint32_t t = decimal(a) + decimal(o) + c, u = (t & 0xFF) % 100
    cdef uint32_t r = ((u // 10) << 4) + u % 10
    return r | (0x100 if t > 99 else 0) | ((((a ^ r) & (r ^ o)) & 0x80) << 2)


cdef uint32_t sbc_decimal(uint32_t a, uint32_t o, uint32_t c) noexcept nogil:
    """cpu.md 7.4."""
    cdef int t = <int>decimal(a) - <int>decimal(o) - (1 - <int>c)
    cdef uint32_t r
    if t < 0:
        t += 100
    if t >= 0:
        r = (((t % 100) // 10) << 4) + (t % 100) % 10
    else:
        r = decimal(256 + t)
    r &= 0xFF
    return r | (0x100 if a >= o + (1 - c) else 0) | ((((a ^ r) & (r ^ o)) & 0x80) << 2)


cdef uint32_t skip_timer_loop(VCS* m, uint32_t pc, int bit, uint32_t cyc, int32_t budget) noexcept nogil:
    """A read of INTIM at pc - 3 followed by a branch back to it: charge the rounds that certainly loop.

    While the timer runs its reads have no side effect and no other access happens, so the machine after
    k rounds differs in the counter only: the read that follows is the first that may leave the loop. Returns the
    rounds (two instructions each); m.loop_cycles is what one takes."""
    cdef State* s = &m.s
    cdef const uint8_t* code
    cdef uint32_t t = (pc & 0xFFF) - m.fast_lo, delta, limit, per, k, left = <uint32_t>s.tim_n
    cdef int32_t value
    if not pc & 0x1000 or t >= m.fast_n or t + 1 >= m.fast_n or (pc & 0x3FF) >= 0x3FE:
        return 0
    code = m.seg[((pc >> 10) & 3) | ((pc >> 11) & 4)] + (pc & 0x3FF)
    if code[1] != 0xFB:
        return 0
    per = 8 if ((pc + 2) ^ (pc - 3)) & 0xFF00 else 7
    delta = cyc - <uint32_t>s.tim_t - 1
    value = <int32_t>left - <int32_t>(delta >> s.tim_shift) - 1
    if value < 0 or delta > 0x7FFFFFFF:
        return 0
    if code[0] == 0xD0 and not bit:        # BNE: until 0
        limit = (left - 1) << s.tim_shift
    elif code[0] == 0x10 and value < 0x80:  # BPL: until it has expired
        limit = left << s.tim_shift
    elif code[0] == 0x30 and value >= 0x80:  # BMI: until below 128
        limit = (left - 128) << s.tim_shift
    else:
        return 0
    if delta >= limit:
        return 0
    k = (limit - delta + per - 1) // per
    if k > <uint32_t>(budget >> 1):
        k = <uint32_t>(budget >> 1)
    m.loop_cycles = per
    return k


cdef struct Flat:
    uint8_t a, x, y, sp, p, jam, latch
    uint16_t pc
    uint32_t cycles
    uint8_t* mem
    int32_t n                  # accesses logged
    uint32_t log[64][4]        # kind (0 read, 1 write), address, value, cycle counter


cdef inline uint32_t flat_read(Flat* f, uint32_t ea, uint32_t cyc) noexcept nogil:
    cdef uint32_t v = f.mem[ea & 0xFFFF]
    if f.n < 64:
        f.log[f.n][0] = 0
        f.log[f.n][1] = ea & 0xFFFF
        f.log[f.n][2] = v
        f.log[f.n][3] = cyc
        f.n += 1
    return v


cdef inline void flat_write(Flat* f, uint32_t ea, uint32_t v, uint32_t cyc) noexcept nogil:
    f.mem[ea & 0xFFFF] = <uint8_t>v
    if f.n < 64:
        f.log[f.n][0] = 1
        f.log[f.n][1] = ea & 0xFFFF
        f.log[f.n][2] = v & 0xFF
        f.log[f.n][3] = cyc
        f.n += 1


include "trace.pxi"


cdef bint code_window(VCS* m, uint32_t pc) noexcept nogil:
    """The run of addresses around pc that reads without side effects from adjacent memory; False if an
    instruction at pc could reach past it. The last three bytes stay out: no instruction runs off the end.
    Addresses win_lo <= a < win_lo + win_span read m.win_base[a - win_lo]."""
    cdef uint32_t o = pc & 0xFFF, lo = m.fast_lo, hi = m.fast_lo + m.fast_n, i, first, last
    cdef const uint8_t** seg = &m.seg[4 if pc & 0x2000 else 0]
    if not pc & 0x1000 or o < lo or o + 3 >= hi:
        return False
    i = o >> 10
    first = i
    while first > 0 and seg[first - 1] + 1024 == seg[first]:
        first -= 1
    last = i
    while last < 3 and seg[last] + 1024 == seg[last + 1]:
        last += 1
    if lo < first << 10:
        lo = first << 10
    if hi > (last + 1) << 10:
        hi = (last + 1) << 10
    if o + 3 >= hi:
        return False
    m.win_base = seg[first] + (lo - (first << 10))
    m.win_lo = (pc & 0xF000) | lo
    m.win_span = hi - 3 - lo
    return True


include "relax.pxi"


include "cpu.pxi"


cdef void run_batch(VCS* m, int32_t budget) noexcept nogil:
    """Up to `budget` instructions, until a device asks to stop (cpu.md 4.4)."""
    while True:
        budget = run_plain(m, budget)
        if budget <= 0 or m.s.stop or m.s.jam:
            return
        run_slow(m, 1)
        budget -= 1
        if budget <= 0 or m.s.stop or m.s.jam:
            return


cdef void cpu_reset(VCS* m) noexcept nogil:
    """cpu.md 2.4: the vector is read through the bus at counter 0."""
    cdef State* s = &m.s
    cdef uint32_t lo, hi
    s.jam = 0
    s.a = s.x = s.y = 0
    s.sp = 0xFF
    s.p = 0x30
    lo = bus_read(m, 0xFFFC, s.latch, 0)
    hi = bus_read(m, 0xFFFD, lo, 0)
    s.latch = <uint8_t>hi
    s.pc = <uint16_t>(lo | (hi << 8))


# -------------------------------------------------------------------------------------- reset and frame

cdef void rebase(VCS* m) noexcept nogil:
    """Restart the cycle counter at 0 (cpu.md 11)."""
    cdef uint32_t c = m.s.cycles
    riot_rebase(m, c)
    tia_rebase(m, c)
    cart_rebase(m, c)
    m.s.cycles_total += c
    m.s.cycles = 0


cdef void system_reset(VCS* m) noexcept nogil:
    """cpu.md 10.2; riot.md 5; environment.md 4.2: what the ale protocol draws at each reset."""
    cdef uint32_t n = 25
    cdef int i
    rebase(m)
    if m.ale:
        n += mt_next(&m.s.sys) % 75
    riot_reset(m, n)
    tia_reset(m)
    if m.ale:
        for i in range(m.cart_ram_random):
            m.cart_ram[i] = <uint8_t>(mt_next(&m.s.sys) & 0xFF)
    cart_reset(m)
    cpu_reset(m)


cdef inline void swap_pictures(VCS* m) noexcept nogil:
    cdef Frame* f = m.cur
    m.cur = m.prev
    m.prev = f


cdef void frame_begin(VCS* m) noexcept nogil:
    """tia.md 4.1."""
    cdef Tia* t = &m.s.tia
    cdef int32_t k
    cdef int i
    m.cut = 228 * (m.maxline + 1)
    if not t.inprogress:
        swap_pictures(m)
        k = (<int32_t>(3 * m.s.cycles) - t.F) % 228
        if k < 0:
            k += 228
        rebase(m)
        t.F = -k
        t.D0 = t.F + 228 * m.y0
        t.D1 = t.D0 + 228 * m.h
        t.L = t.D0
        t.E = 228
        t.ptr = 0
        if m.pal:
            for i in range(4):
                t.colu[i] = (t.colu[i] & 0xFE) | <uint8_t>(t.lastlines & 1)
        t.greyed = 0
        t.inprogress = 1
    own_picture(m, &m.cur)
    m.s.stop = 0


cdef void frame_end(VCS* m) noexcept nogil:
    """tia.md 4.4, 4.5, 4.9."""
    cdef Tia* t = &m.s.tia
    cdef int i, first
    cdef int64_t clocks = <int64_t>3 * m.s.cycles - t.F
    render_all(m, NOTHING)
    m.short_frame = t.L < t.D1
    t.lines = <int32_t>(clocks // 228)
    if m.s.stop:
        t.inprogress = 0
        t.lastlines = t.lines
        t.greyed = 0
    elif not t.greyed and not m.skipping:
        t.greyed = 1
        first = (t.lines if t.lines > m.y0 else m.y0) - m.y0
        for i in range(first * W, m.h * W):
            m.cur.px[i] = (m.cur.px[i] & 15) >> 1
        if m.tr != NULL and m.tr.pictures and first < m.h:
            memset(m.tr.winner + first * W, 255, W)    # what was drawn of the line shows no object's colour


cdef inline void cut_all(VCS* m, bint exact) noexcept nogil:
    """Whether every store cuts the run of pixels (tia.pxi), and so whether stores may take the quick way (low_write):
    not where they are traced, nor where a mapper watches page 0. After frame_begin."""
    m.exact = exact
    m.line0 = m.s.tia.F // 3
    m.quick_end = 0 if exact or m.low_page or m.tr != NULL else <uint32_t>(m.cut // 3 + m.line0)


cdef inline size_t before_streams(VCS* m) noexcept nogil:
    """Bytes of State up to the random streams: all that a frame can change."""
    return <size_t>(<char*>&m.s.sys - <char*>&m.s)


cdef inline void keep(VCS* m, State* state, uint8_t* ram, size_t n) noexcept nogil:
    """Copy the first n bytes of the machine's State, and the cartridge RAM if there is any."""
    memcpy(state, &m.s, n)
    if m.cart_ram_size:
        memcpy(ram, m.cart_ram, m.cart_ram_size)


cdef inline void put_back(VCS* m, const State* state, const uint8_t* ram, size_t n) noexcept nogil:
    """Undo what happened since `keep`; what is derived is for the caller to see to."""
    memcpy(&m.s, state, n)
    if m.cart_ram_size:
        memcpy(m.cart_ram, ram, m.cart_ram_size)


cdef void run_frame(VCS* m) noexcept nogil:
    """One frame call (tia.md 4): at most 25000 instructions.

    The quick way (tia.pxi) is right but for what stays visible past the end of a frame that was not drawn
    to its last line; such a frame is run again from its start, cut at every store."""
    cdef State* s = &m.s
    if m.ghost and not m.skipping:
        draw_ghost(m)
    frame_begin(m)
    if m.tr != NULL:
        cut_all(m, True)
        if trace_frame_begin(m):
            run_traced(m, 25000)
            render(m, NOTHING)
            frame_end(m)
            trace_frame_end(m)
        return
    if m.relaxed:
        cut_all(m, True)
        run_relaxed(m, 25000)
        frame_end(m)
        return
    if m.skipping:
        cut_all(m, False)
        if m.ghosting:
            keep_ghost(m)
        run_batch(m, 25000)
        frame_end(m)
        if not s.stop or ((m.draw or m.ghosting) and m.short_frame):
            m.skip_bad = 1
        return
    cut_all(m, m.short_frame or not m.opt & 1)
    if not m.exact:
        keep(m, &m.bak, m.bak_ram, before_streams(m))
    run_batch(m, 25000)
    if not m.exact:
        render(m, NOTHING)
        if s.tia.L < s.tia.D1:
            put_back(m, &m.bak, m.bak_ram, before_streams(m))
            cart_map(m)
            all_dirty(m)
            m.pend = NOTHING
            cut_all(m, True)
            run_batch(m, 25000)
    frame_end(m)


cdef bint skip_begin(VCS* m) noexcept nogil:
    """Start frames of which only the last pictures can be seen; the caller sets m.draw = 0 for the others.

    What a drawn frame leaves undrawn is older content of its buffer, so leaving pictures out is right only
    while every seen frame is drawn to its last line and every frame is finished. The state is kept; skip_end
    says whether that held and goes back if not. Going back needs no copy of the pictures: the rows that the
    seen frames drew are drawn by them again, the others were not touched. False: draw everything.

    The last frame but one may be left out too (m.ghosting): it is held to the same, and draw_ghost can draw it
    later."""
    if m.skip_wait > 0:
        m.skip_wait -= 1
        return False
    if not m.opt & 4 or m.tr != NULL or m.relaxed or m.short_frame or not m.draw or m.edits != NULL:
        return False
    own_picture(m, &m.cur)
    own_picture(m, &m.prev)
    if m.oom:
        return False
    m.skip_cur = m.cur
    keep(m, &m.skip_state, m.skip_ram, sizeof(State))
    m.skipping = 1
    m.skip_bad = 0
    m.ghost_kept = 0
    return True


cdef bint skip_end(VCS* m, bint whole) noexcept nogil:
    """True if the pictures are right (`whole`: all frames ran); False: the machine is where skip_begin found it."""
    m.skipping = 0
    if whole and not m.skip_bad:
        m.ghost = m.ghost_kept
        m.ghost_at ^= m.ghost_kept
        return True
    if m.skip_bad:
        m.skip_wait = 64               # such frames come in rows; do not try for a while
    put_back(m, &m.skip_state, m.skip_ram, sizeof(State))
    if m.cur != m.skip_cur:
        swap_pictures(m)
    vcs_derive(m)
    return False


cdef void keep_ghost(VCS* m) noexcept nogil:
    """Keep the machine as it is at the start of an undrawn frame, so that the frame can be drawn later."""
    cdef int at = m.ghost_at ^ 1
    keep(m, &m.ghost_state[at], m.ghost_ram + at * m.cart_ram_size, before_streams(m))
    m.ghost_kept = 1


cdef void draw_ghost(VCS* m) noexcept nogil:
    """Draw the picture before the last one, if a long step left it out: its frame runs again. It was drawn to its
    last line, so older content of its buffer does not matter. Whoever looks at previous pictures, or keeps them,
    is likely to go on doing so: the next steps draw both."""
    cdef TraceBuf* tr = m.tr
    cdef int32_t pend = m.pend, short_frame = m.short_frame
    if not m.ghost:
        return
    m.ghost = 0
    m.ghost_wait = 64
    m.tr = NULL
    keep(m, &m.bak, m.bak_ram, before_streams(m))
    put_back(m, &m.ghost_state[m.ghost_at], m.ghost_ram + m.ghost_at * m.cart_ram_size, before_streams(m))
    swap_pictures(m)
    own_picture(m, &m.cur)
    vcs_derive(m)
    cut_all(m, False)
    run_batch(m, 25000)
    render(m, NOTHING)
    put_back(m, &m.bak, m.bak_ram, before_streams(m))
    swap_pictures(m)
    vcs_derive(m)
    m.pend = pend
    m.short_frame = short_frame
    m.tr = tr


include "env.pxi"


# -------------------------------------------------------------------------------------------- lifetime

cdef VCS* vcs_new() noexcept nogil:
    cdef VCS* m = <VCS*>calloc(1, sizeof(VCS))
    if m == NULL:
        return NULL
    m.cur = frame_new()
    m.prev = frame_new()
    if m.cur == NULL or m.prev == NULL:
        vcs_free(m)
        return NULL
    all_dirty(m)
    m.pend = m.calm_to = NOTHING
    m.opt = OPT_ALL
    m.draw = 1
    return m


cdef void vcs_free(VCS* m) noexcept nogil:
    if m == NULL:
        return
    frame_drop(m.cur)
    frame_drop(m.prev)
    free(m.cart_ram)
    free(m.bak_ram)
    free(m.skip_ram)
    free(m.ghost_ram)
    trace_free(m.tr)
    free(m)


cdef bint alloc_cart_ram(VCS* m) noexcept nogil:
    """Cartridge RAM and its shadows (frames run twice, steps taken twice, pictures drawn later), zeroed."""
    cdef uint8_t* ram = <uint8_t*>calloc(1, m.cart_ram_size + 1024)
    cdef uint8_t* bak = <uint8_t*>calloc(1, m.cart_ram_size + 1024)
    cdef uint8_t* skip = <uint8_t*>calloc(1, m.cart_ram_size + 1024)
    cdef uint8_t* ghost = <uint8_t*>calloc(2, m.cart_ram_size + 1)
    if ram == NULL or bak == NULL or skip == NULL or ghost == NULL:
        free(ram)
        free(bak)
        free(skip)
        free(ghost)
        return False
    free(m.cart_ram)
    free(m.bak_ram)
    free(m.skip_ram)
    free(m.ghost_ram)
    m.cart_ram = ram
    m.bak_ram = bak
    m.skip_ram = skip
    m.ghost_ram = ghost
    return True


cdef void vcs_derive(VCS* m) noexcept nogil:
    """Rebuild what follows from State after it was replaced."""
    cart_map(m)
    all_dirty(m)
    m.pend = NOTHING
    m.calm_to = NOTHING
    m.short_frame = 0
    m.cut = 228 * (m.maxline + 1)


cdef bint state_valid(VCS* m, State* s) noexcept nogil:
    """Whether a state from outside can be run: everything used as an index is in range."""
    cdef Tia* t = &s.tia
    cdef int i
    cdef State keep
    cdef bint good
    for i in range(5):
        if t.pos[i] >= W or t.hm[i] > 15:
            return False
    for i in range(2):
        if t.enam[i] > 1 or t.refp[i] > 1 or t.vdelp[i] > 1 or t.resmp[i] > 1 or t.skip[i] > 1:
            return False
    if t.m0mode > 2 or t.reflect > 1 or t.arkcnt > 3 or t.vdelbl > 1 or t.enabl_new > 1 or t.enabl_old > 1:
        return False
    if t.pf >> 20 or s.tim_shift > 10 or t.inprogress > 1:
        return False
    if t.E < 0 or t.E > 228 or t.ptr < 0 or t.ptr > W * ROWS or t.F > 0 or t.F <= -228 or t.F % 3:
        return False
    if t.D0 != t.F + 228 * m.y0 or t.D1 != t.D0 + 228 * m.h or t.L > t.D1 + 228 or t.L < t.F:
        return False
    # a renderer behind its clock would catch up in one call: bound what it can have to draw
    if (t.D1 - t.L) > 228 * ROWS or t.D1 - t.L < -228:
        return False
    for i in range(8):
        if s.dpc_counter[i] > 0x7FF:
            return False
    memcpy(&keep, &m.s, sizeof(State))
    memcpy(&m.s, s, sizeof(State))
    good = cart_valid(m)
    memcpy(&m.s, &keep, sizeof(State))
    return good


# ------------------------------------------------------------------------------------------------ Python

SNAPSHOT_VERSION = 2
_MAGIC = b"VCSS"


cdef class Snapshot:
    """A whole machine at one moment: registers, RAM, cartridge RAM, random streams, both pictures.

    Cheap to take (pictures are shared until one side draws), picklable, hashable by content through
    ``digest``. Restore it with ``Machine.restore``. Its bytes carry a version, the SHA-256 of the ROM and of
    themselves; damaged or foreign ones are refused (VcsError).

    rom_sha256: hash of the cartridge image, hexadecimal. rows: height of the pictures."""
    cdef State s
    cdef Frame* cur
    cdef Frame* prev
    cdef bytes cart
    cdef readonly str rom_sha256
    cdef readonly int rows

    def __cinit__(self):
        self.cur = NULL
        self.prev = NULL

    def __dealloc__(self):
        frame_drop(self.cur)
        frame_drop(self.prev)

    @property
    def ram(self):
        """uint8[128]: RIOT RAM at that moment."""
        out = np.empty(128, np.uint8)
        cdef uint8_t[::1] view = out
        memcpy(&view[0], self.s.ram, 128)
        return out

    @property
    def frame(self):
        """Frames the agent had played."""
        return self.s.frame

    def to_bytes(self):
        """Serialise (about 102 KB)."""
        if self.cur == NULL:
            raise VcsError("the snapshot is empty; take one with snapshot()")
        body = (self.rom_sha256.encode() + struct.pack("<iii", self.rows, len(self.cart), sizeof(State))
                + PyBytes_FromStringAndSize(<char*>&self.s, sizeof(State)) + self.cart
                + PyBytes_FromStringAndSize(<char*>self.cur.px, W * ROWS)
                + PyBytes_FromStringAndSize(<char*>self.prev.px, W * ROWS))
        return _MAGIC + struct.pack("<I", SNAPSHOT_VERSION) + hashlib.sha256(body).digest() + body

    @staticmethod
    def from_bytes(data):
        """Parse ``to_bytes``. Raises VcsError for anything damaged, truncated or of another version."""
        cdef Snapshot snap = Snapshot()
        cdef bytes raw = bytes(data)
        cdef const char* p
        cdef Py_ssize_t rows, n, size
        if len(raw) < 40 or raw[:4] != _MAGIC:
            raise VcsError("this is not a snapshot: its first bytes are not VCSS; pass what Snapshot.to_bytes gave")
        version = struct.unpack("<I", raw[4:8])[0]
        if version != SNAPSHOT_VERSION:
            raise VcsError(f"the snapshot has version {version}, this program reads version {SNAPSHOT_VERSION}; "
                           "take it again with this version")
        body = raw[40:]
        if hashlib.sha256(body).digest() != raw[8:40]:
            raise VcsError("the snapshot is damaged: its checksum does not match; take it again")
        if len(body) < 76:
            raise VcsError("the snapshot is damaged: it is too short; take it again")
        rows, n, size = struct.unpack("<iii", body[64:76])
        if size != sizeof(State) or n < 0 or len(body) != 76 + size + n + 2 * W * ROWS:
            raise VcsError("the snapshot is damaged or from another build: its lengths do not fit; take it again")
        snap.rom_sha256 = body[:64].decode("ascii", "replace")
        snap.rows = <int>rows
        p = PyBytes_AS_STRING(body)
        memcpy(&snap.s, p + 76, sizeof(State))
        snap.cart = body[76 + size:76 + size + n]
        snap.cur = frame_new()
        snap.prev = frame_new()
        if snap.cur == NULL or snap.prev == NULL:
            raise MemoryError
        memcpy(snap.cur.px, p + 76 + size + n, W * ROWS)
        memcpy(snap.prev.px, p + 76 + size + n + W * ROWS, W * ROWS)
        return snap

    @property
    def digest(self):
        """SHA-256 of the content, hex."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def __reduce__(self):
        return Snapshot.from_bytes, (self.to_bytes(),)

    def __eq__(self, other):
        return isinstance(other, Snapshot) and self.to_bytes() == other.to_bytes()

    def __hash__(self):
        return hash(self.to_bytes())


cdef class Core:
    """The hard machine behind ``vcs.Machine``; takes parsed facts, checks ranges, adds no policy.

    rom: bytes. mapper: number of ``vcs.cart.MAPPERS``. program: int32 array of ``vcs.games`` or None. The other
    arguments are properties (environment.md 2) and settings (6.6). Raises VcsError, MemoryError."""

    def __cinit__(self, *args, **kwargs):
        self.m = vcs_new()
        if self.m == NULL:
            raise MemoryError

    def __dealloc__(self):
        trace_free(self.spare)
        vcs_free(self.m)

    def __init__(self, bytes rom, int mapper, *, bint ale=True, int y0=34, int height=210, int format=0,
                 bint hmove_blanks=True, int paddles=0, bint swap_ports=False, bint swap_paddles=False, int swchb=0x3F,
                 int paddle_min=27450, int paddle_max=790196, program=None, uint32_t system_seed=4753849,
                 uint32_t cart_seed=0, uint32_t sticky_seed=0, double sticky_p=0.0, int frame_skip=1, int max_frames=0,
                 int reward_min=-2147483648, int reward_max=2147483647, bint trunc_on_life=False):
        cdef VCS* m = self._mine()
        cdef const int32_t[::1] code
        if not 0 <= mapper < M_COUNT:
            raise VcsError(f"mapper number {mapper} is unknown; known are 0 to {M_COUNT - 1}")
        if not (0 <= y0 <= 100 and 1 <= height <= 256 and y0 + height <= ROWS):
            raise VcsError(f"YStart {y0} and Height {height} do not fit: their sum must be at most {ROWS}")
        if not rom:
            raise VcsError("the ROM is empty; pass the bytes of a cartridge image")
        # padding: a short file reads 0 in the rest of its window, and a fetch may look two bytes ahead
        self.rom_padded = rom + bytes(max(4096 - len(rom), 0) + 4096)
        self.rom_len = len(rom)
        self.rom_sha256 = hashlib.sha256(rom).hexdigest()
        m.rom = <const uint8_t*>PyBytes_AS_STRING(self.rom_padded)
        m.rom_size = <int32_t>len(rom)
        m.mapper = mapper
        m.ale = ale
        m.y0 = y0
        m.h = height
        m.format = format
        m.hmove_blanks = hmove_blanks
        m.paddles = paddles
        m.swap_ports = swap_ports
        m.swap_paddles = swap_paddles
        m.swchb0 = <uint8_t>swchb
        m.paddle_min = paddle_min
        m.paddle_max = paddle_max
        m.cart_seed = cart_seed
        m.sticky_p = sticky_p
        m.frame_skip = frame_skip
        m.max_frames = max_frames
        m.reward_min = reward_min
        m.reward_max = reward_max
        m.trunc_on_life = trunc_on_life
        m.cart_ram_size = cart_ram_bytes(mapper, m.rom_size)
        m.cart_ram_random = cart_ram_random_bytes(mapper, m.rom_size)
        if not alloc_cart_ram(m):
            raise MemoryError
        self.program = None
        m.prog = NULL
        m.prog_len = 0
        if program is not None:
            self.program = np.ascontiguousarray(program, np.int32)
            code = self.program
            if code.shape[0] < 1 or not prog_valid(&code[0], <int32_t>code.shape[0]):
                raise VcsError("the game's program has no valid header; pass what vcs.games.compile_rules gave")
            m.prog = &code[0]
            m.prog_len = <int32_t>code.shape[0]
        with nogil:
            memset(&m.s, 0, sizeof(State))
            mt_seed(&m.s.sticky, sticky_seed)
            cart_power_on(m)
            env_power_on(m, system_seed)

    cdef VCS* _mine(self) except NULL:
        """The machine, for the calling thread alone. Whoever lets go of the GIL sets `busy` meanwhile."""
        if self.busy:
            raise VcsError("this machine is running on another thread; give each thread its own, made with clone()")
        return self.m

    # ------------------------------------------------------------------ running
    def boot(self):
        """reset_game of the protocol (environment.md 3, 4). Raises VcsError if a mode rule gives up."""
        cdef VCS* m = self._mine()
        cdef int fault
        self.busy = True
        with nogil:
            fault = env_boot(m)
        self.busy = False
        self._check()
        if fault == FAULT_MODE:
            raise VcsError("the game never reached the mode asked for; pick another mode")
        if fault:
            raise VcsError("the game's program is damaged or ran too long; check the game table")

    def act(self, int action, float strength=1.0):
        """One agent step; returns the reward (int)."""
        cdef VCS* m = self._mine()
        cdef int r
        self.busy = True
        with nogil:
            r = env_act(m, action, strength)
        self.busy = False
        self._check()
        return r

    def run(self, actions):
        """Many agent steps without returning to Python; actions: integer array. Returns int32 rewards."""
        cdef const int32_t[::1] a = np.ascontiguousarray(actions, np.int32)
        out = np.zeros(a.shape[0], np.int32)
        cdef int32_t[::1] r = out
        cdef Py_ssize_t i
        cdef VCS* m = self._mine()
        self.busy = True
        with nogil:
            for i in range(a.shape[0]):
                r[i] = env_act(m, a[i], 1.0)
        self.busy = False
        self._check()
        return out

    def system_reset(self):
        """The console's reset line: RIOT, TIA, cartridge, CPU (cpu.md 10.2)."""
        system_reset(self._mine())
        self._check()

    def run_frame(self):
        """One frame call with the inputs as they are; no environment step."""
        cdef VCS* m = self._mine()
        self.busy = True
        with nogil:
            run_frame(m)
        self.busy = False
        self._check()

    def step_instruction(self):
        """One instruction; starts and ends frames as they come. Returns True if it ended a frame."""
        cdef VCS* m = self._mine()
        draw_ghost(m)
        frame_begin(m)
        cut_all(m, True)
        if m.relaxed:
            run_relaxed(m, 1)
        else:
            run_slow(m, 1)
        self._check()
        if m.s.stop:
            frame_end(m)
            return True
        render(m, NOTHING)
        return False

    def set_inputs(self, int action_a=0, int action_b=0, float strength=1.0, int keys=0):
        """Hold controllers and keys (1 RESET, 2 SELECT) for the frames that follow."""
        env_set_inputs(self._mine(), action_a, action_b, strength, keys)

    cdef _check(self):
        if self.m.oom:
            self.m.oom = 0
            raise MemoryError

    # ------------------------------------------------------------------ tracing
    def record(self, actions, bint pictures=True, bint raw_frames=False):
        """Run agent steps (or, with raw_frames, frame calls with the inputs as they are) traced.

        Returns a dict of structured arrays, the rows of docs/design.md, and `rewards`."""
        a = np.ascontiguousarray(actions, np.int32)
        rewards = np.zeros(len(a), np.int32)
        cdef TraceRows owner = recorded(self, a, rewards, pictures, raw_frames)
        cdef TraceBuf* tr = owner.tr
        out = {name: rows.copy() for name, rows in owner.rows().items()}
        out["rewards"] = rewards
        if pictures:
            both = owner.array(tr.screens, 2 * tr.n_frame * self.m.h * W, 1, np.dtype(np.uint8))
            both = both.reshape(tr.n_frame, 2, self.m.h, W)
            out["screens"] = both[:, 0].copy()
            out["winner"] = both[:, 1].copy()
        return out

    # ------------------------------------------------------------------ state
    def snapshot(self):
        """The machine at this moment, to be restored into any machine of the same ROM and settings."""
        cdef VCS* m = self._mine()
        cdef Snapshot snap = Snapshot.__new__(Snapshot)
        draw_ghost(m)
        memcpy(&snap.s, &m.s, sizeof(State))
        snap.cur = frame_share(m.cur)
        snap.prev = frame_share(m.prev)
        snap.cart = PyBytes_FromStringAndSize(<char*>m.cart_ram, m.cart_ram_size) if m.cart_ram_size else b""
        snap.rom_sha256 = self.rom_sha256
        snap.rows = m.h
        return snap

    def restore(self, Snapshot snap not None, bint sticky=True):
        """Put a snapshot back; RAM and screen read right at once. Without `sticky` the stream of sticky actions
        goes on as it is. Raises VcsError if it is another ROM's."""
        cdef VCS* m = self._mine()
        cdef Frame* f
        cdef MT stream = m.s.sticky
        if snap.cur == NULL:
            raise VcsError("the snapshot is empty; take one with snapshot()")
        if snap.rom_sha256 is not self.rom_sha256 and snap.rom_sha256 != self.rom_sha256:
            raise VcsError(f"the snapshot is of another ROM (SHA-256 {snap.rom_sha256[:12]}..., this machine has "
                           f"{self.rom_sha256[:12]}...); restore it into a machine of its own ROM")
        if snap.rows != m.h or len(snap.cart) != m.cart_ram_size or not state_valid(m, &snap.s):
            raise VcsError("the snapshot does not fit this machine: its registers are out of range or it was taken "
                           "with other settings; take it again")
        memcpy(&m.s, &snap.s, sizeof(State))
        if not sticky:
            m.s.sticky = stream
        f = m.cur
        m.cur = frame_share(snap.cur)
        frame_drop(f)
        f = m.prev
        m.prev = frame_share(snap.prev)
        frame_drop(f)
        m.ghost = 0
        if m.cart_ram_size:
            memcpy(m.cart_ram, PyBytes_AS_STRING(snap.cart), m.cart_ram_size)
        vcs_derive(m)

    def copy_from(self, Core other not None):
        """Become a copy of another machine: settings, ROM and state."""
        cdef VCS* m = self._mine()
        cdef VCS* o = other._mine()
        cdef Frame* cur = m.cur
        cdef Frame* prev = m.prev
        cdef uint8_t* ram
        cdef uint8_t* bak
        cdef uint8_t* skip
        cdef uint8_t* ghost
        draw_ghost(o)
        m.cart_ram_size = o.cart_ram_size
        if not alloc_cart_ram(m):
            raise MemoryError
        ram = m.cart_ram
        bak = m.bak_ram
        skip = m.skip_ram
        ghost = m.ghost_ram
        memcpy(m, o, sizeof(VCS))
        m.tr = NULL
        m.cart_ram = ram
        m.bak_ram = bak
        m.skip_ram = skip
        m.ghost_ram = ghost
        memcpy(ram, o.cart_ram, o.cart_ram_size)
        m.cur = frame_share(o.cur)
        m.prev = frame_share(o.prev)
        frame_drop(cur)
        frame_drop(prev)
        self.rom_padded = other.rom_padded
        self.rom_len = other.rom_len
        self.rom_sha256 = other.rom_sha256
        self.program = other.program
        self.relaxed_rom = other.relaxed_rom
        m.rom = <const uint8_t*>PyBytes_AS_STRING(self.rom_padded)
        cart_map(m)

    # ------------------------------------------------------------------ access
    @property
    def ram(self):
        """uint8[128], a copy of RIOT RAM ($80-$FF)."""
        out = np.empty(128, np.uint8)
        cdef uint8_t[::1] view = out
        memcpy(&view[0], self.m.s.ram, 128)
        return out

    @property
    def cart_ram(self):
        """uint8[n], a copy of the cartridge's RAM."""
        return np.frombuffer(PyBytes_FromStringAndSize(<char*>self.m.cart_ram, self.m.cart_ram_size), np.uint8).copy()

    @property
    def screen(self):
        """uint8[rows, 160], a copy of the picture as palette indices."""
        out = np.empty((self.m.h, W), np.uint8)
        cdef uint8_t[:, ::1] view = out
        memcpy(&view[0, 0], self._mine().cur.px, self.m.h * W)
        return out

    @property
    def previous_screen(self):
        """uint8[rows, 160], a copy of the picture before `screen`, which colour averaging mixes in."""
        out = np.empty((self.m.h, W), np.uint8)
        cdef uint8_t[:, ::1] view = out
        draw_ghost(self._mine())
        memcpy(&view[0, 0], self.m.prev.px, self.m.h * W)
        return out

    def screen_into(self, uint8_t[:, ::1] out not None):
        """Copy the picture into a uint8[rows, 160] array."""
        if out.shape[0] != self.m.h or out.shape[1] != W:
            raise VcsError(f"the screen is {self.m.h} x {W}; pass an array of that shape")
        memcpy(&out[0, 0], self._mine().cur.px, self.m.h * W)

    @property
    def rom(self):
        """The ROM image (bytes)."""
        return self.rom_padded[:self.rom_len]

    @property
    def rows(self):
        """Rows of the screen."""
        return self.m.h

    @property
    def pal(self):
        """True if the cartridge draws PAL frames."""
        return bool(self.m.pal)

    def cpu(self):
        """(A, X, Y, SP, P, PC)."""
        cdef State* s = &self.m.s
        return s.a, s.x, s.y, s.sp, s.p, s.pc

    def set_cpu(self, a=None, x=None, y=None, sp=None, p=None, pc=None):
        """Set registers (bytes; P has bits 4 and 5 set; PC 16 bits)."""
        cdef State* s = &self.m.s
        if a is not None:
            s.a = a & 0xFF
        if x is not None:
            s.x = x & 0xFF
        if y is not None:
            s.y = y & 0xFF
        if sp is not None:
            s.sp = sp & 0xFF
        if p is not None:
            s.p = (p | 0x30) & 0xFF
        if pc is not None:
            s.pc = pc & 0xFFFF

    def tia(self):
        """TIA registers and clocks as a dict (tia.md 3)."""
        cdef Tia t = self.m.s.tia
        cdef int i
        # Cython turns a byte array into bytes that stop at the first 0, so arrays are listed here
        return {**t, "nusiz": [t.nusiz[i] for i in range(2)], "colu": [t.colu[i] for i in range(4)],
                "grp_new": [t.grp_new[i] for i in range(2)], "grp_old": [t.grp_old[i] for i in range(2)],
                "enam": [t.enam[i] for i in range(2)], "refp": [t.refp[i] for i in range(2)],
                "vdelp": [t.vdelp[i] for i in range(2)], "resmp": [t.resmp[i] for i in range(2)],
                "hm": [t.hm[i] for i in range(5)], "pos": [t.pos[i] for i in range(5)],
                "skip": [t.skip[i] for i in range(2)], "regs": [t.regs[i] for i in range(64)]}

    def riot(self):
        """Timer as a dict: n (value written), shift, set (cycle of the write), read (expired and read), at (cycle)."""
        cdef State* s = &self.m.s
        return {"n": s.tim_n, "shift": s.tim_shift, "set": s.tim_t, "read": s.tim_read, "at": s.tim_r, "swacnt": s.swacnt}

    def cart(self):
        """The mapper's registers as a dict."""
        cdef State* s = &self.m.s
        return {"bank": s.bank, "slice": [s.slice[i] for i in range(4)], "lock": s.lock, "dpc_rng": s.dpc_rng}

    @property
    def cycles(self):
        """CPU cycles since the frame started."""
        return self.m.s.cycles

    @property
    def total_cycles(self):
        """CPU cycles since power-on."""
        return self.m.s.cycles_total + self.m.s.cycles

    @property
    def frame(self):
        return self.m.s.frame

    @property
    def episode_frame(self):
        return self.m.s.episode_frame

    @property
    def lives(self):
        return self.m.s.lives

    @property
    def over(self):
        """The game has ended, or (xitari) reached its frame limit."""
        return bool(env_over(self.m))

    @property
    def truncated(self):
        return bool(env_truncated(self.m))

    @property
    def jammed(self):
        """An unimplemented opcode has stopped the CPU for good."""
        return bool(self.m.s.jam)

    @property
    def mode(self):
        return self.m.s.mode

    @mode.setter
    def mode(self, int value):
        self.m.s.mode = value

    @property
    def difficulty(self):
        return self.m.s.difficulty

    @difficulty.setter
    def difficulty(self, int value):
        self.m.s.difficulty = value

    @property
    def colour(self):
        """The console's colour switch (SWCHB bit 3): True for colour, False for black and white."""
        return bool(self.m.s.swchb & 8)

    @colour.setter
    def colour(self, bint value):
        self.m.s.swchb = (self.m.s.swchb & 0xF7) | (8 if value else 0)

    @property
    def shortcuts(self):
        """Speed shortcuts in force: bit 0 merged stores, bit 1 INTIM loops, bit 2 unseen frames of a step undrawn,
        bit 3 pictures drawn 32 pixels at a time (where the processor has AVX2; elsewhere it stays 0). Results never
        depend on them."""
        return self.m.opt

    @shortcuts.setter
    def shortcuts(self, int value):
        self.m.opt = value & OPT_ALL

    def poke_ram(self, int index, int value):
        """Set RIOT RAM byte 0..127."""
        if not 0 <= index < 128 or not 0 <= value < 256:
            raise VcsError(f"RAM[{index}] = {value} is out of range; the index is 0 to 127, the value 0 to 255")
        self.m.s.ram[index] = <uint8_t>value

    def poke_cart_ram(self, int index, int value):
        """Set a byte of the cartridge's RAM."""
        if not 0 <= index < self.m.cart_ram_size or not 0 <= value < 256:
            raise VcsError(f"cartridge RAM[{index}] = {value} is out of range; this cartridge has {self.m.cart_ram_size} bytes")
        self.m.cart_ram[index] = <uint8_t>value

    def poke_tia(self, int reg, int value):
        """Store to a TIA register ($00-$3F) now, outside the CPU: it takes no time and ends no frame."""
        cdef VCS* m = self._mine()
        cdef uint32_t cycles = m.s.cycles
        cdef uint8_t stop = m.s.stop
        cdef int32_t vf = m.s.tia.vf
        if not 0 <= reg < 64 or not 0 <= value < 256:
            raise VcsError(f"TIA register {reg} = {value} is out of range; registers are 0 to 63, values 0 to 255")
        own_picture(m, &m.cur)
        self._check()
        tia_write(m, <uint32_t>reg, <uint32_t>value, m.s.cycles)
        m.s.cycles = cycles
        m.s.stop = stop
        m.s.tia.vf = vf

    def poke_rom(self, int offset, int value):
        """Change one byte of this machine's own copy of the ROM image (an intervention; snapshots of the
        unchanged ROM can still be restored)."""
        cdef char* p
        if not 0 <= offset < self.rom_len or not 0 <= value < 256:
            raise VcsError(f"ROM[{offset}] = {value} is out of range; this image has {self.rom_len} bytes")
        draw_ghost(self._mine())
        fresh = bytearray(self.rom_padded)
        fresh[offset] = value
        self.rom_padded = bytes(fresh)
        self.m.rom = <const uint8_t*>PyBytes_AS_STRING(self.rom_padded)
        cart_map(self.m)

    def poke(self, int address, int value):
        """Store through the bus at the current cycle (RAM, TIA, RIOT, cartridge), outside the CPU."""
        cdef VCS* m = self._mine()
        if not 0 <= address < 65536 or not 0 <= value < 256:
            raise VcsError(f"address {address} = {value} is out of range; addresses are 0 to 65535, values 0 to 255")
        if not address & 0x1080:
            self.poke_tia(address & 0x3F, value)
        else:
            bus_write(m, address, value, m.s.cycles)

    def peek(self, int address):
        """The byte at an address, without side effects; TIA addresses give the last byte stored."""
        return bus_peek(self.m, address)

    def loc(self, int address, bint write=False):
        """Location id (vcs.layout) of an address as mapped now, -1 if none."""
        return bus_loc(self.m, address, write)

    @property
    def paddle(self):
        return self.m.s.paddle[0], self.m.s.paddle[1]

    def relax(self, double alpha=0.0, double temperature=0.0, *, bint reads=True, bint branches=True,
              bint shadow=False, bint drop_cycle=False):
        """Switch the relaxation hook on (alpha > 0, temperature > 0) or, without arguments, off.

        reads, branches: what to relax. shadow: compute and count the casts but use the exact values. drop_cycle:
        leave out the cycle a taken branch pays for another page, as the ports' hook does. The counters of
        ``relaxation`` start at 0. The hook is not part of a snapshot."""
        cdef VCS* m = self._mine()
        cdef const uint8_t[::1] table
        m.relaxed = 1 if alpha > 0 and temperature > 0 else 0
        if not m.relaxed:
            return
        relax_set(m, alpha, temperature)
        m.relax_mode = ((RELAX_READS if reads else 0) | (RELAX_BRANCHES if branches else 0)
                        | (RELAX_SHADOW if shadow else 0) | (RELAX_DROP_CYCLE if drop_cycle else 0))
        image = np.frombuffer(self.rom_padded, np.uint8)[:self.rom_len].astype(np.float64)
        mixed = m.relax_w[0] * image
        for k in range(1, 5):
            mixed += m.relax_w[k] * (np.roll(image, k) + np.roll(image, -k))
        self.relaxed_rom = np.rint(mixed).astype(np.uint8)
        table = self.relaxed_rom
        m.relax_rom = &table[0]

    @property
    def relaxation(self):
        """Counts since relax(): a dict of casts (rom, ram, branches), other reads, wrong casts by kind, and the
        first wrong cast (kind, address, exact, relaxed, frame) or None."""
        cdef VCS* m = self.m
        kinds = ("rom", "ram", "branch")
        first = None
        if m.relax_first[0]:
            first = {"kind": kinds[m.relax_first[1]], "address": m.relax_first[2], "exact": m.relax_first[3],
                     "relaxed": m.relax_first[4], "frame": m.relax_first[5]}
        return {"rom": m.relax_reads[0], "ram": m.relax_reads[1], "other": m.relax_reads[2], "branches": m.relax_reads[3],
                "wrong": {kinds[i]: m.relax_wrong[i] for i in range(3)}, "first": first}

    @property
    def relax_events(self):
        """Casts that rounded to another value than the exact one since relax()."""
        return self.m.relax_wrong[0] + self.m.relax_wrong[1] + self.m.relax_wrong[2]


def run_vector(int pc, regs, bytearray mem not None):
    """One instruction on a flat 64 KiB memory, by the same generated code as the machine's.

    regs: (A, X, Y, SP, P). mem: 65536 bytes, changed in place. Returns ((A, X, Y, SP, P, PC), cycles, accesses,
    halted); accesses are (kind, address, value, cycle), kind 0 read, 1 write (cpu.md 13)."""
    cdef Flat f
    cdef uint8_t[::1] view = mem
    if len(mem) != 65536:
        raise VcsError(f"the memory has {len(mem)} bytes; pass 65536")
    memset(&f, 0, sizeof(Flat))
    f.a, f.x, f.y, f.sp, f.p = regs
    f.pc = <uint16_t>pc
    f.mem = &view[0]
    run_flat(&f, 1)
    return ((f.a, f.x, f.y, f.sp, f.p, f.pc), f.cycles, [tuple(f.log[i][j] for j in range(4)) for i in range(f.n)], bool(f.jam))


def bus_access(Core core not None, int address, int value=-1, int cycle=-1):
    """One bus access of the CPU's kind, side effects included, for tests of a chip without a program.

    Reads the byte at ``address`` (value -1) or stores ``value``, with the cycle counter first set to ``cycle``
    (-1 leaves it). Returns the byte read, or the byte stored."""
    cdef VCS* m = core._mine()
    if cycle >= 0:
        m.s.cycles = <uint32_t>cycle
    own_picture(m, &m.cur)
    if value >= 0:
        bus_write(m, <uint32_t>address & 0xFFFF, <uint32_t>value & 0xFF, m.s.cycles)
        return value & 0xFF
    return bus_read(m, <uint32_t>address & 0xFFFF, m.s.latch, m.s.cycles)


def rebase_cycles(Core core not None):
    """Restart the cycle counter at 0 as a frame start does (cpu.md 11), for tests."""
    rebase(core._mine())


include "oracle.pxi"


include "gym.pxi"


include "api.pxi"
