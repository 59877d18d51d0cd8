# TIA: the picture, collisions, positions and the frame. Models tia.md: a lazy renderer that draws
# the run of pixels since the last access with the registers in force. Left out: sound.
#
# Objects are kept as 160-bit masks, rebuilt only when something they depend on was written; a run of
# pixels is then composed from three layers of bits (colour of P0, of P1, of PF), kept with the masks:
# 32 at a time where the processor has AVX2 (asked when the module starts), else eight at a time from
# a table that expands bits to bytes.
#
# In the usual mode (m.exact = 0) a store that changes nothing does not cut a run, and the spill of
# tia.md 7.6 is not drawn. Both can be seen only where a frame ends before its last visible line, so
# run_frame (machine.pyx) runs such a frame again with m.exact = 1.

cdef enum:
    P0 = 0
    P1 = 1
    M0 = 2
    M1 = 3
    BL = 4
    PF = 5
    NEVER = 0x7FFFFFFF
    NOTHING = -0x7FFFFFFF
    ALL_DIRTY = 127

cdef extern from *:
    """
    /* Layers, overlap and what they hold anything of (1: overlap, 2: layers of P0 and P1, 4: of PF) from the masks
       of P0 P1 M0 M1 BL PF. mode: bits 1 and 2 of CTRLPF. left: the left half of the line. */
    typedef uint64_t vcs_line __attribute__((vector_size(32), aligned(8), may_alias));
    #define VCS_ANY(v) (((v)[0] | (v)[1] | (v)[2]) != 0)
    __attribute__((always_inline)) static inline uint32_t vcs_layers_of(
            const void *masks, void *layers, void *overlap, uint32_t mode, const void *left) {
        const vcs_line *mask = (const vcs_line *)masks;
        vcs_line *layer = (vcs_line *)layers;
        const vcs_line bl = mask[4], pf = mask[5], half = *(const vcs_line *)left;
        vcs_line a = mask[0] | mask[2], b = mask[1] | mask[3], c = pf | bl;
        const vcs_line meet = (a & b) | (mask[0] & mask[2]) | (mask[1] & mask[3]) | (c & (a | b)) | (pf & bl);
        if (mode & 4) {
            a &= ~c;
            b &= ~(a | c);
        } else {
            if (mode) { /* score: the left playfield has COLUP0 and stands before P1, the right one COLUP1 */
                a |= pf & half;
                b |= pf & ~half;
                c = bl;
            }
            b &= ~a;
            c &= ~(a | b);
        }
        layer[0] = a;
        layer[1] = b;
        layer[2] = c;
        *(vcs_line *)overlap = meet;
        a |= b;
        return (VCS_ANY(meet) ? 1 : 0) | (VCS_ANY(a) ? 2 : 0) | (VCS_ANY(c) ? 4 : 0);
    }
    static uint32_t vcs_layers(const void *masks, void *layers, void *overlap, uint32_t mode, const void *left) {
        return vcs_layers_of(masks, layers, overlap, mode, left);
    }

    #if defined(__x86_64__)
    #include <immintrin.h>
    #define VCS_AVX2 __attribute__((target("avx2")))
    /* 32 bytes from 32 - x on are set from byte x on; from 64 - x on, up to byte x - 1 */
    static const uint8_t vcs_slide[96] = {
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    VCS_AVX2 static uint32_t vcs_layers_wide(
            const void *masks, void *layers, void *overlap, uint32_t mode, const void *left) {
        return vcs_layers_of(masks, layers, overlap, mode, left);
    }
    /* bit i -> byte i 0xFF */
    VCS_AVX2 __attribute__((always_inline)) static inline __m256i vcs_expand(uint32_t bits) {
        const __m256i lane = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
        const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
        __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), lane);
        return _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
    }
    /* Bytes lo..hi-1 of the 32 at `at`. */
    VCS_AVX2 __attribute__((always_inline)) static inline void vcs_put(uint8_t *at, __m256i v, int lo, int hi) {
        __m256i keep = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(vcs_slide + 32 - lo)),
                                        _mm256_loadu_si256((const __m256i *)(vcs_slide + 64 - hi)));
        v = _mm256_blendv_epi8(_mm256_loadu_si256((const __m256i *)at), v, keep);
        _mm256_storeu_si256((__m256i *)at, v);
    }
    /* Pixels x0..x1-1 (x0 < x1) of a row, 32 at a time; block gives those of block k. */
    #define VCS_RUN(block) do { \\
            int k = x0 >> 5, last = (x1 - 1) >> 5, lo = x0 & 31; \\
            if (k == last) { vcs_put(row + 32 * k, block, lo, x1 - 32 * k); return; } \\
            if (lo) { vcs_put(row + 32 * k, block, lo, 32); k++; } \\
            for (; k < last; k++) _mm256_storeu_si256((__m256i *)(row + 32 * k), block); \\
            vcs_put(row + 32 * k, block, 0, x1 - 32 * k); \\
        } while (0)
    VCS_AVX2 static void vcs_fill32(uint8_t *row, int x0, int x1, uint8_t colour) {
        const __m256i bg = _mm256_set1_epi8((char)colour);
        VCS_RUN(bg);
    }
    /* The layer of PF alone over the background. colu: colours of P0, P1, PF, BK. */
    VCS_AVX2 static void vcs_playfield32(uint8_t *row, int x0, int x1, const void *layers, const uint8_t *colu) {
        const uint32_t *c = (const uint32_t *)layers + 16;
        const __m256i bg = _mm256_set1_epi8((char)colu[3]), cc = _mm256_set1_epi8((char)(colu[2] ^ colu[3]));
        VCS_RUN(_mm256_xor_si256(bg, _mm256_and_si256(vcs_expand(c[k]), cc)));
    }
    VCS_AVX2 static void vcs_objects32(uint8_t *row, int x0, int x1, const void *layers, const uint8_t *colu) {
        const uint32_t *a = (const uint32_t *)layers, *b = a + 8, *c = a + 16;
        const __m256i bg = _mm256_set1_epi8((char)colu[3]), cc = _mm256_set1_epi8((char)(colu[2] ^ colu[3]));
        const __m256i ca = _mm256_set1_epi8((char)(colu[0] ^ colu[3]));
        const __m256i cb = _mm256_set1_epi8((char)(colu[1] ^ colu[3]));
        VCS_RUN(_mm256_xor_si256(
            _mm256_xor_si256(bg, _mm256_and_si256(vcs_expand(c[k]), cc)),
            _mm256_xor_si256(_mm256_and_si256(vcs_expand(a[k]), ca), _mm256_and_si256(vcs_expand(b[k]), cb))));
    }
    static int vcs_wide(void) { __builtin_cpu_init(); return __builtin_cpu_supports("avx2") != 0; }
    #else
    #define vcs_layers_wide vcs_layers
    static void vcs_fill32(uint8_t *row, int x0, int x1, uint8_t colour) {}
    static void vcs_playfield32(uint8_t *row, int x0, int x1, const void *layers, const uint8_t *colu) {}
    static void vcs_objects32(uint8_t *row, int x0, int x1, const void *layers, const uint8_t *colu) {}
    static int vcs_wide(void) { return 0; }
    #endif
    """
    uint32_t vcs_layers(const void*, void*, void*, uint32_t, const void*) noexcept nogil
    uint32_t vcs_layers_wide(const void*, void*, void*, uint32_t, const void*) noexcept nogil
    void vcs_fill32(uint8_t*, int, int, uint8_t) noexcept nogil
    void vcs_playfield32(uint8_t*, int, int, const void*, const uint8_t*) noexcept nogil
    void vcs_objects32(uint8_t*, int, int, const void*, const uint8_t*) noexcept nogil
    int vcs_wide() noexcept nogil

cdef int OPT_ALL = 15 if vcs_wide() else 7    # the shortcuts that this processor has (m.opt)
cdef uint64_t EXPAND[256]          # bit i set -> byte i 0xFF
cdef uint64_t BELOW[161][4]        # bits below x
cdef uint8_t REVERSE[256]
cdef uint16_t DOUBLE[256]          # each bit twice
cdef uint32_t QUAD[256]            # each bit four times
cdef uint16_t PAIRS[64]            # enabled objects -> pairs that can collide (tia.md 11)
cdef uint16_t PAIRS_WITH[64]       # objects -> pairs that have one of them
cdef uint8_t PAIR_A[15]
cdef uint8_t PAIR_B[15]
cdef int8_t MOTION[76][16]         # tia.md 9.2
cdef uint8_t COPIES[8][4]          # offsets of copies; [3] = count
cdef uint8_t PLAYER_WIDTH[8]
cdef uint8_t DELAY[64]             # render delay of a write (tia.md 6.1); PF0-2 by position
cdef uint8_t PF_DELAY[4]


cdef void build_tables() noexcept:
    cdef int i, b, c, n, x, k
    pairs = ((M0, P1), (M0, P0), (M1, P0), (M1, P1), (P0, PF), (P0, BL), (P1, PF), (P1, BL), (M0, PF), (M0, BL),
             (M1, PF), (M1, BL), (BL, PF), (P0, P1), (M0, M1))
    low = (-7, -7, -7, -7, -6, -5, -5, -4, -3, -2, -2, -1, 0, 1, 1, 2, 3, 4, 4, 5, 6)
    up = (6, 5, 4, 4, 3, 2, 1, 1, 0, -1, -2, -2, -3, -4, -5, -5, -6, -7, -8, -8)
    copies = ((0,), (0, 16), (0, 32), (0, 16, 32), (0, 64), (0,), (0, 32, 64), (0,))
    for i in range(256):
        EXPAND[i] = 0
        REVERSE[i] = 0
        DOUBLE[i] = 0
        QUAD[i] = 0
        for b in range(8):
            if i >> b & 1:
                EXPAND[i] |= (<uint64_t>0xFF) << (8 * b)
                REVERSE[i] |= 0x80 >> b
                DOUBLE[i] |= 3 << (2 * b)
                QUAD[i] |= (<uint32_t>15) << (4 * b)
    for x in range(161):
        for k in range(4):
            n = x - 64 * k
            BELOW[x][k] = 0 if n <= 0 else (~<uint64_t>0 if n >= 64 else ((<uint64_t>1) << n) - 1)
    for i, (c, b) in enumerate(pairs):
        PAIR_A[i] = c
        PAIR_B[i] = b
    for i in range(64):
        PAIRS[i] = 0
        PAIRS_WITH[i] = 0
        for b, (c, n) in enumerate(pairs):
            if (i >> c) & 1 and (i >> n) & 1:
                PAIRS[i] |= 1 << b
            if (i >> c) & 1 or (i >> n) & 1:
                PAIRS_WITH[i] |= 1 << b
    for c in range(76):
        for n in range(16):
            b = -n if n < 8 else 16 - n
            if c <= 3 or c == 75:
                MOTION[c][n] = b
            elif c <= 20:
                MOTION[c][n] = max(b, low[c])
            elif c <= 54:
                MOTION[c][n] = 0
            else:
                MOTION[c][n] = min(0, b + up[c - 55])
    for i in range(8):
        COPIES[i][3] = len(copies[i])
        for k in range(len(copies[i])):
            COPIES[i][k] = copies[i][k]
        PLAYER_WIDTH[i] = 16 if i == 5 else 32 if i == 7 else 8
    for i in range(64):
        DELAY[i] = 0
    for i in (0x01, 0x0B, 0x0C, 0x1B, 0x1C):
        DELAY[i] = 1
    for i in (0x04, 0x05, 0x12, 0x13):
        DELAY[i] = 8
    PF_DELAY[0] = 4
    PF_DELAY[1] = 5
    PF_DELAY[2] = 2
    PF_DELAY[3] = 3


build_tables()


cdef inline void all_dirty(VCS* m) noexcept nogil:
    """Nothing that was derived from the registers holds any more."""
    m.dirty = ALL_DIRTY
    m.moved = 63


cdef inline void reshaped(VCS* m, uint32_t objects) noexcept nogil:
    """The position, size or copies of objects have changed (or the playfield); where only the graphics have, m.dirty
    alone is set."""
    m.dirty |= objects
    m.moved |= objects


cdef void tia_reset(VCS* m) noexcept nogil:
    """Chip reset (tia.md 3): everything 0 but VF; the frame-in-progress and greyed flags stay."""
    cdef Tia* t = &m.s.tia
    cdef uint8_t inprogress = t.inprogress, greyed = t.greyed
    memset(t, 0, sizeof(Tia))
    t.inprogress = inprogress
    t.greyed = greyed
    t.vf = NEVER
    t.D0 = 228 * m.y0
    t.D1 = t.D0 + 228 * m.h
    t.E = 228
    own_picture(m, &m.cur)
    own_picture(m, &m.prev)
    memset(m.cur.px, 0, sizeof(m.cur.px))
    memset(m.prev.px, 0, sizeof(m.prev.px))
    m.ghost = 0
    all_dirty(m)
    m.pend = NOTHING


cdef void tia_rebase(VCS* m, uint32_t c) noexcept nogil:
    cdef Tia* t = &m.s.tia
    t.dc = <int32_t>(<uint32_t>t.dc - c)
    t.vf = <int32_t>(<uint32_t>t.vf - 3 * c)
    t.hk = <int32_t>(<uint32_t>t.hk - 3 * c)


# ---------------------------------------------------------------------------------- object masks

cdef inline void put_bits(uint64_t* mask, uint64_t bits, uint32_t at) noexcept nogil:
    """OR up to 32 bits into a line at column `at`, wrapping at 160 (at < 160 + 64)."""
    cdef uint32_t w, sh
    if at >= 160:
        at -= 160
    w = at >> 6
    sh = at & 63
    mask[w] |= bits << sh
    if sh > 32 and w < 2:
        mask[w + 1] |= bits >> (64 - sh)
    if at > 128:
        mask[0] |= bits >> (160 - at)
        mask[2] &= 0xFFFFFFFFull


cdef inline uint8_t player_graphics(Tia* t, int n) noexcept nogil:
    return t.grp_old[n] if t.vdelp[n] else t.grp_new[n]


cdef inline void put_player(Tia* t, int n, uint64_t* mask, uint32_t g, bint first) noexcept nogil:
    """A player's copies with graphics g, whose bit 0 is the leftmost pixel. first: the first one too."""
    cdef uint32_t mode = t.nusiz[n] & 7, pos = t.pos[n]
    mask[0] = mask[1] = mask[2] = 0
    if mode == 5:
        if first:
            put_bits(mask, DOUBLE[g], pos + 1)
    elif mode == 7:
        if first:
            put_bits(mask, QUAD[g], pos + 1)
    else:
        if first:
            put_bits(mask, g, pos)
        if mode:
            put_bits(mask, g, pos + COPIES[mode][1])
            if COPIES[mode][3] == 3:
                put_bits(mask, g, pos + COPIES[mode][2])


cdef void build_player(VCS* m, int n) noexcept nogil:
    cdef Tia* t = &m.s.tia
    cdef uint64_t* mask = &m.mask[n][0]
    cdef uint32_t g = player_graphics(t, n)
    if g == 0:
        mask[0] = mask[1] = mask[2] = 0
        m.enabled &= ~(<uint32_t>1 << n)
        return
    m.enabled |= <uint32_t>1 << n
    put_player(t, n, mask, g if t.refp[n] else REVERSE[g], not t.skip[n])


cdef inline void put_missile(Tia* t, int n, uint64_t* mask) noexcept nogil:
    cdef uint32_t mode = t.nusiz[n] & 7, size = (t.nusiz[n] >> 4) & 3, pos = t.pos[M0 + n], bits
    mask[0] = mask[1] = mask[2] = 0
    if n == 0 and t.m0mode:
        size |= 1
    bits = (1 << (1 << size)) - 1
    put_bits(mask, bits, pos)
    if COPIES[mode][3] > 1:
        put_bits(mask, bits, pos + COPIES[mode][1])
        if COPIES[mode][3] == 3:
            put_bits(mask, bits, pos + COPIES[mode][2])


cdef void build_missile(VCS* m, int n) noexcept nogil:
    cdef Tia* t = &m.s.tia
    cdef uint64_t* mask = &m.mask[M0 + n][0]
    mask[0] = mask[1] = mask[2] = 0
    if not t.enam[n] or t.resmp[n]:
        m.enabled &= ~(<uint32_t>1 << (M0 + n))
        return
    m.enabled |= <uint32_t>1 << (M0 + n)
    if n or t.m0mode != 2:
        put_missile(t, n, mask)


cdef inline void put_ball(Tia* t, uint64_t* mask) noexcept nogil:
    mask[0] = mask[1] = mask[2] = 0
    put_bits(mask, (1 << (1 << ((t.ctrlpf >> 4) & 3))) - 1, t.pos[BL])


cdef void build_ball(VCS* m) noexcept nogil:
    cdef Tia* t = &m.s.tia
    cdef uint64_t* mask = &m.mask[BL][0]
    if not (t.enabl_old if t.vdelbl else t.enabl_new):
        mask[0] = mask[1] = mask[2] = 0
        m.enabled &= ~(<uint32_t>1 << BL)
        return
    m.enabled |= <uint32_t>1 << BL
    put_ball(t, mask)


cdef void build_playfield(VCS* m) noexcept nogil:
    cdef Tia* t = &m.s.tia
    cdef uint64_t* mask = &m.mask[PF][0]
    cdef uint32_t pf = t.pf
    cdef uint64_t a, b, c, lo, hi
    if pf == 0:
        mask[0] = mask[1] = mask[2] = 0
        m.enabled &= ~(<uint32_t>1 << PF)
        return
    m.enabled |= <uint32_t>1 << PF
    a = QUAD[pf & 15] & 0xFFFF                   # PF0 D4..D7
    b = QUAD[REVERSE[(pf >> 4) & 0xFF]]          # PF1 D7..D0
    c = QUAD[(pf >> 12) & 0xFF]                  # PF2 D0..D7
    mask[0] = a | b << 16 | c << 48
    lo = c >> 16                                 # the 80 pixels' top 16
    if t.reflect:
        # right half mirrored: PF2 D7..D0, PF1 D0..D7, PF0 D7..D4
        c = QUAD[REVERSE[(pf >> 12) & 0xFF]]
        b = QUAD[(pf >> 4) & 0xFF]
        a = QUAD[REVERSE[(pf & 15) << 4] & 15] & 0xFFFF
        mask[1] = lo | c << 16 | b << 48
        mask[2] = b >> 16 | a << 16
    else:
        mask[1] = lo | a << 16 | b << 32
        mask[2] = c


cdef void build_masks(VCS* m) noexcept nogil:
    """Bring the object masks up to date with the registers."""
    cdef uint32_t d = m.dirty
    if d & 1:
        build_player(m, 0)
    if d & 2:
        build_player(m, 1)
    if d & 4:
        build_missile(m, 0)
    if d & 8:
        build_missile(m, 1)
    if d & 16:
        build_ball(m)
    if d & 32:
        build_playfield(m)
    m.dirty = 0
    m.layered = 0


cdef inline void build_layers(VCS* m) noexcept nogil:
    """Colour layers and overlaps of the line, from the masks (tia.md 7.4)."""
    cdef uint32_t mode = m.s.tia.ctrlpf & 6, held
    if mode == 6 and m.enabled == 32:
        mode = 2                       # the quirk of tia.md 7.4: a lone playfield keeps its score colours
    if m.opt & 8:
        held = vcs_layers_wide(&m.mask[0][0], &m.layer[0][0], &m.overlap[0], mode, &BELOW[80][0])
    else:
        held = vcs_layers(&m.mask[0][0], &m.layer[0][0], &m.overlap[0], mode, &BELOW[80][0])
    m.layered = 1
    m.meet = held & 1
    m.first_layer = 0 if held & 2 else (2 if held & 4 else 3)


# ---------------------------------------------------------------------------------------- drawing

cdef inline void store_block(uint8_t* row, int k, uint64_t v) noexcept nogil:
    memcpy(row + 8 * k, &v, 8)


cdef inline void blend_block(uint8_t* row, int k, uint64_t v, uint64_t keep) noexcept nogil:
    cdef uint64_t old
    memcpy(&old, row + 8 * k, 8)
    v = (old & keep) | (v & ~keep)
    memcpy(row + 8 * k, &v, 8)


cdef void compose(VCS* m, uint8_t* row, int x0, int x1, int first) noexcept nogil:
    """Pixels x0..x1-1 of a line: its layers from `first` on over the background (tia.md 7.4)."""
    cdef Tia* t = &m.s.tia
    cdef uint64_t bg = <uint64_t>t.colu[3] * 0x0101010101010101ull
    cdef uint64_t cc = bg ^ (<uint64_t>t.colu[2] * 0x0101010101010101ull)
    cdef uint64_t ca, cb, v
    cdef int k, k0 = x0 >> 3, k1 = x1 >> 3
    cdef uint8_t* pa = <uint8_t*>&m.layer[0][0]
    cdef uint8_t* pb = <uint8_t*>&m.layer[1][0]
    cdef uint8_t* pc = <uint8_t*>&m.layer[2][0]
    if first == 3:
        memset(row + x0, t.colu[3], x1 - x0)
        return
    if first == 2:
        if x0 & 7:
            v = bg ^ (EXPAND[pc[k0]] & cc)
            if k0 == k1:
                blend_block(row, k0, v, EXPAND[(0xFF >> (8 - (x0 & 7))) | ((0xFF << (x1 & 7)) & 0xFF)])
                return
            blend_block(row, k0, v, EXPAND[0xFF >> (8 - (x0 & 7))])
            k0 += 1
        for k in range(k0, k1):
            store_block(row, k, bg ^ (EXPAND[pc[k]] & cc))
        if x1 & 7:
            blend_block(row, k1, bg ^ (EXPAND[pc[k1]] & cc), EXPAND[(0xFF << (x1 & 7)) & 0xFF])
        return
    ca = bg ^ (<uint64_t>t.colu[0] * 0x0101010101010101ull)
    cb = bg ^ (<uint64_t>t.colu[1] * 0x0101010101010101ull)
    if x0 & 7:
        v = bg ^ (EXPAND[pa[k0]] & ca) ^ (EXPAND[pb[k0]] & cb) ^ (EXPAND[pc[k0]] & cc)
        if k0 == k1:
            blend_block(row, k0, v, EXPAND[(0xFF >> (8 - (x0 & 7))) | ((0xFF << (x1 & 7)) & 0xFF)])
            return
        blend_block(row, k0, v, EXPAND[0xFF >> (8 - (x0 & 7))])
        k0 += 1
    for k in range(k0, k1):
        store_block(row, k, bg ^ (EXPAND[pa[k]] & ca) ^ (EXPAND[pb[k]] & cb) ^ (EXPAND[pc[k]] & cc))
    if x1 & 7:
        v = bg ^ (EXPAND[pa[k1]] & ca) ^ (EXPAND[pb[k1]] & cb) ^ (EXPAND[pc[k1]] & cc)
        blend_block(row, k1, v, EXPAND[(0xFF << (x1 & 7)) & 0xFF])


cdef void collide_pairs(VCS* m, uint32_t need, int x0, int x1) noexcept nogil:
    cdef int bit, w
    cdef uint64_t* a
    cdef uint64_t* b
    while need:
        bit = __builtin_ctz(need)
        need &= need - 1
        a = &m.mask[PAIR_A[bit]][0]
        b = &m.mask[PAIR_B[bit]][0]
        for w in range(x0 >> 6, ((x1 - 1) >> 6) + 1):
            if a[w] & b[w] & BELOW[x1][w] & ~BELOW[x0][w]:
                m.s.tia.collisions |= 1 << bit


cdef void collide(VCS* m, int x0, int x1) noexcept nogil:
    """Latch the collisions of pixels x0..x1-1 (tia.md 7.3), where objects overlap somewhere near."""
    cdef uint32_t need = PAIRS[m.enabled] & ~<uint32_t>m.s.tia.collisions
    cdef int w
    if need:
        for w in range(x0 >> 6, ((x1 - 1) >> 6) + 1):
            if m.overlap[w] & BELOW[x1][w] & ~BELOW[x0][w]:
                collide_pairs(m, need, x0, x1)
                return


cdef inline bint footprint(VCS* m, int obj, int g) noexcept nogil:
    """Whether an object's shape (a player's even where its graphics are 0) touches pixels g..g+3."""
    cdef uint64_t saved[3]
    cdef bint hit
    cdef Tia* t = &m.s.tia
    cdef uint8_t keep
    cdef uint32_t enabled = m.enabled
    if obj > P1:
        return ((m.mask[obj][g >> 6] >> (g & 63)) & 15) != 0
    memcpy(saved, &m.mask[obj][0], 24)
    if t.vdelp[obj]:
        keep = t.grp_old[obj]
        t.grp_old[obj] = 0xFF
        build_player(m, obj)
        t.grp_old[obj] = keep
    else:
        keep = t.grp_new[obj]
        t.grp_new[obj] = 0xFF
        build_player(m, obj)
        t.grp_new[obj] = keep
    hit = ((m.mask[obj][g >> 6] >> (g & 63)) & 15) != 0
    memcpy(&m.mask[obj][0], saved, 24)
    m.enabled = enabled
    return hit


cdef void spill(VCS* m, uint8_t* row, int x0, int x1) noexcept nogil:
    """The up to three bytes past a run that the references' renderer also writes (tia.md 7.6)."""
    cdef Tia* t = &m.s.tia
    cdef uint32_t s = m.enabled, rest
    cdef int g = x1 & ~3, k
    cdef uint8_t v
    cdef bint on
    if x1 & 3 == 0 or g < x0:
        return
    on = ((m.mask[PF][g >> 6] >> (g & 63)) & 1) != 0
    rest = s & 31
    if s == 32:
        v = t.colu[3]
        if on:
            v = (t.colu[0] if g < 80 else t.colu[1]) if t.ctrlpf & 2 else t.colu[2]
    elif s == 1 or s == 2 or s == 3 or s == 4 or s == 8 or s == 16 or s == 12 or s == 20 or s == 24 or s == 18:
        for k in range(5):
            if (rest >> k) & 1 and footprint(m, k, g):
                return
        v = t.colu[3]
    elif (s == 33 or s == 34 or s == 48) and not t.ctrlpf & 2:
        for k in range(5):
            if (rest >> k) & 1 and footprint(m, k, g):
                return
        v = t.colu[2] if on else t.colu[3]
    else:
        return
    memset(row + x1, v, g + 4 - x1)


cdef void draw(VCS* m, int x0, int x1) noexcept nogil:
    """The pixels x0..x1-1 (x0 < x1) of the line at t.ptr - x0."""
    cdef Tia* t = &m.s.tia
    cdef uint8_t* row = m.cur.px + t.ptr - x0
    cdef int first = 3
    if <uint32_t>(t.ptr - x0) > W * (ROWS - 1):
        return
    if m.tr != NULL:
        trace_segment(m, x0, x1)
    if t.vblank & 2:
        if m.draw:
            memset(row + x0, 0, x1 - x0)
        return
    if m.dirty:
        build_masks(m)
    if m.enabled:
        if not m.layered:
            build_layers(m)
        if m.meet:
            collide(m, x0, x1)
        first = m.first_layer
    if m.draw:
        if not m.opt & 8:
            compose(m, row, x0, x1, first)
        elif first == 3:
            vcs_fill32(row, x0, x1, t.colu[3])
        elif first == 2:
            vcs_playfield32(row, x0, x1, &m.layer[0][0], &t.colu[0])
        else:
            vcs_objects32(row, x0, x1, &m.layer[0][0], &t.colu[0])
        if m.exact and m.enabled:
            spill(m, row, x0, x1)


cdef inline bint line_settled(Tia* t) noexcept nogil:
    """Whether the end of a line changes no object (end_of_line)."""
    return not (t.skip[0] | t.skip[1] | t.ark | ((t.ctrlpf & 1) ^ t.reflect))


cdef void end_of_line(VCS* m) noexcept nogil:
    cdef Tia* t = &m.s.tia
    if (t.ctrlpf & 1) != t.reflect:
        t.reflect = t.ctrlpf & 1
        reshaped(m, 32)
    if t.skip[0]:
        t.skip[0] = 0
        m.dirty |= 1
    if t.skip[1]:
        t.skip[1] = 0
        m.dirty |= 2
    if t.ark:
        t.arkcnt = (t.arkcnt + 1) & 3
        t.pos[M0] = (t.pos[M0] + 160 - (33 if t.arkcnt == 1 else 0 if t.arkcnt == 2 else 17 if t.arkcnt == 3 else 18)) % 160
        t.m0mode = 1 if t.arkcnt == 1 else 2 if t.arkcnt == 2 else 0
        reshaped(m, 4)


cdef void comb(VCS* m, int q, int p, int n) noexcept nogil:
    """The blanks of an HMOVE (tia.md 9.3) after n pixels from line clock p on, at q of the picture."""
    if q + 76 - p <= W * ROWS:
        if m.draw:
            memset(m.cur.px + q, 0, 76 - p)
        if m.tr != NULL:
            memset(m.tr.winner + q, 255, 76 - p)
    if n + p >= 76:
        m.s.tia.comb = 0


cdef void render_to(VCS* m, int32_t T) noexcept nogil:
    """tia.md 5.2, 5.3; the caller has tested 5.1."""
    cdef Tia* t = &m.s.tia
    cdef int p, n, skip, q
    cdef bint closed
    if T > t.D1:
        T = t.D1
    while True:
        p = 228 - t.E
        if T > t.L + t.E:
            n = t.E
            t.E = 228
            t.L += n
            closed = True
        else:
            n = T - t.L
            t.E -= n
            t.L = T
            closed = False
        if p < 68:
            skip = 68 - p
            if skip > n:
                skip = n
            p += skip
            n -= skip
        q = t.ptr
        if n > 0:
            if not m.blind:
                draw(m, p - 68, p - 68 + n)
            t.ptr += n
        if t.comb and p < 76:
            comb(m, q, p, n)
        if closed:
            end_of_line(m)
        if t.L >= T:
            return


cdef inline uint32_t may_meet(VCS* m) noexcept nogil:
    """The pairs that could collide anew, for all that is known without their masks."""
    return PAIRS[(m.enabled | m.dirty) & 63] & ~<uint32_t>m.s.tia.collisions & (~m.far | PAIRS_WITH[m.moved])


cdef void measure_pairs(VCS* m) noexcept nogil:
    """Find out of the pairs in question whether they are near or far. Graphics come and go line by line, positions
    stay: so the extents of objects, and not their masks, tell of most pairs that they cannot collide."""
    cdef Tia* t = &m.s.tia
    cdef uint32_t moved = m.moved, need
    cdef uint64_t* a
    cdef uint64_t* b
    cdef int bit
    if moved:
        m.moved = 0
        m.far &= ~<uint32_t>PAIRS_WITH[moved]
        m.near &= ~<uint32_t>PAIRS_WITH[moved]
        if moved & 1:
            put_player(t, 0, &m.extent[P0][0], 0xFF, True)
        if moved & 2:
            put_player(t, 1, &m.extent[P1][0], 0xFF, True)
        if moved & 4:
            put_missile(t, 0, &m.extent[M0][0])
        if moved & 8:
            put_missile(t, 1, &m.extent[M1][0])
        if moved & 16:
            put_ball(t, &m.extent[BL][0])
    need = may_meet(m) & ~m.near
    if need and m.dirty & 32:
        build_playfield(m)
        m.dirty = (m.dirty & ~<uint32_t>32) | 64
        need = may_meet(m) & ~m.near
    while need:
        bit = __builtin_ctz(need)
        need &= need - 1
        a = &m.extent[PAIR_A[bit]][0]
        b = &m.mask[PF][0] if PAIR_B[bit] == PF else &m.extent[PAIR_B[bit]][0]
        if (a[0] & b[0]) | (a[1] & b[1]) | (a[2] & b[2]):
            m.near |= 1 << bit
        else:
            m.far |= 1 << bit


cdef bint calm(VCS* m) noexcept nogil:
    """Whether an undrawn frame can run on, with the registers as they are, without a new collision."""
    cdef Tia* t = &m.s.tia
    if t.vblank & 2:
        return True
    if not may_meet(m):
        return True
    measure_pairs(m)
    if not may_meet(m):
        return True
    if m.dirty:
        build_masks(m)
    if not PAIRS[m.enabled] & ~<uint32_t>t.collisions:
        return True
    if not m.layered:
        build_layers(m)
    return not m.meet


cdef void catch_up(VCS* m) noexcept nogil:
    """Move on over the run that no picture and no collision needed (render). Before a store that a line's end acts
    upon, and at the frame's end."""
    if m.calm_to > m.s.tia.L:
        m.blind = 1
        render_to(m, m.calm_to)
        m.blind = 0
    m.calm_to = NOTHING


cdef inline void render(VCS* m, int32_t T) noexcept nogil:
    """Draw up to clock T. Of an undrawn frame only the collisions matter: while there can be none, the run that
    would have been drawn is only remembered (calm_to)."""
    cdef Tia* t = &m.s.tia
    if T < m.pend:
        T = m.pend
    m.pend = NOTHING
    if T < t.D0 or t.L >= t.D1 or t.L >= T:
        return
    if not m.exact:
        if T <= t.L + t.E - W:         # still in the horizontal blank: the next run can begin where this one does
            return
        if not m.draw:
            if T <= m.calm_to:
                return
            if calm(m) and line_settled(t):
                m.calm_to = T
                return
            catch_up(m)
    render_to(m, T)


cdef inline void render_all(VCS* m, int32_t T) noexcept nogil:
    """render, and nothing left to remember."""
    render(m, T)
    if m.calm_to != NOTHING:
        catch_up(m)


# ------------------------------------------------------------------------------- register access

cdef inline int32_t horizontal(uint32_t k) noexcept nogil:
    """Horizontal clock (0..227) of a clock relative to the frame start."""
    return <int32_t>(k % 228)


cdef void strobe_player(VCS* m, int n, int32_t K, int h) noexcept nogil:
    """RESP0/1 (tia.md 8.1 to 8.5)."""
    cdef Tia* t = &m.s.tia
    cdef int new = 3 if h < 68 else (h - 63) % 160
    cdef int delta = (new - <int>t.pos[n] + 160) % 160
    cdef int mode = t.nusiz[n] & 7, k, o
    cdef int where = 0
    for k in range(COPIES[mode][3]):
        o = COPIES[mode][k]
        if o <= delta < o + 4:
            where = 1
        elif o + 4 <= delta < o + 4 + PLAYER_WIDTH[mode]:
            where = 2
    if where == 2:
        if m.tr != NULL:
            m.tr.n_tia -= 1            # drawn before this strobe's effect
        render_all(m, K + 11)
        if m.tr != NULL:
            m.tr.n_tia += 1
    t.pos[n] = <uint8_t>new
    t.skip[n] = 0 if where == 1 else 1
    reshaped(m, <uint32_t>1 << n)


cdef inline int strobe_place(int h) noexcept nogil:
    return 2 if h < 68 else (h - 64) % 160


cdef void hmove(VCS* m, int32_t K, int h) noexcept nogil:
    """tia.md 9.1."""
    cdef Tia* t = &m.s.tia
    cdef int c = h / 3, i, p
    cdef uint32_t changed = t.skip[0] | t.skip[1] << 1 | (4 if t.m0mode else 0)
    if m.hmove_blanks and (c <= 20 or c == 75):
        t.comb = 1
    for i in range(5):
        p = MOTION[c][t.hm[i]]
        if p:
            p += <int>t.pos[i]
            if p < 0:
                p += 160
            elif p >= 160:
                p -= 160
            t.pos[i] = <uint8_t>p
            changed |= <uint32_t>1 << i
    t.skip[0] = 0
    t.skip[1] = 0
    t.m0mode = 0
    t.hk = K
    t.ark = 0
    if changed:                # many programs strobe it in every line, mostly with nothing to move
        reshaped(m, changed)


cdef inline void postpone(VCS* m, int32_t T) noexcept nogil:
    """In place of render(T) for a store that leaves the picture as it is: the run is not cut, but what follows
    must not be drawn from before T with other registers (a delayed store holds back the next ones)."""
    if m.exact:
        render(m, T)
    elif T > m.pend:
        m.pend = T


# What a store changes of the picture, and where it would: low_write and tia_write share these.

cdef inline int32_t playfield_from(int32_t K, uint32_t at) noexcept nogil:
    """at: cycles since the frame began."""
    return K + PF_DELAY[at & 3]


cdef inline uint32_t playfield_with(Tia* t, uint32_t a, uint32_t v) noexcept nogil:
    if a == 0x0D:
        return (t.pf & 0xFFFF0) | (v >> 4)
    if a == 0x0E:
        return (t.pf & 0xFF00F) | (v << 4)
    return (t.pf & 0x00FFF) | (v << 12)


cdef inline uint32_t colour_of(VCS* m, uint32_t v) noexcept nogil:
    return (v & 0xFE) | (m.s.tia.lastlines & 1 if m.pal else 0)


cdef inline bint shows_colour(VCS* m, uint32_t n, uint32_t v) noexcept nogil:
    """In an undrawn frame no colour matters."""
    return m.s.tia.colu[n] != v and m.draw


cdef inline uint32_t grp0_shows(Tia* t, uint32_t v) noexcept nogil:
    """The objects (bits of m.dirty) that a store to GRP0 changes: what a vertical delay hides changes nothing yet."""
    return ((1 if t.grp_new[0] != v and not t.vdelp[0] else 0)
            | (2 if t.grp_old[1] != t.grp_new[1] and t.vdelp[1] else 0))


cdef inline uint32_t grp1_shows(Tia* t, uint32_t v) noexcept nogil:
    return ((2 if t.grp_new[1] != v and not t.vdelp[1] else 0)
            | (1 if t.grp_old[0] != t.grp_new[0] and t.vdelp[0] else 0)
            | (16 if t.enabl_old != t.enabl_new and t.vdelbl else 0))


cdef inline void set_grp0(Tia* t, uint32_t v) noexcept nogil:
    t.grp_new[0] = <uint8_t>v
    t.grp_old[1] = t.grp_new[1]


cdef inline void set_grp1(Tia* t, uint32_t v) noexcept nogil:
    t.grp_new[1] = <uint8_t>v
    t.grp_old[0] = t.grp_new[0]
    t.enabl_old = t.enabl_new


cdef inline uint32_t line_wait(uint32_t at) noexcept nogil:
    """Cycles to the end of the line for a WSYNC `at` cycles after the frame began (0 at its very end)."""
    at %= 76
    return 76 - at if at else 0


cdef inline uint32_t kept(VCS* m, uint32_t a, uint32_t v, int32_t T, uint32_t cyc) noexcept nogil:
    """A store done without a cut: what is drawn from clock T on sees it."""
    m.s.tia.regs[a] = <uint8_t>v
    if T > m.pend:
        m.pend = T
    return cyc


cdef inline bint passes(VCS* m, int32_t T) noexcept nogil:
    """In an undrawn frame, for a store that changes an object from clock T on: whether it is plain that the run up to
    there had nothing to collide. Then it is remembered, as render does."""
    cdef Tia* t = &m.s.tia
    if (may_meet(m) and not t.vblank & 2) or not line_settled(t):
        return False
    if T < m.pend:
        T = m.pend
    m.pend = NOTHING
    if t.D0 <= T and t.L < t.D1 and t.L < T and m.calm_to < T:
        m.calm_to = T
    return True


cdef uint32_t changing_write(VCS* m, uint32_t ea, uint32_t v, uint32_t cyc) noexcept nogil:
    """A store of low_write's that changes an object; returns the cycle counter. In an undrawn frame it can be done
    here where `passes`."""
    cdef Tia* t = &m.s.tia
    cdef int32_t T = <int32_t>(3 * cyc)
    cdef uint32_t n
    if m.draw:
        return tia_write(m, ea, v, cyc)
    if ea == 0x1B:
        n = grp0_shows(t, v)
        if passes(m, T + 1):
            m.dirty |= n
            set_grp0(t, v)
            t.regs[0x1B] = <uint8_t>v
            return cyc
    elif ea == 0x1C:
        n = grp1_shows(t, v)
        if passes(m, T + 1):
            m.dirty |= n
            set_grp1(t, v)
            t.regs[0x1C] = <uint8_t>v
            return cyc
    elif ea == 0x0D or ea == 0x0E or ea == 0x0F:
        if passes(m, playfield_from(T, cyc - <uint32_t>m.line0)):
            t.pf = playfield_with(t, ea, v)
            reshaped(m, 32)
            t.regs[ea] = <uint8_t>v
            return cyc
    elif ea == 0x1D or ea == 0x1E:
        if passes(m, T):
            t.enam[ea - 0x1D] = <uint8_t>((v >> 1) & 1)
            m.dirty |= <uint32_t>4 << (ea - 0x1D)
            t.regs[ea] = <uint8_t>v
            return cyc
    elif ea == 0x1F:
        if passes(m, T):
            t.enabl_new = <uint8_t>((v >> 1) & 1)
            m.dirty |= 16
            t.regs[0x1F] = <uint8_t>v
            return cyc
    return tia_write(m, ea, v, cyc)


cdef uint32_t low_write(VCS* m, uint32_t ea, uint32_t v, uint32_t cyc) noexcept nogil:
    """A store of v < $100 below $0080; returns the cycle counter.

    The stores that programs make most, those that leave the picture as it is, are done here, in a leaf that saves no
    register; all others go on, and those that may not be done quickly (cut_all) go to low_store."""
    cdef Tia* t = &m.s.tia
    cdef int32_t T = <int32_t>(3 * cyc)
    cdef uint32_t n
    if cyc >= m.quick_end:
        return low_store(m, ea, v, cyc)
    ea &= 0x3F
    if ea == 0x02:
        if m.after_write:
            return tia_write(m, ea, v, cyc)
        return kept(m, 0x02, v, T, cyc + line_wait(cyc - <uint32_t>m.line0))
    elif ea == 0x1B:
        if grp0_shows(t, v):
            return changing_write(m, ea, v, cyc)
        set_grp0(t, v)
        return kept(m, 0x1B, v, T + 1, cyc)
    elif ea == 0x1C:
        if grp1_shows(t, v):
            return changing_write(m, ea, v, cyc)
        set_grp1(t, v)
        return kept(m, 0x1C, v, T + 1, cyc)
    elif ea == 0x0D or ea == 0x0E or ea == 0x0F:
        if t.pf != playfield_with(t, ea, v):
            return changing_write(m, ea, v, cyc)
        return kept(m, ea, v, playfield_from(T, cyc - <uint32_t>m.line0), cyc)
    elif ea == 0x06 or ea == 0x07 or ea == 0x08 or ea == 0x09:
        n = colour_of(m, v)
        if shows_colour(m, ea - 6, n):
            return tia_write(m, ea, v, cyc)
        t.colu[ea - 6] = <uint8_t>n
        return kept(m, ea, v, T, cyc)
    elif ea == 0x1D or ea == 0x1E:
        if t.enam[ea - 0x1D] != (v >> 1) & 1:
            return changing_write(m, ea, v, cyc)
        return kept(m, ea, v, T, cyc)
    elif ea == 0x1F:
        n = (v >> 1) & 1
        if t.enabl_new != n and not t.vdelbl:
            return changing_write(m, ea, v, cyc)
        t.enabl_new = <uint8_t>n
        return kept(m, 0x1F, v, T, cyc)
    elif ea == 0x20 or ea == 0x21 or ea == 0x23 or ea == 0x24:
        t.hm[ea - 0x20] = <uint8_t>(v >> 4)
        return kept(m, ea, v, T, cyc)
    elif ea == 0x2B:
        memset(t.hm, 0, 5)
        return kept(m, 0x2B, v, T, cyc)
    elif ea == 0x0A:
        if t.ctrlpf != v or t.reflect != v & 1:
            return tia_write(m, ea, v, cyc)
        return kept(m, 0x0A, v, T, cyc)
    return tia_write(m, ea, v, cyc)


cdef uint32_t tia_write(VCS* m, uint32_t addr, uint32_t value, uint32_t cyc) noexcept nogil:
    """A store at cycle `cyc` (tia.md 6): draw up to it, then change the register. Returns the cycle counter, which
    WSYNC may have moved."""
    cdef Tia* t = &m.s.tia
    cdef uint32_t a = addr & 0x3F, v = value & 0xFF, n
    cdef int32_t K = <int32_t>(3 * cyc), since
    cdef uint32_t k = <uint32_t>(K - t.F)
    cdef int h
    m.s.cycles = cyc
    if <int32_t>k >= m.cut:
        m.s.stop = 1
        leave_window(m)
    if m.tr != NULL:
        trace_store(m, a, v, K, k)
    t.regs[a] = <uint8_t>v
    if a == 0x00:                                # VSYNC
        postpone(m, K)
        t.vsync = <uint8_t>v
        if v & 2:
            t.vf = K + 228
        elif K >= t.vf:
            t.vf = NEVER
            m.s.stop = 1
            leave_window(m)
    elif a == 0x01:                              # VBLANK
        if t.vblank != v:
            render(m, K + 1)
            if (t.vblank ^ v) & 0x80:
                if v & 0x80:
                    t.dump = 1
                else:
                    t.dump = 0
                    t.dc = <int32_t>m.s.cycles
            t.vblank = <uint8_t>v
        else:
            postpone(m, K + 1)
    elif a == 0x02:                              # WSYNC
        postpone(m, K)
        if not m.after_write:
            m.s.cycles += line_wait(k / 3)
    elif a == 0x04 or a == 0x05:                 # NUSIZ0, NUSIZ1
        n = a - 4
        if t.nusiz[n] != v or t.skip[n] or (n == 0 and t.m0mode):
            render(m, K + 8)
            t.nusiz[n] = <uint8_t>v
            t.skip[n] = 0
            if n == 0:
                t.m0mode = 0
            reshaped(m, <uint32_t>5 << n)
        else:
            postpone(m, K + 8)
    elif a == 0x06 or a == 0x07 or a == 0x08 or a == 0x09:  # COLUP0, COLUP1, COLUPF, COLUBK
        v = colour_of(m, v)
        if shows_colour(m, a - 6, v):
            render(m, K)
        else:
            postpone(m, K)
        t.colu[a - 6] = <uint8_t>v
    elif a == 0x0A:                              # CTRLPF
        if t.ctrlpf != v or t.reflect != v & 1:
            render_all(m, K)
            if (t.ctrlpf ^ v) & 0x30:
                reshaped(m, 16)
            if (t.ctrlpf ^ v) & 6:
                m.dirty |= 64                    # the layers alone
            t.ctrlpf = <uint8_t>v
            if t.reflect != v & 1 and horizontal(k) < 147:
                t.reflect = v & 1
                reshaped(m, 32)
        else:
            postpone(m, K)
    elif a == 0x0B or a == 0x0C:                 # REFP0, REFP1
        n = a - 0x0B
        v = (v >> 3) & 1
        if t.refp[n] != v:
            render(m, K + 1)
            t.refp[n] = <uint8_t>v
            m.dirty |= <uint32_t>1 << n
        else:
            postpone(m, K + 1)
    elif a == 0x0D or a == 0x0E or a == 0x0F:    # PF0, PF1, PF2
        v = playfield_with(t, a, v)
        if t.pf != v:
            render(m, playfield_from(K, k / 3))
            t.pf = v
            reshaped(m, 32)
        else:
            postpone(m, playfield_from(K, k / 3))
    elif a == 0x10 or a == 0x11:                 # RESP0, RESP1
        render_all(m, K)
        strobe_player(m, a - 0x10, K, horizontal(k))
    elif a == 0x12:                              # RESM0
        render(m, K + 8)
        h = horizontal(k)
        t.pos[M0] = <uint8_t>(8 if K - t.hk == 60 and h == 69 else strobe_place(h))
        t.m0mode = 0
        reshaped(m, 4)
    elif a == 0x13:                              # RESM1
        render(m, K + 8)
        h = horizontal(k)
        t.pos[M1] = <uint8_t>(3 if K - t.hk == 9 and h == 18 else strobe_place(h))
        reshaped(m, 8)
    elif a == 0x14:                              # RESBL
        render(m, K)
        h = horizontal(k)
        since = K - t.hk
        if since == 54 and (h == 60 or h == 69):
            t.pos[BL] = 10
        elif since == 9 and h == 18:
            t.pos[BL] = 3
        elif since == 21 and h == 30:
            t.pos[BL] = 6
        elif since == 18 and h == 27:
            t.pos[BL] = 5
        else:
            t.pos[BL] = <uint8_t>strobe_place(h)
        reshaped(m, 16)
    elif a == 0x1B:                              # GRP0
        n = grp0_shows(t, v)
        if n:
            render(m, K + 1)
            m.dirty |= n
        else:
            postpone(m, K + 1)
        set_grp0(t, v)
    elif a == 0x1C:                              # GRP1
        n = grp1_shows(t, v)
        if n:
            render(m, K + 1)
            m.dirty |= n
        else:
            postpone(m, K + 1)
        set_grp1(t, v)
    elif a == 0x1D or a == 0x1E:                 # ENAM0, ENAM1
        n = a - 0x1D
        v = (v >> 1) & 1
        if t.enam[n] != v:
            render(m, K)
            t.enam[n] = <uint8_t>v
            m.dirty |= <uint32_t>4 << n
        else:
            postpone(m, K)
    elif a == 0x1F:                              # ENABL
        v = (v >> 1) & 1
        if t.enabl_new != v and not t.vdelbl:
            render(m, K)
            m.dirty |= 16
        else:
            postpone(m, K)
        t.enabl_new = <uint8_t>v
    elif a == 0x20 or a == 0x21 or a == 0x22 or a == 0x23 or a == 0x24:  # HMP0 to HMBL
        v >>= 4
        if a == 0x22 and v == 6 and t.hm[2] == 7 and K == t.hk + 63:
            render_all(m, K)
            t.ark = 1
            t.arkcnt = 0
        else:
            postpone(m, K)                       # a motion shows only at the next HMOVE
        t.hm[a - 0x20] = <uint8_t>v
    elif a == 0x25 or a == 0x26:                 # VDELP0, VDELP1
        n = a - 0x25
        if t.vdelp[n] != v & 1:
            render(m, K)
            t.vdelp[n] = v & 1
            m.dirty |= <uint32_t>1 << n
        else:
            postpone(m, K)
    elif a == 0x27:                              # VDELBL
        if t.vdelbl != v & 1:
            render(m, K)
            t.vdelbl = v & 1
            m.dirty |= 16
        else:
            postpone(m, K)
    elif a == 0x28 or a == 0x29:                 # RESMP0, RESMP1
        n = a - 0x28
        if t.resmp[n] != (v >> 1) & 1:
            render(m, K)
            if t.resmp[n]:
                h = t.nusiz[n] & 7
                t.pos[M0 + n] = <uint8_t>((t.pos[n] + (8 if h == 5 else 16 if h == 7 else 4)) % 160)
                if n == 0:
                    t.m0mode = 0
            t.resmp[n] = (v >> 1) & 1
            reshaped(m, <uint32_t>4 << n)
        else:
            postpone(m, K)
    elif a == 0x2A:                              # HMOVE
        render_all(m, K)
        hmove(m, K, horizontal(k))
    elif a == 0x2B:                              # HMCLR
        postpone(m, K)
        memset(t.hm, 0, 5)
    elif a == 0x2C:                              # CXCLR
        render(m, K)
        t.collisions = 0
    else:                                        # RSYNC, sound, and the unassigned ones
        postpone(m, K)
    return m.s.cycles


cdef void trace_store(VCS* m, uint32_t a, uint32_t v, int32_t K, uint32_t k) noexcept nogil:
    """The row of a store goes after the run of pixels that it cuts, so that run is drawn first."""
    cdef int32_t d = DELAY[a]
    if a - 0x0D <= 2:
        d = PF_DELAY[(k / 3) & 3]
    render(m, K + d)
    trace_tia(m, a, v, k)


cdef bint pin_charged(VCS* m, int32_t r) noexcept nogil:
    """Paddle capacitor (tia.md 12.3): the sum and the comparison are unsigned 32 bit."""
    cdef Tia* t = &m.s.tia
    cdef uint32_t need
    if r == 0:
        return True
    if r == NEVER or t.dump:
        return False
    need = <uint32_t>(((1.6 * r) * 0.01e-6) * 1.19e6)
    return m.s.cycles > <uint32_t>t.dc + need


cdef int tia_read(VCS* m, uint32_t addr) noexcept nogil:
    """A load at the current cycle; m.s.latch holds the byte that was on the bus before (tia.md 12)."""
    cdef Tia* t = &m.s.tia
    cdef uint32_t a = addr & 15, noise = m.s.latch & 0x3F, c
    if a < 8:
        render(m, <int32_t>(3 * m.s.cycles))
        c = t.collisions
        if a < 7:
            c >>= 2 * a
            if a == 6:
                return ((c & 1) << 7) | noise
            return ((c & 1) << 7) | ((c & 2) << 5) | noise
        return ((c >> 13) & 1) << 7 | ((c >> 14) & 1) << 6 | noise
    postpone(m, <int32_t>(3 * m.s.cycles))       # the picture does not show in an input
    if a < 12:
        return (0x80 if pin_charged(m, m.s.resist[a - 8]) else 0) | noise
    if a < 14:
        return m.s.inpt45[a - 12] | noise
    return noise
