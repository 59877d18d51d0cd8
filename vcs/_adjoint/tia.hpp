// TIA: registers, delayed copies, positions and pixels, backwards (docs/gradients.md 3).
#pragma once
#include "sweep.hpp"

namespace adjoint {

// Adds a cotangent of bit `bit` of a byte: times 2^-bit under the value rules.
template <int K, int B> void Sweep<K, B>::to_bit(int location, int bit, const double* g, double slope) {
    double* u = state(location);
    if constexpr (K == 1)
        add_lane(u, g, slope / (1 << bit));
    else
        add_lane(u + bit * B, g, slope);
}

// The registers after all writes, and what each write overwrote.
template <int K, int B> void Sweep<K, B>::tia_forward() {
    for (int k = 0; k < 67; ++k)
        regs[k] = static_cast<uint8_t>(t.x0[TIA_W + k]);
    uint8_t* const old = regs + 64;
    undo.resize(t.tias);
    for (row = 0; row < t.tias; ++row) {
        const TiaRow& w = t.tia[row];
        uint8_t* keep = undo[row].old;
        const int reg = w.reg & 63;
        keep[0] = regs[reg];
        switch (reg) {
        case 0x1B:
            keep[1] = old[1];
            old[1] = regs[0x1C];
            break;
        case 0x1C:
            keep[1] = old[0];
            keep[2] = old[2];
            old[0] = regs[0x1B];
            old[2] = regs[0x1F];
            break;
        case 0x2B:
            std::memcpy(keep, regs + 0x20, 5);
            std::memset(regs + 0x20, 0, 5);
            break;
        }
        regs[reg] = w.value;
    }
    segment = seeds.n ? t.n_segments : 0;
    if (!seeds.n)
        return;
    const int64_t lines = t.n_frames * t.height;
    line_start.assign(lines + 1, 0);
    line_left.assign(lines, 0);
    claimed.assign(seeds.n, 0);
    for (int64_t k = 0; k < seeds.n; ++k)
        ++line_left[seeds.pixel[k] / WIDTH];
    for (int64_t line = 0; line < lines; ++line)
        line_start[line + 1] = line_start[line] + line_left[line];
}

// Undoes the last write in force; g becomes the adjoint of the byte written. False if that is zero.
template <int K, int B> bool Sweep<K, B>::tia_undo(double* g) {
    segments_in_force();
    --row;
    const TiaRow& w = t.tia[row];
    const uint8_t* keep = undo[row].old;
    uint8_t* const old = regs + 64;
    const int reg = w.reg & 63;
    move(g, state(TIA_W + reg));
    switch (reg) {
    case 0x10: case 0x11: case 0x12: case 0x13: case 0x14:
        clear(state(POSITION + reg - 0x10));
        break;
    case 0x1B:
        add(state(TIA_W + 0x1C), state(GRP1OLD));
        clear(state(GRP1OLD));
        old[1] = keep[1];
        break;
    case 0x1C:
        add(state(TIA_W + 0x1B), state(GRP0OLD));
        clear(state(GRP0OLD));
        add(state(TIA_W + 0x1F), state(ENABLOLD));
        clear(state(ENABLOLD));
        old[0] = keep[1];
        old[2] = keep[2];
        break;
    case 0x28: case 0x29:
        if (keep[0] & 2 && !(w.value & 2)) {
            add(state(POSITION + reg - 0x28), state(POSITION + 2 + reg - 0x28));
            clear(state(POSITION + 2 + reg - 0x28));
        }
        break;
    case 0x2A:
        hmove_undo(w);
        break;
    case 0x2B:
        for (int k = 0; k < 5; ++k)
            clear(state(TIA_W + 0x20 + k));
        std::memcpy(regs + 0x20, keep, 5);
        break;
    }
    if (reg != 0x2B)
        regs[reg] = keep[0];
    for (int j = 0; j < N; ++j)
        if (g[j] != 0.0)
            return true;
    return false;
}

template <int K, int B> void Sweep<K, B>::hmove_undo(const TiaRow& w) {
    const int cycle = static_cast<int>(static_cast<uint32_t>(w.clock) % 228 / 3);
    for (int k = 0; k < 5; ++k) {
        const double* g = state(POSITION + k);
        double* u = state(TIA_W + 0x20 + k);
        const int byte = regs[0x20 + k];
        if constexpr (K == 1) {
            if (motion(byte >> 4, cycle).passes)
                add_lane(u, g, -1.0 / 16);
        } else {
            for (int bit = 4; bit < 8; ++bit) {
                int change = motion((byte | 1 << bit) >> 4, cycle).pixels - motion((byte & ~(1 << bit)) >> 4, cycle).pixels;
                if (change)
                    add_lane(u + bit * B, g, change);
            }
        }
    }
}

// Sweeps the segments drawn after the last write in force.
template <int K, int B> void Sweep<K, B>::segments_in_force() {
    while (segment > 0 && t.segments[segment - 1].tia >= row)
        draw(t.segments[--segment]);
}

template <int K, int B> void Sweep<K, B>::draw(const Segment& s) {
    if (s.frame < 0 || s.frame >= t.n_frames || s.row < 0 || s.row >= t.height)
        return;
    const int64_t line = static_cast<int64_t>(s.frame) * t.height + s.row;
    if (!line_left[line])
        return;
    bool ready = false;
    for (int64_t k = line_start[line]; k < line_start[line + 1]; ++k) {
        const int x = static_cast<int>(seeds.pixel[k] % WIDTH);
        if (claimed[k] || x < s.x0 || x >= s.x1)
            continue;
        // the last segment drawn over a pixel has it, dark or not
        claimed[k] = 1;
        --line_left[line];
        if ((s.vblank & 2) || (s.comb && x < 8))
            continue;
        if (!ready) {
            for (int n = 0; n < 2; ++n) {
                int size = s.nusiz[n] >> 4 & 3, width = 1 << size;
                if (n == 0 && s.m0mode)
                    width = s.m0mode == 2 ? 0 : 1 << (size | 1);
                shown.player(n, s.pos[n] % WIDTH, s.nusiz[n] & 7, s.skip[n]);
                shown.block(n, s.pos[M0 + n] % WIDTH, s.nusiz[n] & 7, width);
            }
            shown.block(2, s.pos[BL] % WIDTH, 0, 1 << (s.ctrlpf >> 4 & 3));
            ready = true;
        }
        pixel(s, x, seeds.weight + k * B);
    }
}

template <int K, int B> void Sweep<K, B>::pixel(const Segment& s, int x, const double* g) {
    const uint8_t* const old = regs + 64;
    const int left = x ? x - 1 : WIDTH - 1, right = x == WIDTH - 1 ? 0 : x + 1;
    auto bit_at = [&](int n, int column, bool reflected) {
        int bit = shown.cell[n][column];
        return bit >= 0 && reflected ? 7 - bit : bit;
    };
    auto player = [&](int n, int column, int graphics, bool reflected) {
        int bit = bit_at(n, column, reflected);
        return bit >= 0 && (graphics >> bit & 1);
    };
    const int free[2] = {!(regs[0x28] & 2), !(regs[0x29] & 2)};
    const int enabled[3] = {regs[0x1D] >> 1 & 1, regs[0x1E] >> 1 & 1, (regs[0x27] & 1 ? old[2] : regs[0x1F]) >> 1 & 1};
    const bool reflected[2] = {(regs[0x0B] & 8) != 0, (regs[0x0C] & 8) != 0};
    const bool delayed[2] = {(regs[0x25] & 1) != 0, (regs[0x26] & 1) != 0};
    int graphics[2];
    for (int n = 0; n < 2; ++n)
        graphics[n] = delayed[n] ? old[n] : regs[0x1B + n];
    const int on[3] = {enabled[0] & free[0], enabled[1] & free[1], enabled[2]};
    auto lit = [&](int o, int column) {
        return o <= P1 ? player(o, column, graphics[o], reflected[o]) : on[o - M0] && shown.inside[o - M0][column];
    };
    int group = x / 4;
    group = group >= 20 && s.reflect ? 39 - group : group % 20;
    const int pf_reg = PF_REGISTER[group], pf_bit = PF_BIT[group];
    uint32_t set = 0;
    for (int o = 0; o < PF; ++o)
        set |= static_cast<uint32_t>(lit(o, x)) << o;
    set |= static_cast<uint32_t>(regs[0x0D + pf_reg] >> pf_bit & 1) << PF;
    // priority with score colours shows the latter while the playfield is the only enabled object (tia.md 7.4)
    const bool anything = graphics[0] || graphics[1] || on[0] || on[1] || on[2];
    const bool score = (s.ctrlpf & 2) && (!(s.ctrlpf & 4) || !anything), front = (s.ctrlpf & 4) && !score;
    const bool half = x < 80;
    double* colour = state(TIA_W + 6 + slot(set, score, front, half));
    if constexpr (K == 1)
        add_lane(colour, g, 1.0);
    else
        for (int k = 1; k < 8; ++k)        // bit 0 of a colour register is not wired
            add_lane(colour + k * B, g, 1 << k);
    for (int o = 0; o < 6; ++o) {
        const int gain = s.colu[slot(set | 1u << o, score, front, half)] - s.colu[slot(set & ~(1u << o), score, front, half)];
        if (!gain)
            continue;
        if (o == PF) {
            to_bit(TIA_W + 0x0D + pf_reg, pf_bit, g, gain);
            continue;
        }
        // the symmetric derivative of the triangular sampler (soft.md 2.8)
        const int edge = lit(o, left) - lit(o, right);
        if (edge)
            add_lane(state(POSITION + o), g, gain * edge / 2.0);
        if (o <= P1) {
            const int bit = bit_at(o, x, reflected[o]);
            if (bit >= 0)
                to_bit(delayed[o] ? GRP0OLD + o : TIA_W + 0x1B + o, bit, g, gain);
            const int flip = player(o, x, graphics[o], true) - player(o, x, graphics[o], false);
            if (flip)
                to_bit(TIA_W + 0x0B + o, 3, g, gain * flip);
            const int change = player(o, x, old[o], reflected[o]) - player(o, x, regs[0x1B + o], reflected[o]);
            if (change)
                to_bit(TIA_W + 0x25 + o, 0, g, gain * change);
        } else if (shown.inside[o - M0][x]) {
            if (o == BL) {
                to_bit(regs[0x27] & 1 ? ENABLOLD : TIA_W + 0x1F, 1, g, gain);
                const int change = (old[2] >> 1 & 1) - (regs[0x1F] >> 1 & 1);
                if (change)
                    to_bit(TIA_W + 0x27, 0, g, gain * change);
            } else {
                const int n = o - M0;
                if (free[n])
                    to_bit(TIA_W + 0x1D + n, 1, g, gain);
                if (enabled[n])
                    to_bit(TIA_W + 0x28 + n, 1, g, -gain);
            }
        }
    }
}

}  // namespace adjoint
