// RIOT: ports and timer, backwards (docs/gradients.md 2). RAM is in cpu.hpp, because it needs no rule.
#pragma once
#include "sweep.hpp"

namespace adjoint {

// Adds to an input line of the instruction's frame: slope times the byte's bit `bit`.
template <int K, int B> void Sweep<K, B>::line(const Instr& r, int index, const double* g, int bit, double slope) {
    if (r.frame < 0 || r.frame >= t.n_frames)
        return;
    double* to = out.lines + (static_cast<size_t>(r.frame) * LINES + index) * B;
    if constexpr (K == 1)
        add_lane(to, g, slope * (1 << bit));
    else
        add_lane(to, g + bit * B, slope);
}

// A byte read at a TIA or RIOT location.
template <int K, int B> void Sweep<K, B>::read_port(int32_t location, const Instr& r, const double* g) {
    // SWCHA bit -> line: right port up down left right, then left port (riot.md 3)
    static constexpr int port_a[] = {5, 6, 7, 8, 0, 1, 2, 3};
    if (location >= TIA_R && location < TIA_R + 8) {
        if constexpr (K == 1)
            add(state(location), g);
        else
            for (int k = 6; k < 8; ++k)        // the latched bits
                add_lane(state(location) + k * B, g + k * B, 1.0);
        collision_read(location - TIA_R, g);
    } else if (location == TIA_R + 0x0C || location == TIA_R + 0x0D) {
        line(r, location == TIA_R + 0x0C ? 4 : 9, g, 7, -1.0);
    } else if (location == SWCHA) {
        for (int bit = 0; bit < 8; ++bit)
            line(r, port_a[bit], g, bit, -1.0);
    } else if (location == SWACNT) {
        add(state(SWACNT), g);
    } else if (location == SWCHB) {
        line(r, 11, g, 0, -1.0);
        line(r, 10, g, 1, -1.0);
        line(r, 12, g, 3, 1.0);
        line(r, 13, g, 6, 1.0);
        line(r, 14, g, 7, 1.0);
    } else if (location == INTIM) {
        timer_read(r, g);
    }
}

// Cycle, since the trace began, at which an instruction accesses the bus.
template <int K, int B> int64_t Sweep<K, B>::access_cycle(const Instr& r) const {
    const int64_t start = r.frame >= 0 && r.frame < t.n_frames ? base[r.frame] : 0;
    return start + r.cycles + ops[r.opcode].cycles + ((r.flags & CROSSED) ? 1 : 0);
}

template <int K, int B> void Sweep<K, B>::timer_read(const Instr& r, const double* g) {
    if (timer_asked < 0 || timer_row >= at) {
        // no read was asked about yet, or the sweep has passed that write: look for the one before
        int64_t k = at - 1;
        while (k >= 0 && !(t.instr[k].ea_loc == TIMER && (t.instr[k].flags & WROTE)))
            --k;
        timer_row = k;
        timer_asked = at;
    }
    int n, shift;
    int64_t set;
    if (timer_row < 0) {
        n = t.x0[TIMER] & 255;
        shift = t.x0[TIMER_SHIFT] & 15;
        set = t.x0[TIMER_SET];
    } else {
        static constexpr int shifts[] = {0, 3, 6, 10};
        const Instr& w = t.instr[timer_row];
        n = w.wr;
        shift = shifts[w.ea & 3];
        set = access_cycle(w);
    }
    const uint32_t since = static_cast<uint32_t>(access_cycle(r) - set - 1);
    if (since >= static_cast<uint32_t>(n) << shift)
        return;                    // expired: no derivative
    double* u = state(TIMER);
    if constexpr (K == 1)
        add(u, g);
    else {
        const int rest = 1 + static_cast<int>(since >> shift);
        difference([rest](int v) { return v - rest; }, n, g, u);
    }
}

}  // namespace adjoint
