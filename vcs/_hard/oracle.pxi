# Interventions: many re-runs from one snapshot, each with its own edits of the state, without the GIL.
# Models do(location := value) of the audit protocol (section 2): an edit is a write into a struct, it takes
# no cycle and moves no beam. Included last by machine.pyx. Left out: inputs, which are set by the actions.

from libc.string cimport memcmp


cdef enum:
    EDIT_SET = 0
    EDIT_FLIP = 1
    EDIT_DELTA = 2

cdef struct Edit:
    int32_t frame              # frames after the snapshot
    int32_t instruction        # -1: at the frame's boundary; else instructions of the frame run before
    int32_t location           # docs/design.md
    int32_t op, value


cdef int32_t edit_read(VCS* m, int32_t loc) noexcept nogil:
    """The value of a location that an edit may write; -1 if there is no such location."""
    cdef State* s = &m.s
    if 0 <= loc < 128:
        return s.ram[loc]
    if loc == LOC_CPU:
        return s.a
    if loc == LOC_CPU + 1:
        return s.x
    if loc == LOC_CPU + 2:
        return s.y
    if loc == LOC_CPU + 3:
        return s.sp
    if LOC_CPU + 4 <= loc <= LOC_CPU + 9:
        return (s.p >> flag_bit(loc)) & 1
    if loc == LOC_CPU + 10:
        return s.pc
    if LOC_TIA_W <= loc < LOC_TIA_W + 64:
        return s.tia.regs[loc - LOC_TIA_W]
    if loc == LOC_TIA_X or loc == LOC_TIA_X + 1:
        return s.tia.grp_old[loc - LOC_TIA_X]
    if loc == LOC_TIA_X + 2:
        return s.tia.enabl_old
    if LOC_TIA_X + 3 <= loc < LOC_TIA_X + 8:
        return s.tia.pos[loc - LOC_TIA_X - 3]
    if loc == LOC_RIOT + 1:
        return s.swacnt
    if loc == LOC_RIOT + 6:
        return s.tim_n
    if LOC_CART <= loc < LOC_CART + m.cart_ram_size:
        return m.cart_ram[loc - LOC_CART]
    if LOC_ROM <= loc < LOC_ROM + m.rom_size:
        return m.rom[loc - LOC_ROM]
    return -1


cdef inline int flag_bit(int32_t loc) noexcept nogil:
    """Bit of P that holds the flag N V D I Z C."""
    cdef int k = loc - LOC_CPU - 4
    return 7 if k == 0 else (6 if k == 1 else 5 - k)


cdef void edit_write(VCS* m, uint8_t* rom, int32_t loc, int32_t v) noexcept nogil:
    """Store v (already in range). rom: this machine's private copy of the image, or NULL if none is needed."""
    cdef State* s = &m.s
    cdef uint32_t cycles
    cdef uint8_t stop
    cdef int32_t vf
    if loc < 128:
        s.ram[loc] = <uint8_t>v
    elif loc == LOC_CPU:
        s.a = <uint8_t>v
    elif loc == LOC_CPU + 1:
        s.x = <uint8_t>v
    elif loc == LOC_CPU + 2:
        s.y = <uint8_t>v
    elif loc == LOC_CPU + 3:
        s.sp = <uint8_t>v
    elif loc < LOC_CPU + 10:
        s.p = <uint8_t>((s.p & ~(1 << flag_bit(loc))) | (v << flag_bit(loc)))
    elif loc == LOC_CPU + 10:
        s.pc = <uint16_t>v
    elif loc < LOC_TIA_X:
        # through the chip's own store, so that what follows from the register follows; time stands still
        own_picture(m, &m.cur)
        cycles, stop, vf = s.cycles, s.stop, s.tia.vf
        tia_write(m, loc - LOC_TIA_W, <uint32_t>v, cycles)
        s.cycles, s.stop, s.tia.vf = cycles, stop, vf
    elif loc < LOC_TIA_X + 2:
        s.tia.grp_old[loc - LOC_TIA_X] = <uint8_t>v
        all_dirty(m)
    elif loc == LOC_TIA_X + 2:
        s.tia.enabl_old = <uint8_t>(v & 1)
        all_dirty(m)
    elif loc < LOC_TIA_X + 8:
        s.tia.pos[loc - LOC_TIA_X - 3] = <uint8_t>(v % W)
        all_dirty(m)
    elif loc == LOC_RIOT + 1:
        s.swacnt = <uint8_t>v
    elif loc == LOC_RIOT + 6:
        s.tim_n = <uint8_t>v
    elif loc < LOC_ROM:
        m.cart_ram[loc - LOC_CART] = <uint8_t>v
    elif rom != NULL:
        rom[loc - LOC_ROM] = <uint8_t>v


cdef void edit_apply(VCS* m, uint8_t* rom, Edit* e) noexcept nogil:
    cdef int32_t old = edit_read(m, e.location), v = e.value, mask
    if old < 0:
        return                         # refused beforehand by replay_batch
    mask = 0xFFFF if e.location == LOC_CPU + 10 else 0xFF
    if LOC_CPU + 4 <= e.location <= LOC_CPU + 9 or e.location == LOC_TIA_X + 2:
        mask = 1
    if e.op == EDIT_FLIP:
        v = old ^ (1 << v)
    elif e.op == EDIT_DELTA:
        v = old + v
        if LOC_TIA_X + 3 <= e.location < LOC_TIA_X + 8:
            v = (v % W + W) % W        # a position lives on a circle of 160
    edit_write(m, rom, e.location, v & mask)


cdef void edited_frame(VCS* m, uint8_t* rom, Edit* edits, int n, int frame, int action, int32_t* reward) noexcept nogil:
    """One agent step with the edits of that frame: env_act, whose frame stops where an edit acts."""
    cdef int i
    for i in range(n):
        if edits[i].frame == frame:
            if edits[i].instruction < 0:
                edit_apply(m, rom, &edits[i])
            else:
                m.edits = edits
                m.edits_n = n
                m.edits_frame = frame
                m.edits_rom = rom
    reward[0] = <int32_t>(<uint32_t>reward[0] + <uint32_t>env_act(m, action, 1.0))
    m.edits = NULL                     # the episode may be over: no frame ran


cdef void run_edited(VCS* m) noexcept nogil:
    """run_frame with the edits that act inside it (m.edits), at most 25000 instructions."""
    cdef Edit* edits = <Edit*>m.edits
    cdef int i, at, nxt, n = m.edits_n, done = 0
    m.edits = NULL                     # a step of several frames: the others are ordinary
    draw_ghost(m)
    frame_begin(m)
    cut_all(m, True)
    while not m.s.stop:
        nxt = -1
        for i in range(n):
            at = edits[i].instruction
            # no frame has more than 25000 instructions, and a jammed or endless one has no later moment
            if edits[i].frame == m.edits_frame and done <= at < 25000 and (nxt < 0 or at < nxt):
                nxt = at
        if nxt < 0:
            break
        if nxt > done:
            run_batch(m, nxt - done)
            done = nxt
            if m.s.stop:
                break
        render(m, NOTHING)
        for i in range(n):
            if edits[i].frame == m.edits_frame and edits[i].instruction == done:
                edit_apply(m, m.edits_rom, &edits[i])
        run_batch(m, 1)
        done += 1                      # a second edit at this instruction was applied with the first
    if not m.s.stop and done < 25000:
        run_batch(m, 25000 - done)
    frame_end(m)


cdef struct Moment:            # what the future of a run depends on, and what is read of it
    State s
    Frame* cur
    Frame* prev
    uint8_t* cart_ram
    int32_t changed, reward    # against the baseline; summed up to here


cdef bint same_moment(VCS* m, Moment* r) noexcept nogil:
    """True if this machine is, to the bit, where the reference run was: then so is all of its future.

    The count of cycles since power-on is left out: nothing in the machine reads it."""
    cdef int64_t cycles = m.s.cycles_total
    cdef bint same
    m.s.cycles_total = r.s.cycles_total
    same = memcmp(&m.s, &r.s, sizeof(State)) == 0
    m.s.cycles_total = cycles
    return (same and memcmp(m.cur.px, r.cur.px, m.h * W) == 0 and memcmp(m.prev.px, r.prev.px, m.h * W) == 0
            and (not m.cart_ram_size or memcmp(m.cart_ram, r.cart_ram, m.cart_ram_size) == 0))


cdef int32_t differing(const uint8_t* a, const uint8_t* b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t p
    cdef int32_t count = 0
    for p in range(n):
        count += a[p] != b[p]
    return count


def replay_batch(Core core not None, Snapshot start not None, int32_t[:, ::1] edits not None,
                 int32_t[::1] first not None, int32_t[:, ::1] actions not None, uint8_t[:, :, ::1] baseline=None,
                 bint every_frame=False, bint screens=False, int32_t[::1] reference=None):
    """n re-runs of H frames from `start`, run i with edits[first[i]:first[i + 1]] and actions[i].

    core: a machine of the snapshot's ROM and settings; it is left in an arbitrary state, so give each thread its
    own. edits: int32[k, 5] rows (frame, instruction or -1, location, op 0 set 1 flip 2 delta, value).
    first: int32[n + 1]. actions: int32[n, H]. baseline: uint8[F, rows, 160] pictures after each frame (F = H) or
    after the last one (F = 1), or None. reference: int32[H] actions of an unedited run, or None; once a run is, to
    the bit, where that one was, with the same actions left and the ROM unchanged, its frames are taken from there.

    Returns (ram uint8[n, F, 128], changed int32[n, F], reward int32[n], screens uint8[n, rows, 160] or None,
    over uint8[n]), F = H with `every_frame`, else 1; changed counts pixels that differ from `baseline`, -1 without.
    Raises VcsError for a location that cannot be written. Runs without the GIL."""
    cdef VCS* m = core._mine()
    cdef Py_ssize_t n = first.shape[0] - 1, H = actions.shape[1], F = H if every_frame else 1
    cdef Py_ssize_t i, f, g, k, size = m.h * W
    cdef Edit* list = NULL
    cdef uint8_t* rom = NULL
    cdef const uint8_t* rom0 = m.rom
    cdef Moment* ref = NULL
    cdef Frame* drop
    cdef int32_t loc, reward, last
    cdef bint patched, has = baseline is not None, follow = reference is not None
    if edits.shape[1] != 5 or actions.shape[0] != n or n < 0 or H < 1:
        raise VcsError("edits must be int32[k, 5] and actions int32[n, H] with H of at least 1")
    if has and (baseline.shape[0] != F or baseline.shape[1] != m.h or baseline.shape[2] != W):
        raise VcsError(f"the baseline must be uint8[{F}, {m.h}, {W}]")
    if follow and reference.shape[0] != H:
        raise VcsError(f"the reference must be int32[{H}]")
    for i in range(edits.shape[0]):
        loc = edits[i, 2]
        if edit_read(m, loc) < 0:
            raise VcsError(f"location {loc} cannot be written by an intervention; RAM, CPU, TIA, SWACNT, TIMER, "
                           "cartridge RAM and ROM can, inputs are changed through actions")
        if not 0 <= edits[i, 3] <= 2 or (edits[i, 3] == EDIT_FLIP and not 0 <= edits[i, 4] <= 15):
            raise VcsError("an edit is 0 set, 1 flip (bit 0 to 15) or 2 delta")
    for i in range(n):
        if first[i] < 0 or first[i + 1] < first[i] or first[i + 1] > edits.shape[0]:
            raise VcsError("first must rise from 0 to the number of edits")
    out_ram = np.zeros((n, F, 128), np.uint8)
    out_changed = np.full((n, F), -1, np.int32)
    out_reward = np.zeros(n, np.int32)
    out_over = np.zeros(n, np.uint8)
    out_screens = np.zeros((n if screens else 0, m.h, W), np.uint8)
    cdef uint8_t[:, :, ::1] ram = out_ram
    cdef int32_t[:, ::1] changed = out_changed
    cdef int32_t[::1] rewards = out_reward
    cdef uint8_t[::1] over = out_over
    cdef uint8_t[:, :, ::1] pictures = out_screens
    cdef bytes cart_start = start.cart
    cdef const char* cart0 = PyBytes_AS_STRING(cart_start)
    core.restore(start)
    m.ghost_wait = 0x7FFFFFFF          # previous pictures are compared, and edits change the ROM under them
    core.busy = True
    try:
        if edits.shape[0]:
            list = <Edit*>malloc(edits.shape[0] * sizeof(Edit))
            rom = <uint8_t*>malloc(len(core.rom_padded))
            if list == NULL or rom == NULL:
                raise MemoryError
            memcpy(rom, rom0, len(core.rom_padded))
            for i in range(edits.shape[0]):
                list[i].frame, list[i].instruction, list[i].location = edits[i, 0], edits[i, 1], edits[i, 2]
                list[i].op, list[i].value = edits[i, 3], edits[i, 4]
        if follow:
            ref = <Moment*>calloc(H, sizeof(Moment))
            if ref == NULL:
                raise MemoryError
        with nogil:
            if rom != NULL:
                m.rom = rom
                cart_map(m)
            if follow:
                reward = 0
                for f in range(H):
                    edited_frame(m, rom, NULL, 0, <int>f, reference[f], &reward)
                    ref[f].reward = reward
                    memcpy(&ref[f].s, &m.s, sizeof(State))
                    ref[f].cur = frame_share(m.cur)
                    ref[f].prev = frame_share(m.prev)
                    ref[f].cart_ram = <uint8_t*>malloc(m.cart_ram_size + 1)
                    if ref[f].cart_ram == NULL:
                        m.oom = 1
                        follow = False
                        break
                    memcpy(ref[f].cart_ram, m.cart_ram, m.cart_ram_size)
                    if has and (every_frame or f == H - 1):
                        ref[f].changed = differing(m.cur.px, &baseline[f if every_frame else 0, 0, 0], size)
            for i in range(n):
                memcpy(&m.s, &start.s, sizeof(State))
                drop = m.cur
                m.cur = frame_share(start.cur)
                frame_drop(drop)
                drop = m.prev
                m.prev = frame_share(start.prev)
                frame_drop(drop)
                memcpy(m.cart_ram, cart0, m.cart_ram_size)
                vcs_derive(m)
                reward = 0
                last = -1
                patched = False
                for k in range(first[i], first[i + 1]):
                    patched |= list[k].location >= LOC_ROM
                    if list[k].frame > last:
                        last = list[k].frame
                for f in range(H):
                    edited_frame(m, rom, list + first[i], first[i + 1] - first[i], <int>f, actions[i, f], &reward)
                    if every_frame or f == H - 1:
                        k = f if every_frame else 0
                        memcpy(&ram[i, k, 0], m.s.ram, 128)
                        if has:
                            changed[i, k] = differing(m.cur.px, &baseline[k, 0, 0], size)
                    if (follow and f < H - 1 and f >= last and not patched
                            and memcmp(&actions[i, f + 1], &reference[f + 1], (H - 1 - f) * sizeof(int32_t)) == 0
                            and same_moment(m, &ref[f])):
                        for g in range(f + 1 if every_frame else H - 1, H):
                            k = g if every_frame else 0
                            memcpy(&ram[i, k, 0], ref[g].s.ram, 128)
                            if has:
                                changed[i, k] = ref[g].changed
                        reward = <int32_t>(<uint32_t>reward + <uint32_t>ref[H - 1].reward - <uint32_t>ref[f].reward)
                        memcpy(&m.s, &ref[H - 1].s, sizeof(State))
                        drop = m.cur
                        m.cur = frame_share(ref[H - 1].cur)
                        frame_drop(drop)
                        break
                if screens:
                    memcpy(&pictures[i, 0, 0], m.cur.px, size)
                rewards[i] = reward
                over[i] = <uint8_t>env_over(m)
                if patched:
                    for k in range(first[i], first[i + 1]):
                        if list[k].location >= LOC_ROM:
                            loc = list[k].location - LOC_ROM
                            rom[loc] = rom0[loc]
    finally:
        core.busy = False
        m.rom = rom0
        if ref != NULL:
            for f in range(H):
                frame_drop(ref[f].cur)
                frame_drop(ref[f].prev)
                free(ref[f].cart_ram)
            free(ref)
        free(list)
        free(rom)
        core.restore(start)
        m.ghost_wait = 0
    core._check()
    return out_ram, out_changed, out_reward, out_screens if screens else None, out_over
