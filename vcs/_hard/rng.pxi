# MT19937, the 32-bit Mersenne Twister (riot.md 5, environment.md 6.3). Two generators live in State: `sys` fills
# RAM and picks timer values at power-on and reset, `sticky` decides repeated actions. Nothing else is random.

cdef void mt_seed(MT* g, uint32_t seed) noexcept nogil:
    """The usual initialisation from one integer."""
    cdef uint32_t i, w = seed
    g.mt[0] = seed
    for i in range(1, 624):
        w = <uint32_t>1812433253 * (w ^ (w >> 30)) + i
        g.mt[i] = w
    g.idx = 624


cdef void mt_refill(MT* g) noexcept nogil:
    cdef int i
    cdef uint32_t y
    for i in range(624):
        y = (g.mt[i] & 0x80000000u) | (g.mt[(i + 1) % 624] & 0x7FFFFFFFu)
        g.mt[i] = g.mt[(i + 397) % 624] ^ (y >> 1) ^ (<uint32_t>0x9908B0DF if y & 1 else 0)
    g.idx = 0


cdef uint32_t mt_next(MT* g) noexcept nogil:
    """The next 32 bits. A state from outside cannot make this read past the array."""
    cdef uint32_t y
    if g.idx < 0 or g.idx >= 624:
        mt_refill(g)
    y = g.mt[g.idx]
    g.idx += 1
    y ^= y >> 11
    y ^= (y << 7) & <uint32_t>0x9D2C5680
    y ^= (y << 15) & <uint32_t>0xEFC60000
    return y ^ (y >> 18)
