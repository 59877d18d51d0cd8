# The trace recorder: what ran, what was read and written, which object won each pixel. Models the
# format of docs/design.md; vcs/trace.py turns the buffers into NumPy arrays. It only records: the
# traced machine does what the untraced one does.

cdef TraceBuf* trace_new(int pictures) noexcept nogil:
    cdef TraceBuf* tr = <TraceBuf*>calloc(1, sizeof(TraceBuf))
    if tr != NULL:
        tr.pictures = pictures
    return tr


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
    memset(tr.winner, 255, sizeof(tr.winner))
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
    tr.n_instr += 1
    rec.cycles = <int32_t>cyc
    rec.frame = <int32_t>tr.n_frame
    rec.pc = <uint16_t>pc
    rec.opcode = <uint8_t>op
    rec.b1 = <uint8_t>b1
    rec.b2 = <uint8_t>b2
    rec.loc0 = bus_loc(m, pc, False)
    rec.loc1 = bus_loc(m, (pc + 1) & 0xFFFF, False) if OP_BYTES[op] > 1 else -1
    rec.loc2 = bus_loc(m, (pc + 2) & 0xFFFF, False) if OP_BYTES[op] > 2 else -1
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
    cdef int x, w, on, i
    cdef uint32_t mode = t.ctrlpf & 6
    cdef bint score
    cdef uint8_t win
    cdef uint8_t* out = tr.winner + t.ptr - x0
    if not grow(tr, <void**>&tr.seg, &tr.cap_seg, tr.n_seg + 1, sizeof(Segment)):
        return
    if m.dirty:
        build_masks(m)
    s = &tr.seg[tr.n_seg]
    tr.n_seg += 1
    s.instr = <int32_t>(tr.n_instr - 1)
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
    score = (mode == 2) or (mode == 6 and m.enabled == 32)
    for x in range(x0, x1):
        w = x >> 6
        on = x & 63
        if t.vblank & 2:
            win = 255
        elif mode & 4 and not score and (m.mask[PF][w] >> on) & 1:
            win = 1
        elif mode & 4 and not score and (m.mask[BL][w] >> on) & 1:
            win = 2
        elif (m.mask[P0][w] >> on) & 1:
            win = 3
        elif (m.mask[M0][w] >> on) & 1:
            win = 4
        elif score and x < 80 and (m.mask[PF][w] >> on) & 1:
            win = 7
        elif (m.mask[P1][w] >> on) & 1:
            win = 5
        elif (m.mask[M1][w] >> on) & 1:
            win = 6
        elif score and x >= 80 and (m.mask[PF][w] >> on) & 1:
            win = 8
        elif (m.mask[PF][w] >> on) & 1:
            win = 1
        elif (m.mask[BL][w] >> on) & 1:
            win = 2
        else:
            win = 0
        out[x] = win
