# The relaxation hook of the hard machine (relaxation.md): sigmoid-gated branches and distance-softmax
# reads of ROM and RAM, each rounded. Only run_relaxed calls it. The picture stays exact.

cdef inline double relax_mix(VCS* m, uint32_t ea, bint rom, double centre) noexcept nogil:
    """sum_k w_k r[a+k], k = -4..4, wrapping in the 4 KiB window or in the 128 RAM bytes."""
    cdef double total = m.relax_w[0], acc = m.relax_w[0] * centre
    cdef int k
    cdef uint32_t at
    for k in range(1, 5):
        if rom:
            at = ea & 0xF000
            acc += m.relax_w[k] * cart_peek(m, at | ((ea + k) & 0xFFF))
            acc += m.relax_w[k] * cart_peek(m, at | ((ea - k) & 0xFFF))
        else:
            acc += m.relax_w[k] * m.s.ram[(ea + k) & 0x7F]
            acc += m.relax_w[k] * m.s.ram[(ea - k) & 0x7F]
        total += 2 * m.relax_w[k]
    return acc / total


cdef uint32_t relax_read(VCS* m, uint32_t ea, uint32_t prev, uint32_t cyc) noexcept nogil:
    cdef uint32_t v = bus_read(m, ea, prev, cyc), r
    cdef bint rom = (ea & 0x1000) != 0
    if not rom and (ea & 0x280) != 0x80:
        return v
    r = <uint32_t>rint(relax_mix(m, ea, rom, v))
    if r != v:
        m.relax_events += 1
    return r


cdef uint32_t relax_branch(VCS* m, uint32_t pc, uint32_t operand, bint taken) noexcept nogil:
    """round(pc + g delta), g = sigmoid(+-alpha) (soft.md 2.3, 5.2)."""
    cdef int delta = <int>operand - (256 if operand & 0x80 else 0)
    cdef double g = 1.0 / (1.0 + exp(-m.relax_alpha if taken else m.relax_alpha))
    cdef uint32_t target = <uint32_t>(<int>rint(pc + g * delta)) & 0xFFFF
    if target != ((pc + delta) & 0xFFFF if taken else pc):
        m.relax_events += 1
    return target


cdef void relax_set(VCS* m, double alpha, double temperature) noexcept nogil:
    cdef int k
    m.relax_alpha = alpha
    m.relax_t = temperature
    for k in range(5):
        m.relax_w[k] = exp(-k / temperature)
