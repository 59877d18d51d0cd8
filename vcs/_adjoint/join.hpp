// Branches as a select over their two outcomes (docs/gradients.md, "control = join"): the derivative of everything
// by the branch's flag is the difference of the two states where the paths meet again, times a slope.
#pragma once
#include <algorithm>

#include "sweep.hpp"

namespace adjoint {

template <int K, int B> void Sweep<K, B>::joins_forward() {
    by_meet.resize(joins.n);
    for (int64_t k = 0; k < joins.n; ++k)
        by_meet[k] = k;
    std::stable_sort(by_meet.begin(), by_meet.end(), [this](int64_t a, int64_t b) { return joins.meet[a] < joins.meet[b]; });
    gathered.assign(joins.n * B, 0.0);
    join = joins.n;
}

// The last instruction, of those not yet undone, at which a join has something to do; -1 if there is none.
template <int K, int B> int64_t Sweep<K, B>::next_join() const {
    const int64_t meet = by_meet.empty() ? -1 : joins.meet[by_meet.back()] - 1;
    const int64_t branch = join > 0 ? joins.branch[join - 1] : -1;
    return meet > branch ? meet : branch;
}

// The paths that meet after instruction i, before it is undone.
template <int K, int B> void Sweep<K, B>::gather(int64_t i) {
    if (by_meet.empty() || joins.meet[by_meet.back()] <= i)
        return;
    chains_end();
    // what was drawn later depends on the registers, too
    while (segment > 0 && t.segments[segment - 1].tia >= row && t.segments[segment - 1].instr > i)
        draw(t.segments[--segment]);
    if (!hits.empty())
        strike_in_force();
    for (; !by_meet.empty() && joins.meet[by_meet.back()] > i; by_meet.pop_back()) {
        const int64_t k = by_meet.back();
        double* const sum = gathered.data() + k * B;
        for (int64_t p = joins.start[k]; p < joins.start[k + 1]; ++p) {
            const int32_t place = joins.place[p], other = joins.other[p], here = joins.here[p];
            const bool cart = place >= CART && place - CART < out.cart_size;
            if (!cart && (place < 0 || place >= STATE))
                continue;
            const double* g = cart ? out.cart + static_cast<size_t>(place - CART) * N : state(place);
            const bool number = (place >= CPU + 4 && place < CPU + 11) || (place >= POSITION && place < POSITION + 5);
            if (K == 1 || number) {
                add_lane(sum, g, other - here);
                continue;
            }
            for (int bit = 0; bit < K; ++bit)
                if (const int change = (other >> bit & 1) - (here >> bit & 1))
                    add_lane(sum, g + bit * B, change);
        }
    }
}

// After instruction i was undone: what its other outcome would have changed goes to its flag.
template <int K, int B> void Sweep<K, B>::branch_undone(int64_t i) {
    for (; join > 0 && joins.branch[join - 1] >= i; --join) {
        if (joins.branch[join - 1] != i)
            continue;
        const Instr& r = t.instr[i];
        double* flag;
        uint32_t bit;
        bool sense;
        switch (ops[r.opcode].kind) {
        case Kind::BMI: case Kind::BPL:
            flag = FN, bit = LN, sense = ops[r.opcode].kind == Kind::BMI;
            break;
        case Kind::BVS: case Kind::BVC:
            flag = FV, bit = LV, sense = ops[r.opcode].kind == Kind::BVS;
            break;
        case Kind::BCS: case Kind::BCC:
            flag = FC, bit = LC, sense = ops[r.opcode].kind == Kind::BCS;
            break;
        case Kind::BEQ: case Kind::BNE:
            flag = FZ, bit = LZ, sense = ops[r.opcode].kind == Kind::BEQ;
            break;
        default:
            continue;
        }
        const bool value = static_cast<bool>(r.flags & TAKEN) == sense;
        // x(flag = 1) - x(flag = 0): the other outcome minus this one where the flag is 0
        add_lane(flag, gathered.data() + (join - 1) * B, value ? -joins.slope : joins.slope);
        live |= bit;
    }
}

}  // namespace adjoint
