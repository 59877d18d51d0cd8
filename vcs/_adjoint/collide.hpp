// Collision latches, backwards (docs/gradients.md 3.2): a latch that was read as 1 is the AND of its two objects at
// the first pixel, since it was cleared, at which both were lit.
#pragma once
#include <algorithm>

#include "tia.hpp"

namespace adjoint {

// The objects of each latch; the latches of read register r are 2r (D7) and 2r + 1 (D6), one bit lower at CXPPMM.
constexpr uint8_t PAIRS[LATCHES][2] = {{M0, P1}, {M0, P0}, {M1, P0}, {M1, P1}, {P0, PF}, {P0, BL}, {P1, PF}, {P1, BL},
                                       {M0, PF}, {M0, BL}, {M1, PF}, {M1, BL}, {BL, PF}, {P0, P1}, {M0, M1}};

inline bool set_before(const Trace& t, int bit) {
    const int reg = bit < 13 ? bit / 2 : 7, data = bit == 14 || (bit < 12 && bit % 2) ? 6 : 7;
    return t.x0[TIA_R + reg] >> data & 1;
}

// A byte with adjoint g was read from a collision register.
template <int K, int B> void Sweep<K, B>::collision_read(int reg, const double* g) {
    for (int data = 7; data >= 6; --data) {
        if (reg == 6 && data == 6)
            continue;
        double one[B];
        for (int b = 0; b < B; ++b)
            one[b] = K == 1 ? g[b] * (1 << data) : g[data * B + b];
        latched(reg == 7 ? 20 - data : 2 * reg + 7 - data, one);
    }
}

// A latch with adjoint g was read at instruction `at`: looks for the pixel that had set it.
template <int K, int B> void Sweep<K, B>::latched(int bit, const double* g) {
    bool any = false;
    for (int b = 0; b < B; ++b)
        any = any || g[b] != 0.0;
    if (!any)
        return;
    const auto clear = std::lower_bound(clears.begin(), clears.end(), row);
    int64_t k = 0;
    if (clear != clears.begin()) {
        const int64_t first = *(clear - 1) + 1;
        k = std::partition_point(t.segments, t.segments + t.n_segments, [first](const Segment& s) { return s.tia < first; }) -
            t.segments;
    } else if (set_before(t, bit)) {
        for (int b = 0; b < B; ++b)
            out.latches[bit * B + b] += g[b];
        return;
    }
    const int one = PAIRS[bit][0], two = PAIRS[bit][1];
    for (; k < t.n_segments && t.segments[k].instr <= at; ++k) {
        const Segment& s = t.segments[k];
        const auto absent = [&s](int o) { return o <= P1 ? !s.grp[o] : o == PF ? !s.pf : !s.en[o - M0]; };
        if (s.vblank & 2 || absent(one) || absent(two))
            continue;
        shown.prepare(s);
        const auto lights = [&](int o, int x) {
            if (o == PF) {
                const Field field(s, x);
                return (s.pf >> (field.reg == 0 ? field.bit - 4 : 8 * field.reg - 4 + field.bit) & 1) != 0;
            }
            return o <= P1 ? shown.player(o, x, s.grp[o], s.refp[o] != 0) : shown.inside[o - M0][x] != 0;
        };
        for (int x = s.x0; x < s.x1 && x < WIDTH; ++x)
            if (lights(one, x) && lights(two, x)) {
                Hit hit{k, x, bit, {}};
                std::memcpy(hit.g, g, sizeof hit.g);
                hits.push_back(hit);
                return;
            }
    }
}

// The derivative of one object's being lit where the other one is, for both.
template <int K, int B> void Sweep<K, B>::strike(const Hit& hit) {
    const Segment& s = t.segments[hit.segment];
    const Scene scene(s, regs);
    shown.prepare(s);
    for (const uint8_t o : PAIRS[hit.bit])
        object(s, scene, o, hit.x, hit.g, 1.0);
}

// The hits drawn after the last write in force.
template <int K, int B> void Sweep<K, B>::strike_in_force() {
    const auto done = std::partition(hits.begin(), hits.end(), [this](const Hit& h) { return t.segments[h.segment].tia < row; });
    std::for_each(done, hits.end(), [this](const Hit& h) { strike(h); });
    hits.erase(done, hits.end());
}

}  // namespace adjoint
