// Which objects light which pixels of a run (tia.md 7.2, 7.4), for the values and modes of one segment.
// Everything is kept per column and rebuilt only when something it depends on changed.
#pragma once
#include <cstdint>
#include <cstring>

#include "rows.hpp"

namespace adjoint {

enum Object { P0, P1, M0, M1, BL, PF };
enum Slot { COLUP0, COLUP1, COLUPF, COLUBK };

// Offsets of the copies of players and missiles by NUSIZ mode.
struct Copies {
    int n, offset[3];
};
constexpr Copies COPIES[8] = {{1, {0}}, {2, {0, 16}}, {2, {0, 32}}, {3, {0, 16, 32}},
                              {2, {0, 64}}, {1, {0}}, {3, {0, 32, 64}}, {1, {0}}};
// Register (0..2) and bit shown by each of the 20 groups of the left half.
constexpr uint8_t PF_REGISTER[20] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2};
constexpr uint8_t PF_BIT[20] = {4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7};

struct Shown {
    int8_t cell[2][WIDTH];         // graphics bit (7 = leftmost, before REFP) a player's copy has at x, -1: none
    uint8_t inside[3][WIDTH];      // footprint of M0, M1, BL
    uint32_t player_key[2] = {~0u, ~0u}, block_key[3] = {~0u, ~0u, ~0u};

    // The bit of the graphics byte a player shows at x, -1: none.
    int bit_at(int n, int x, bool reflected) const {
        const int bit = cell[n][x];
        return bit >= 0 && reflected ? 7 - bit : bit;
    }

    bool player(int n, int x, int graphics, bool reflected) const {
        const int bit = bit_at(n, x, reflected);
        return bit >= 0 && (graphics >> bit & 1);
    }

    void place(int n, int position, int mode, bool skip) {
        uint32_t key = static_cast<uint32_t>(position | mode << 8 | skip << 16);
        if (key == player_key[n])
            return;
        player_key[n] = key;
        std::memset(cell[n], -1, WIDTH);
        int stretch = mode == 5 ? 1 : mode == 7 ? 2 : 0, start = stretch > 0;
        for (int k = skip ? 1 : 0; k < COPIES[mode].n; ++k)
            for (int i = 0; i < 8 << stretch; ++i) {
                int8_t& c = cell[n][(position + COPIES[mode].offset[k] + start + i) % WIDTH];
                int8_t bit = static_cast<int8_t>(7 - (i >> stretch));
                c = c > bit ? c : bit;
            }
    }

    void block(int n, int position, int mode, int width) {
        uint32_t key = static_cast<uint32_t>(position | mode << 8 | width << 16);
        if (key == block_key[n])
            return;
        block_key[n] = key;
        std::memset(inside[n], 0, WIDTH);
        for (int k = 0; k < COPIES[mode].n; ++k)
            for (int i = 0; i < width; ++i)
                inside[n][(position + COPIES[mode].offset[k] + i) % WIDTH] = 1;
    }

    void prepare(const Segment& s) {
        for (int n = 0; n < 2; ++n) {
            // M0 stretched or hidden: Cosmic Ark (tia.md 10)
            const int size = s.nusiz[n] >> 4 & 3, mode = s.nusiz[n] & 7;
            const int width = n == 0 && s.m0mode == 2 ? 0 : 1 << (n == 0 && s.m0mode == 1 ? size | 1 : size);
            place(n, s.pos[n] % WIDTH, mode, s.skip[n]);
            block(n, s.pos[M0 + n] % WIDTH, mode, width);
        }
        block(2, s.pos[BL] % WIDTH, 0, 1 << (s.ctrlpf >> 4 & 3));
    }
};

// What the registers say while a segment is drawn. `regs`: TIA registers, then GRP0OLD GRP1OLD ENABLOLD.
struct Scene {
    int graphics[2], free[2], enabled[3], on[3];
    bool reflected[2], delayed[3], score, front;

    Scene(const Segment& s, const uint8_t* regs) {
        for (int n = 0; n < 2; ++n) {
            delayed[n] = regs[0x25 + n] & 1;
            graphics[n] = regs[delayed[n] ? 64 + n : 0x1B + n];
            reflected[n] = regs[0x0B + n] & 8;
            free[n] = !(regs[0x28 + n] & 2);
            enabled[n] = regs[0x1D + n] >> 1 & 1;
            on[n] = enabled[n] & free[n];
        }
        delayed[2] = regs[0x27] & 1;
        on[2] = enabled[2] = regs[delayed[2] ? 66 : 0x1F] >> 1 & 1;
        // priority with score colours shows the latter while the playfield is the only enabled object (tia.md 7.4)
        const bool anything = graphics[0] || graphics[1] || on[0] || on[1] || on[2];
        score = (s.ctrlpf & 2) && (!(s.ctrlpf & 4) || !anything);
        front = (s.ctrlpf & 4) && !score;
    }
};

// Which colour register shows for a set of lit objects (bits P0..PF).
inline Slot slot(uint32_t lit, bool score, bool front, bool left) {
    bool a = lit & (1 << P0 | 1 << M0), b = lit & (1 << P1 | 1 << M1), ball = lit & 1 << BL, field = lit & 1 << PF;
    if (score)
        return a || (field && left) ? COLUP0 : field || b ? COLUP1 : ball ? COLUPF : COLUBK;
    if (front && (ball || field))
        return COLUPF;
    return a ? COLUP0 : b ? COLUP1 : ball || field ? COLUPF : COLUBK;
}

}  // namespace adjoint
