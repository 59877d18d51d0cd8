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
        case 0x2C:
            clears.push_back(row);
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
    unclaimed = seeds.n;
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
    while (unclaimed && segment > 0 && t.segments[segment - 1].tia >= row)
        draw(t.segments[--segment]);
    if (!hits.empty())
        strike_in_force();
}

template <int K, int B> void Sweep<K, B>::draw(const Segment& s) {
    if (s.frame < 0 || s.frame >= t.n_frames || s.row < 0 || s.row >= t.height)
        return;
    const int64_t line = static_cast<int64_t>(s.frame) * t.height + s.row;
    if (!line_left[line])
        return;
    const auto column = [&](int64_t k) { return static_cast<int>(seeds.pixel[k] % WIDTH); };
    int64_t k = line_start[line];
    const int64_t end = line_start[line + 1];
    // the seeds of a line ascend: the run's are neighbours
    while (k < end && column(k) < s.x0)
        ++k;
    const Scene scene(s, regs);
    bool ready = false;
    for (; k < end && column(k) < s.x1; ++k) {
        const int x = column(k);
        if (claimed[k])
            continue;
        // the last segment drawn over a pixel has it, dark or not
        claimed[k] = 1;
        --line_left[line];
        --unclaimed;
        if ((s.vblank & 2) || (s.comb && x < 8))
            continue;
        if (!ready)
            shown.prepare(s);
        ready = true;
        pixel(s, scene, x, seeds.weight + k * B);
    }
}

// The group of the playfield at a column, and the register (0..2) and bit it shows.
struct Field {
    int reg, bit;
    Field(const Segment& s, int x) {
        int group = x / 4;
        group = group >= 20 && s.reflect ? 39 - group : group % 20;
        reg = PF_REGISTER[group];
        bit = PF_BIT[group];
    }
};

// Whether a player, missile or the ball is lit at a column.
template <int K, int B> bool Sweep<K, B>::lit(const Scene& scene, int o, int x) const {
    return o <= P1 ? shown.player(o, x, scene.graphics[o], scene.reflected[o]) : scene.on[o - M0] && shown.inside[o - M0][x];
}

template <int K, int B> void Sweep<K, B>::pixel(const Segment& s, const Scene& scene, int x, const double* g) {
    const Field field(s, x);
    uint32_t set = static_cast<uint32_t>(regs[0x0D + field.reg] >> field.bit & 1) << PF;
    for (int o = 0; o < PF; ++o)
        set |= static_cast<uint32_t>(lit(scene, o, x)) << o;
    const auto which = [&](uint32_t lit_set) { return slot(lit_set, scene.score, scene.front, x < 80); };
    double* colour = state(TIA_W + 6 + which(set));
    if constexpr (K == 1)
        add_lane(colour, g, 1.0);
    else
        for (int k = 1; k < 8; ++k)        // bit 0 of a colour register is not wired
            add_lane(colour + k * B, g, 1 << k);
    for (int o = 0; o < 6; ++o)
        if (const int gain = s.colu[which(set | 1u << o)] - s.colu[which(set & ~(1u << o))])
            object(s, scene, o, x, g, gain);
}

// Adds gain times the derivative of "object o is lit at column x" (docs/gradients.md 3.3).
template <int K, int B>
void Sweep<K, B>::object(const Segment& s, const Scene& scene, int o, int x, const double* g, double gain) {
    if (o == PF) {
        const Field field(s, x);
        to_bit(TIA_W + 0x0D + field.reg, field.bit, g, gain);
        return;
    }
    const int left = x ? x - 1 : WIDTH - 1, right = x == WIDTH - 1 ? 0 : x + 1;
    // the symmetric derivative of the triangular sampler (soft.md 2.8)
    const int edge = lit(scene, o, left) - lit(scene, o, right);
    if (edge)
        add_lane(state(POSITION + o), g, gain * edge / 2.0);
    if (o <= P1) {
        const int bit = shown.bit_at(o, x, scene.reflected[o]);
        if (bit < 0)
            return;
        to_bit(scene.delayed[o] ? GRP0OLD + o : TIA_W + 0x1B + o, bit, g, gain);
        const int flip = shown.player(o, x, scene.graphics[o], true) - shown.player(o, x, scene.graphics[o], false);
        if (flip)
            to_bit(TIA_W + 0x0B + o, 3, g, gain * flip);
        const int change = (regs[64 + o] >> bit & 1) - (regs[0x1B + o] >> bit & 1);
        if (change)
            to_bit(TIA_W + 0x25 + o, 0, g, gain * change);
    } else if (shown.inside[o - M0][x]) {
        if (o == BL) {
            to_bit(scene.delayed[2] ? ENABLOLD : TIA_W + 0x1F, 1, g, gain);
            const int change = (regs[66] >> 1 & 1) - (regs[0x1F] >> 1 & 1);
            if (change)
                to_bit(TIA_W + 0x27, 0, g, gain * change);
        } else {
            const int n = o - M0;
            if (scene.free[n])
                to_bit(TIA_W + 0x1D + n, 1, g, gain);
            if (scene.enabled[n])
                to_bit(TIA_W + 0x28 + n, 1, g, -gain);
        }
    }
}

}  // namespace adjoint
