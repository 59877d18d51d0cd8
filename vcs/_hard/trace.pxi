# The trace recorder: what ran, what was read and written, which object won each pixel. Models the
# format of docs/design.md; vcs/trace.py turns the buffers into NumPy arrays. It only records: the
# traced machine does what the untraced one does.

cdef extern from *:
    int vcs_ctzll "__builtin_ctzll"(unsigned long long) nogil

cdef enum:
    SPARE_INSTR = 1 << 18      # instructions (12 MB) up to which buffers are kept for the next recording


cdef TraceBuf* trace_new() noexcept nogil:
    return <TraceBuf*>calloc(1, sizeof(TraceBuf))


cdef void trace_clear(TraceBuf* tr, int pictures) noexcept nogil:
    """Start a recording in buffers that may have served before."""
    tr.n_instr = tr.n_tia = tr.n_seg = tr.n_frame = 0
    tr.failed = 0
    tr.pictures = pictures


cdef void trace_free(TraceBuf* tr) noexcept nogil:
    if tr != NULL:
        free(tr.instr)
        free(tr.tia)
        free(tr.seg)
        free(tr.frame)
        free(tr.screens)
        free(tr)


cdef bint grow(TraceBuf* tr, void** array, int64_t* cap, int64_t need, size_t item) noexcept nogil:
    """Room for `need` items; False (and tr.failed) where memory ends."""
    cdef int64_t n = cap[0]
    cdef void* p
    if need <= n:
        return True
    n = need + need // 2 + 1024
    p = realloc(array[0], n * item)
    if p == NULL:
        tr.failed = 1
        return False
    array[0] = p
    cap[0] = n
    return True


cdef bint trace_frame_begin(VCS* m) noexcept nogil:
    cdef TraceBuf* tr = m.tr
    cdef FrameRow* f
    cdef int i
    # a frame has at most 25000 instructions, so the loop need not ask
    if not grow(tr, <void**>&tr.instr, &tr.cap_instr, tr.n_instr + 25001, sizeof(Instr)):
        return False
    if not grow(tr, <void**>&tr.frame, &tr.cap_frame, tr.n_frame + 1, sizeof(FrameRow)):
        return False
    if tr.pictures:
        memset(tr.winner, 255, m.h * W)
    f = &tr.frame[tr.n_frame]
    f.first_instr = <int32_t>tr.n_instr
    f.first_tia = <int32_t>tr.n_tia
    f.first_segment = <int32_t>tr.n_seg
    f.action = tr.action
    f.start_clock = m.s.tia.F
    for i in range(4):
        f.paddle[i] = m.s.resist[i]
    f.swcha = m.s.swcha
    f.swchb = m.s.swchb
    f.inpt[0] = m.s.inpt45[0]
    f.inpt[1] = m.s.inpt45[1]
    return True


cdef void trace_frame_end(VCS* m) noexcept nogil:
    cdef TraceBuf* tr = m.tr
    cdef FrameRow* f = &tr.frame[tr.n_frame]
    cdef int64_t size = m.h * W
    f.end_instr = <int32_t>tr.n_instr
    f.cycles = <int32_t>m.s.cycles
    if tr.pictures:
        if not grow(tr, <void**>&tr.screens, &tr.cap_screens, 2 * size * (tr.n_frame + 1), 1):
            return
        memcpy(tr.screens + 2 * size * tr.n_frame, m.cur.px, size)
        memcpy(tr.screens + 2 * size * tr.n_frame + size, tr.winner, size)
    tr.n_frame += 1


cdef inline Instr* trace_next(VCS* m, uint32_t pc, uint32_t op, uint32_t b1, uint32_t b2, uint32_t cyc) noexcept nogil:
    cdef TraceBuf* tr = m.tr
    cdef Instr* rec = &tr.instr[tr.n_instr]
    cdef uint32_t n = OP_BYTES[op], t = (pc & 0xFFF) - m.fast_lo
    cdef int64_t at
    tr.n_instr += 1
    rec.cycles = <int32_t>cyc
    rec.frame = <int32_t>tr.n_frame
    rec.pc = <uint16_t>pc
    rec.opcode = <uint8_t>op
    rec.b1 = <uint8_t>b1
    rec.b2 = <uint8_t>b2
    rec.loc1 = rec.loc2 = -1
    at = -1
    if pc & 0x1000 and t + n <= m.fast_n and t < m.fast_n and (pc & 0x3FF) < 0x3FE:
        at = (m.seg[((pc >> 10) & 3) | ((pc >> 11) & 4)] + (pc & 0x3FF)) - m.rom
    if 0 <= at and at + n <= m.rom_size:
        # the usual case: the whole instruction lies in one mapped kibibyte of the image
        rec.loc0 = LOC_ROM + <int32_t>at
        if n > 1:
            rec.loc1 = LOC_ROM + <int32_t>at + 1
            if n > 2:
                rec.loc2 = LOC_ROM + <int32_t>at + 2
    else:
        rec.loc0 = bus_loc(m, pc, False)
        if n > 1:
            rec.loc1 = bus_loc(m, (pc + 1) & 0xFFFF, False)
            if n > 2:
                rec.loc2 = bus_loc(m, (pc + 2) & 0xFFFF, False)
    rec.ea = 0
    rec.ea_loc = rec.ptr0 = rec.ptr1 = -1
    rec.rd = rec.wr = rec.flags = 0
    rec.bank = <uint8_t>m.s.bank
    return rec


cdef void trace_tia(VCS* m, uint32_t a, uint32_t v, uint32_t k) noexcept nogil:
    cdef TraceBuf* tr = m.tr
    cdef TiaRow* row
    cdef int i
    if not grow(tr, <void**>&tr.tia, &tr.cap_tia, tr.n_tia + 1, sizeof(TiaRow)):
        return
    row = &tr.tia[tr.n_tia]
    row.instr = <int32_t>(tr.n_instr - 1)
    row.clock = <int32_t>k
    row.reg = <uint8_t>a
    row.value = <uint8_t>v
    row.pad = 0
    for i in range(5):
        row.delta[i] = MOTION[(k / 3) % 76][m.s.tia.hm[i]] if a == 0x2A else 0
    tr.n_tia += 1


cdef void trace_segment(VCS* m, int x0, int x1) noexcept nogil:
    """Called before the pixels x0..x1-1 at m.s.tia.ptr are drawn."""
    cdef TraceBuf* tr = m.tr
    cdef Tia* t = &m.s.tia
    cdef Segment* s
    cdef int i
    if not grow(tr, <void**>&tr.seg, &tr.cap_seg, tr.n_seg + 1, sizeof(Segment)):
        return
    if m.dirty:
        build_masks(m)
    s = &tr.seg[tr.n_seg]
    tr.n_seg += 1
    # a first instruction that is fetched from the TIA has drawn before it is recorded
    s.instr = <int32_t>(tr.n_instr - 1) if tr.n_instr else 0
    s.tia = <int32_t>tr.n_tia
    s.frame = <int32_t>tr.n_frame
    s.row = <int16_t>((t.ptr - x0) // W)
    s.x0 = <uint8_t>x0
    s.x1 = <uint8_t>x1
    s.pf = t.pf
    for i in range(4):
        s.colu[i] = t.colu[i]
    for i in range(5):
        s.pos[i] = t.pos[i]
    for i in range(2):
        s.grp[i] = player_graphics(t, i)
        s.nusiz[i] = t.nusiz[i]
        s.refp[i] = t.refp[i]
        s.vdel[i] = t.vdelp[i]
        s.skip[i] = t.skip[i]
        s.en[i] = 1 if t.enam[i] and not t.resmp[i] else 0
    s.en[2] = t.enabl_old if t.vdelbl else t.enabl_new
    s.vdel[2] = t.vdelbl
    s.ctrlpf = t.ctrlpf
    s.vblank = t.vblank
    s.reflect = t.reflect
    s.m0mode = t.m0mode
    s.comb = t.comb
    if tr.pictures:
        trace_winners(m, tr.winner + t.ptr - x0, x0, x1)


cdef inline void put_winner(const uint64_t* mask, uint8_t* out, int x0, int x1, uint8_t winner) noexcept nogil:
    """Write `winner` where a mask is set in columns x0..x1-1."""
    cdef int w
    cdef uint64_t bits
    for w in range(x0 >> 6, ((x1 - 1) >> 6) + 1):
        bits = mask[w] & BELOW[x1][w] & ~BELOW[x0][w]
        while bits:
            out[64 * w + vcs_ctzll(bits)] = winner
            bits &= bits - 1


cdef void trace_winners(VCS* m, uint8_t* out, int x0, int x1) noexcept nogil:
    """Which object each pixel of a run shows (tia.md 7.4), painted from the back to the front."""
    cdef Tia* t = &m.s.tia
    cdef uint32_t mode = t.ctrlpf & 6
    cdef bint score = mode == 2 or (mode == 6 and m.enabled == 32)
    cdef int half = 80 if x0 < 80 < x1 else (x1 if x1 <= 80 else x0)
    if t.vblank & 2:
        memset(out + x0, 255, x1 - x0)
        return
    memset(out + x0, 0, x1 - x0)
    if m.enabled == 0:
        return
    if not (mode & 4) or score:
        put_winner(m.mask[BL], out, x0, x1, 2)
        if not score:
            put_winner(m.mask[PF], out, x0, x1, 1)
    # the right half of a playfield in score colours is behind P1, whose colour it has
    if score and half < x1:
        put_winner(m.mask[PF], out, half, x1, 8)
    put_winner(m.mask[M1], out, x0, x1, 6)
    put_winner(m.mask[P1], out, x0, x1, 5)
    if score and x0 < half:
        put_winner(m.mask[PF], out, x0, half, 7)
    put_winner(m.mask[M0], out, x0, x1, 4)
    put_winner(m.mask[P0], out, x0, x1, 3)
    if mode & 4 and not score:
        put_winner(m.mask[BL], out, x0, x1, 2)
        put_winner(m.mask[PF], out, x0, x1, 1)


cdef class TraceRows:
    """Owner of a recording's buffers while arrays look into them; then they serve the next recording."""
    cdef TraceBuf* tr
    cdef Core core

    def __dealloc__(self):
        if self.tr == NULL:
            return
        if self.core is not None and self.core.spare == NULL and self.tr.cap_instr <= SPARE_INSTR:
            self.core.spare = self.tr
        else:
            trace_free(self.tr)

    cdef array(self, void* data, int64_t n, size_t item, dtype):
        cdef cnp.npy_intp size = n * item
        cdef cnp.ndarray raw
        assert dtype.itemsize == item, (dtype, item)
        if n == 0:
            return np.empty(0, dtype)
        raw = cnp.PyArray_SimpleNewFromData(1, &size, cnp.NPY_UINT8, data)
        cnp.set_array_base(raw, self)
        return raw.view(dtype)

    cdef rows(self):
        from vcs.trace import DTYPES
        return {
            "instr": self.array(self.tr.instr, self.tr.n_instr, sizeof(Instr), DTYPES["instr"]),
            "tia": self.array(self.tr.tia, self.tr.n_tia, sizeof(TiaRow), DTYPES["tia"]),
            "segments": self.array(self.tr.seg, self.tr.n_seg, sizeof(Segment), DTYPES["segments"]),
            "frames": self.array(self.tr.frame, self.tr.n_frame, sizeof(FrameRow), DTYPES["frames"]),
        }


cdef TraceRows recorded(Core core, const int32_t[::1] a, int32_t[::1] rewards, bint pictures, bint raw_frames):
    """Run agent steps (or frame calls, which look at no action) traced; the owner of what was recorded."""
    cdef Py_ssize_t i
    cdef VCS* m = core._mine()
    cdef TraceRows owner = TraceRows.__new__(TraceRows)
    cdef TraceBuf* tr = core.spare      # the buffers of the recording before, to save the page faults
    core.spare = NULL
    if tr == NULL:
        tr = trace_new()
    if tr == NULL:
        raise MemoryError
    owner.tr = tr
    owner.core = core
    trace_clear(tr, pictures)
    m.tr = tr
    core.busy = True
    with nogil:
        for i in range(a.shape[0]):
            tr.action = a[i]
            if raw_frames:
                run_frame(m)
            else:
                rewards[i] = env_act(m, a[i], 1.0)
            if tr.failed:
                break
    core.busy = False
    m.tr = NULL
    core._check()
    if tr.failed:
        raise MemoryError("the trace does not fit in memory; trace fewer frames at a time")
    return owner


def record_rows(Core core not None, actions):
    """Run agent steps traced, without pictures: `Core.record`'s rows, but not copied.

    Returns a dict of the structured arrays instr, tia, segments and frames. They keep the recording's buffers
    alive; dropped before the next recording, they save it the page faults.
    """
    a = np.ascontiguousarray(actions, np.int32)
    return recorded(core, a, np.zeros(len(a), np.int32), False, False).rows()
