// The rows of a trace, byte for byte the packed structs of vcs/_hard/state.pxd and the dtypes of
// vcs/trace.py, and the numbering of locations (vcs/layout.py; tests/test_adjoint.py compares both).
#pragma once
#include <cstddef>
#include <cstdint>

namespace adjoint {

#pragma pack(push, 1)
struct Instr {
    int32_t cycles, frame, loc0, loc1, loc2, ea_loc, ptr0, ptr1;
    uint16_t pc, ea;
    uint8_t opcode, b1, b2, a, x, y, sp, p, rd, wr, flags, bank;
};

struct TiaRow {
    int32_t instr, clock;
    uint8_t reg, value;
    int8_t delta[5];
    uint8_t pad;
};

struct Segment {
    int32_t instr, tia, frame;
    int16_t row;
    uint8_t x0, x1;
    uint32_t pf;
    uint8_t colu[4], pos[5], grp[2], nusiz[2], ctrlpf, refp[2], en[3], vdel[3], vblank, reflect, skip[2], m0mode, comb;
};

struct FrameRow {
    int32_t first_instr, end_instr, first_tia, first_segment, action, cycles, start_clock, paddle[4];
    uint8_t swcha, swchb, inpt[2];
};
#pragma pack(pop)

enum Location : int32_t {
    RAM = 0,
    CPU = 128,                     // A X Y SP N V D I Z C PC
    TIA_W = 192,
    GRP0OLD = 256,
    GRP1OLD = 257,
    ENABLOLD = 258,
    POSITION = 259,                // P0 P1 M0 M1 BL
    TIA_R = 320,
    SWCHA = 336,
    SWACNT = 337,
    SWCHB = 338,
    INTIM = 340,
    TIMER = 342,
    TIMER_SHIFT = 343,
    STATE = 344,                   // rows of the state's adjoint
    // places of x0 that hold counters (vcs/trace.py)
    TIMER_SET = 344,
    CYCLES = 348,
    LOW_PAGE = 350,
    X0 = 1024,
    CART = 1024,
    ROM = 65536,
};

enum RowFlag : uint8_t { TAKEN = 1, CROSSED = 2, READ = 4, WROTE = 8 };

constexpr int LINES = 32;          // input lines of a frame (layout.INPUT_SIZE)
constexpr int LATCHES = 15;        // collision latches (tia.md 11)
constexpr int WIDTH = 160;

// What one sweep reads: pointers into the caller's arrays, and their lengths.
struct Trace {
    const Instr* instr;
    int64_t instrs;
    const TiaRow* tia;
    int64_t tias;
    const Segment* segments;
    int64_t n_segments;
    const FrameRow* frames;
    int64_t n_frames;
    const int32_t* x0;             // X0 values
    int height;                    // rows of the picture
};

// Cotangents of pixels: pixel[k] = (frame * height + row) * WIDTH + column, ascending; weight[k * lanes + lane].
struct Seeds {
    const int64_t* pixel;
    const double* weight;
    int64_t n;
};

// The other outcomes of branches (vcs/join.py), ascending by branch: join k says that branch[k], had it gone the
// other way, meets the executed path again before instruction meet[k], with the locations start[k] to
// start[k + 1] - 1 of `place` holding `other` there instead of `here`.
struct Joins {
    const int64_t *branch, *meet, *start;
    const int32_t *place, *other, *here;
    int64_t n;
    double slope;                  // of the state by the flag, per unit of the difference of the outcomes
};

}  // namespace adjoint
