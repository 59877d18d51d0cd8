# RIOT (M6532): RAM, ports and timer. Models riot.md sections 2 to 5; RAM itself is read and written
# by the bus (machine.pyx), because it needs no code. Left out: edge detect, which nothing reads.

cdef inline uint32_t riot_intim(VCS* m) noexcept nogil:
    """INTIM at the current cycle, with the side effect of a first read after expiry (riot.md 4.3)."""
    cdef State* s = &m.s
    cdef uint32_t since = s.cycles - <uint32_t>s.tim_t
    cdef uint32_t delta = since - 1
    cdef int32_t value = <int32_t>s.tim_n - <int32_t>(delta >> s.tim_shift) - 1
    cdef uint32_t length, excess, g
    if value >= 0:
        return <uint32_t>value & 0xFF
    length = (<uint32_t>s.tim_n) << s.tim_shift
    if since == 0:
        return length & 0xFF  # an opcode fetched right behind the write; the interval of 1 ends above, with N
    excess = delta - length
    if excess == 0:
        return 0xFF
    if not s.tim_read:
        s.tim_read = 1
        s.tim_r = <int32_t>s.cycles
    g = <uint32_t>s.tim_r - <uint32_t>s.tim_t - length
    return (0 - (excess >> s.tim_shift) - g) & 0xFF


cdef inline uint32_t riot_timint(VCS* m) noexcept nogil:
    cdef State* s = &m.s
    cdef uint32_t delta = s.cycles - <uint32_t>s.tim_t - 1
    cdef int32_t value = <int32_t>s.tim_n - <int32_t>(delta >> s.tim_shift) - 1
    return 0x80 if value < 0 and not s.tim_read else 0


cdef uint32_t riot_read(VCS* m, uint32_t addr) noexcept nogil:
    cdef uint32_t r = addr & 7
    if r == 0:
        return m.s.swcha
    if r == 1:
        return m.s.swacnt
    if r == 2:
        return m.s.swchb
    if r == 3:
        return 0
    if r & 1:
        return riot_timint(m)
    return riot_intim(m)


cdef void riot_write(VCS* m, uint32_t addr, uint32_t v) noexcept nogil:
    cdef uint32_t r = addr & 7
    cdef State* s = &m.s
    if r == 1:
        s.swacnt = <uint8_t>v
    elif (addr & 0x14) == 0x14:
        s.tim_n = <uint8_t>v
        # shifts of TIM1T TIM8T TIM64T T1024T
        s.tim_shift = <uint8_t>((0xA630 >> ((addr & 3) * 4)) & 15)
        s.tim_t = <int32_t>s.cycles
        s.tim_read = 0


cdef void riot_reset(VCS* m, uint32_t n) noexcept nogil:
    cdef State* s = &m.s
    s.tim_n = <uint8_t>n
    s.tim_shift = 6
    s.tim_t = 0
    s.tim_r = 0
    s.tim_read = 0
    s.swacnt = 0


cdef void riot_rebase(VCS* m, uint32_t c) noexcept nogil:
    m.s.tim_t = <int32_t>(<uint32_t>m.s.tim_t - c)
    m.s.tim_r = <int32_t>(<uint32_t>m.s.tim_r - c)
