# The relaxation hook of the hard machine (relaxation.md 4.1): sigmoid-gated branches and distance-softmax reads
# of ROM and RAM over k = -4..4, each rounded (nearest, ties to even). Only run_relaxed calls it; the picture, the
# devices, writes, stack pulls and the reset vector stay exact, and so do cycles: they follow the hard decision.
# Left out: the blend of a float counter (the ports' float32), which is exact here.

cdef enum:
    RELAX_READS = 1            # m.relax_mode: relax reads
    RELAX_BRANCHES = 2         # relax branches
    RELAX_SHADOW = 4           # compute and count the casts, use the exact values
    RELAX_DROP_CYCLE = 8       # a taken branch never pays for another page (the ports' hook, relaxation.md 4.4)


cdef inline double relax_near(VCS* m, uint32_t ea, double centre) noexcept nogil:
    """sum_k w_k r[a+k] over the cartridge window as it is mapped now, wrapping at 4 KiB."""
    cdef double acc = m.relax_w[0] * centre
    cdef uint32_t page = ea & 0xF000
    cdef int k
    for k in range(1, 5):
        acc += m.relax_w[k] * (cart_peek(m, page | ((ea + k) & 0xFFF)) + cart_peek(m, page | ((ea - k) & 0xFFF)))
    return acc


cdef inline void relax_count(VCS* m, int kind, uint32_t ea, uint32_t exact, uint32_t relaxed) noexcept nogil:
    m.relax_wrong[kind] += 1
    if not m.relax_first[0]:
        m.relax_first[0] = 1
        m.relax_first[1] = kind
        m.relax_first[2] = <int32_t>ea
        m.relax_first[3] = <int32_t>exact
        m.relax_first[4] = <int32_t>relaxed
        m.relax_first[5] = m.s.frame


cdef inline uint32_t to_even(double x) noexcept nogil:
    """Nearest integer of 0 <= x < 2^31, ties to even; rint would be a call."""
    return <uint32_t>((x + 6755399441055744.0) - 6755399441055744.0)


cdef void relax_window(VCS* m, uint32_t ea) noexcept nogil:
    """Cache the run of plain ROM around ea, short of its ends, whose bytes have all neighbours beside them in the file."""
    cdef const uint8_t* base
    m.rx_span = 0
    if m.relax_mode != RELAX_READS | RELAX_BRANCHES and m.relax_mode != RELAX_READS:
        return
    if not code_window(m, ea) or m.win_span <= 16:
        return
    base = m.win_base
    if m.rom <= base and base + m.win_span + 3 <= m.rom + m.rom_size:
        m.rx_base = base + 4
        m.rx_table = m.relax_rom + (base + 4 - m.rom)
        m.rx_lo = m.win_lo + 4
        m.rx_span = m.win_span - 9


cdef uint32_t relax_read_slow(VCS* m, uint32_t ea, uint32_t cyc) noexcept nogil:
    cdef uint32_t v = bus_read(m, ea, m.relax_bus, cyc), r
    cdef int kind = 0
    m.relax_bus = v
    if m.event:                                # a hot spot: other bytes are in the window now
        m.event = 0
        m.rx_span = 0
    if not m.relax_mode & RELAX_READS:
        return v
    if ea & 0x1000:
        r = to_even(relax_near(m, ea, v))
        if ea - m.rx_lo >= m.rx_span:
            relax_window(m, ea)
    elif (ea & 0x280) == 0x80:
        kind = 1
        r = to_even(relax_ram(m, ea, v))
    else:
        m.relax_reads[2] += 1
        return v
    m.relax_reads[kind] += 1
    if r != v:
        relax_count(m, kind, ea, v, r)
        if m.relax_mode & RELAX_SHADOW:
            return v
    return r


cdef inline double relax_ram(VCS* m, uint32_t ea, uint32_t v) noexcept nogil:
    cdef uint8_t* ram = m.s.ram
    return (m.relax_w[0] * v + m.relax_w[1] * (ram[(ea + 1) & 0x7F] + ram[(ea - 1) & 0x7F])
            + m.relax_w[2] * (ram[(ea + 2) & 0x7F] + ram[(ea - 2) & 0x7F])
            + m.relax_w[3] * (ram[(ea + 3) & 0x7F] + ram[(ea - 3) & 0x7F])
            + m.relax_w[4] * (ram[(ea + 4) & 0x7F] + ram[(ea - 4) & 0x7F]))


cdef inline uint32_t relax_read(VCS* m, uint32_t ea, uint32_t cyc) noexcept nogil:
    """One hooked read. The bus keeps the exact byte: it is what the next undriven bits show."""
    cdef uint32_t q = ea - m.rx_lo, v, r
    if q < m.rx_span:
        v = m.rx_base[q]
        r = m.rx_table[q]
        m.relax_bus = v
        m.relax_reads[0] += 1
        if r != v:
            relax_count(m, 0, ea, v, r)
        return r
    return relax_read_slow(m, ea, cyc)


cdef uint32_t relax_branch(VCS* m, uint32_t pc, uint32_t operand, bint taken) noexcept nogil:
    """round(pc + g delta), g = sigma(+-alpha) (soft.md 2.3, 5.2)."""
    cdef int delta = <int>operand - (256 if operand & 0x80 else 0)
    cdef uint32_t exact = <uint32_t>(<int>pc + delta) & 0xFFFF if taken else pc, target
    if not m.relax_mode & RELAX_BRANCHES:
        return exact
    m.relax_reads[3] += 1
    # shifted by 128: a target below 0 wraps as the counter does
    target = (to_even(128.0 + pc + (m.relax_gate if taken else 1.0 - m.relax_gate) * delta) - 128) & 0xFFFF
    if target != exact:
        relax_count(m, 2, pc, exact, target)
        if m.relax_mode & RELAX_SHADOW:
            return exact
    return target


cdef void relax_set(VCS* m, double alpha, double temperature) noexcept nogil:
    """Weights and counters; m.relax_rom must be filled by the caller."""
    cdef int k
    cdef double total = 1.0
    m.relax_gate = 1.0 / (1.0 + exp(-alpha))
    for k in range(5):
        m.relax_w[k] = exp(-k / temperature)
        if k:
            total += 2 * m.relax_w[k]
    for k in range(5):
        m.relax_w[k] /= total
    memset(m.relax_wrong, 0, sizeof(m.relax_wrong))
    memset(m.relax_reads, 0, sizeof(m.relax_reads))
    memset(m.relax_first, 0, sizeof(m.relax_first))
