// The reverse sweep: what it keeps, and its loop. docs/gradients.md holds the algebra; cpu.hpp, riot.hpp
// and tia.hpp the rules of each chip.
//
// K is the number of derivatives of a byte (1: `value` rules, 8: `bit`), B the number of lanes, cotangent
// vectors swept at once. A byte's adjoint is double[K * B], lane fastest; a flag's, position's, line's or
// the program counter's is double[B], kept in the first B of its row.
//
// Nothing is recomputed but what the trace leaves out: the registers before each instruction and the bytes
// read and written are rows of it. An instruction none of whose results has an adjoint is skipped, so a
// sparse question costs little more than reading the trace.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "opcodes.hpp"
#include "picture.hpp"
#include "rows.hpp"
#include "values.hpp"

namespace adjoint {

// The adjoint of a machine's state between two sweeps: of every location below STATE, of cartridge RAM,
// and of the ROM image, which only grows. Row layout [location][K * B].
struct Totals {
    double* state;
    double* cart;
    int64_t cart_size;
    double* rom;
    int64_t rom_size;
    double* lines;                 // [frame][LINES][B], of this sweep
    double* latches;               // [LATCHES][B], of collision latches that were set before what was swept
    const uint8_t* image;          // the ROM's bytes
};

// The relaxation: sharpness of the branch gate; in full mode the weights of a relaxed read, the cell itself first,
// then its neighbours at each distance (soft.md 2.5).
struct Relaxation {
    static constexpr int WINDOW = 4;
    double alpha;
    bool full;
    double weight[WINDOW + 1];
};

template <int K, int B> class Sweep {
public:
    static constexpr int N = K * B;

    Sweep(const Opcodes& opcodes, const Trace& trace, const Seeds& seeds, const Totals& totals, const Relaxation& relaxation,
          const Joins& joins);
    void run();

private:
    const Opcodes& ops;
    const Trace& t;
    const Seeds& seeds;
    const Totals& out;
    const Relaxation& soft;
    const Joins& joins;
    uint32_t live = 0;
    int64_t at = 0;                // the instruction being undone
    double *A, *X, *Y, *SP, *FN, *FV, *FD, *FI, *FZ, *FC, *PC;      // rows of out.state
    std::vector<uint8_t> live_ram, live_cart;
    double sink[N];                // where the adjoint of what has no location goes

    // --- helpers on rows
    static void add(double* to, const double* from) {
        for (int j = 0; j < N; ++j)
            to[j] += from[j];
    }
    static void add(double* to, const double* from, double slope) {
        for (int j = 0; j < N; ++j)
            to[j] += slope * from[j];
    }
    static void add_lane(double* to, const double* from, double slope) {
        for (int b = 0; b < B; ++b)
            to[b] += slope * from[b];
    }
    static void clear(double* row) { std::memset(row, 0, N * sizeof(double)); }
    static void move(double* to, double* from) {
        std::memcpy(to, from, N * sizeof(double));
        clear(from);
    }
    double* state(int location) { return out.state + static_cast<size_t>(location) * N; }
    double* cell(int32_t location);                 // RAM, cartridge RAM or ROM; `sink` for anything else
    bool is_live(int32_t location) const;
    bool take(int32_t location, double* g, bool stepped = false);

    // --- cpu.hpp
    void zeroed(int64_t k);
    void cpu(const Instr& r, const Opcode& op);
    template <class F> static void difference(F f, int u, const double* g, double* to);
    template <class F> static void number_difference(F f, int u, const double* flag, double* to);
    void from_nz(int r, double* g);
    void from_z(int r, double* g);
    void flag_from(double* u, int k, double* flag, uint32_t bit);
    void unpacked(double* g);
    void packed(const double* g);
    void adc_sbc(bool subtract, int a, int m, int c, bool decimal, const double* g, double* gm);
    void compare(int reg, int m, double* g, double* greg, double* gm);
    void logic(Kind kind, int a, int m, const double* g, double* ga, double* gm);
    void step(int u, int direction, double* g);
    void move_sp(int before, int direction);
    void shift(Kind kind, double* g);
    void word(int32_t low, int32_t high, const Instr& r, bool pulled = false);
    void branch(const Instr& r, double* flag, uint32_t bit, int sense);
    void give(int32_t location, const Instr& r, const double* g);
    void give_exact(int32_t location, const Instr& r, const double* g);
    void look_up(Index index, const Instr& r, const double* g);
    int entry(int address, const Instr& r);
    int ram_before(int cell);
    void arr_undo(int both, int carry, bool decimal, double* g);

    struct Written {
        int64_t instr;
        uint8_t value;
    };
    // The stores to RAM of STRETCH instructions: those to cell c, ascending, are start[c] to start[c + 1] - 1.
    struct Stores {
        int32_t start[129];
        std::vector<Written> all;
    };
    static constexpr int64_t STRETCH = 4096;
    std::vector<std::unique_ptr<Stores>> stores;   // of each stretch that was asked for
    void find_stores(int64_t stretch);

    // Increments in a row of a RAM cell (0..127), X or Y under the bit rules: the adjoints of what it held after each,
    // which go to what it held before all at once, as Boolean differences of that (docs/gradients.md 1).
    struct Held {
        int moved;
        double g[N];
    };
    struct Chain {
        int moved = 0, base = 0;
        std::vector<Held> held;
    };
    static constexpr int CHAIN_X = 128, CHAIN_Y = 129;
    std::vector<Chain> chains;
    std::vector<int> open;         // chains that hold something
    void chain_step(int which, int before, int direction, const double* g);
    void chain_end(int which);
    void chains_end();

    // --- join.hpp
    std::vector<int64_t> by_meet;  // joins ascending by their meeting points; from its end those not yet gathered
    int64_t join = 0;              // joins whose branch is not yet undone
    std::vector<double> gathered;  // [join][B]: the difference of the outcomes, times the adjoint where they meet
    void joins_forward();
    int64_t next_join() const;
    void gather(int64_t i);
    void branch_undone(int64_t i);

    // --- riot.hpp
    void read_port(int32_t location, const Instr& r, const double* g);
    void line(const Instr& r, int index, const double* g, int bit, double slope);
    void timer_read(const Instr& r, const double* g);
    int64_t access_cycle(const Instr& r) const;
    int64_t timer_row = 0;         // the last timer write before a read asked about (-1: before the trace) ...
    int64_t timer_asked = -1;      // ... which no read before it may use
    std::vector<int64_t> base;     // cycle at which each frame's counter starts

    // --- tia.hpp
    struct Undo {
        uint8_t old[5];            // bytes that a write overwrote
    };
    uint8_t regs[64 + 3];          // registers, then GRP0OLD GRP1OLD ENABLOLD, in force
    std::vector<Undo> undo;
    int64_t row = 0;               // TIA writes in force
    int64_t segment = 0;           // segments not yet swept
    std::vector<int64_t> line_start;      // first seed of each line of each frame
    std::vector<int32_t> line_left;       // seeds of a line that no segment has claimed yet
    std::vector<uint8_t> claimed;
    int64_t unclaimed = 0;
    Shown shown;
    void tia_forward();
    bool tia_undo(double* g);
    void hmove_undo(const TiaRow& w);
    void segments_in_force();
    void draw(const Segment& s);
    void pixel(const Segment& s, const Scene& scene, int x, const double* g);
    void object(const Segment& s, const Scene& scene, int o, int x, const double* g, double gain);
    bool lit(const Scene& scene, int o, int x) const;

    // --- collide.hpp
    struct Hit {
        int64_t segment;
        int x, bit;
        double g[B];
    };
    std::vector<Hit> hits;         // of latches that were read, where they were set; not yet swept
    std::vector<int64_t> clears;   // writes to CXCLR, ascending
    void collision_read(int reg, const double* g);
    void latched(int bit, const double* g);
    void strike(const Hit& hit);
    void strike_in_force();
    void to_bit(int location, int bit, const double* g, double slope);
};

template <int K, int B>
Sweep<K, B>::Sweep(const Opcodes& opcodes, const Trace& trace, const Seeds& s, const Totals& totals, const Relaxation& relaxation,
                   const Joins& others)
    : ops(opcodes), t(trace), seeds(s), out(totals), soft(relaxation), joins(others), live_ram(128), live_cart(totals.cart_size) {
    double** const row_of[] = {&A, &X, &Y, &SP, &FN, &FV, &FD, &FI, &FZ, &FC, &PC};
    auto nonzero = [](const double* p) {
        for (int j = 0; j < N; ++j)
            if (p[j] != 0.0)
                return true;
        return false;
    };
    for (int k = 0; k < 11; ++k) {
        *row_of[k] = state(CPU + k);
        if (nonzero(*row_of[k]))
            live |= 1u << k;
    }
    for (int k = 0; k < 128; ++k)
        live_ram[k] = nonzero(state(k));
    for (int64_t k = 0; k < out.cart_size; ++k)
        live_cart[k] = nonzero(out.cart + k * N);
    // where each frame's cycle counter starts: it restarts only after a frame that the program ended
    base.resize(t.n_frames);
    int64_t zero = 0, last = t.x0[CYCLES];
    for (int64_t f = 0; f < t.n_frames; ++f) {
        const FrameRow& frame = t.frames[f];
        const int64_t first = frame.first_instr;
        if (first >= 0 && first < frame.end_instr && first < t.instrs)
            zero += last - t.instr[first].cycles;
        base[f] = zero;
        last = frame.cycles;
    }
    if (K == 8)
        chains.resize(130);
    tia_forward();
    joins_forward();
    // latches read after this trace
    at = t.instrs;
    for (int bit = 0; bit < LATCHES; ++bit) {
        double* const kept = out.latches + bit * B;
        double g[B];
        std::memcpy(g, kept, sizeof g);
        std::memset(kept, 0, sizeof g);
        latched(bit, g);
    }
}

template <int K, int B> double* Sweep<K, B>::cell(int32_t location) {
    if (location >= ROM)
        return location - ROM < out.rom_size ? out.rom + static_cast<size_t>(location - ROM) * N : sink;
    if (location >= CART) {
        if (location - CART >= out.cart_size)
            return sink;
        live_cart[location - CART] = 1;
        return out.cart + static_cast<size_t>(location - CART) * N;
    }
    if (location >= 0 && location < 128) {
        live_ram[location] = 1;
        return state(location);
    }
    return sink;
}

template <int K, int B> bool Sweep<K, B>::is_live(int32_t location) const {
    if (location < 0)
        return false;
    if (location < 128)
        return live_ram[location];
    if (location >= CART)
        return location < ROM && location - CART < out.cart_size && live_cart[location - CART];
    return location == TIMER || location == SWACNT;
}

// The adjoint of the byte stored at a location, moved to g; false if there is none.
// `stepped`: by an instruction that increments it, which does not end its chain.
template <int K, int B> bool Sweep<K, B>::take(int32_t location, double* g, bool stepped) {
    if (location >= TIA_W && location < TIA_W + 64) {
        return row > 0 && t.tia[row - 1].instr == at && tia_undo(g);
    }
    if (!is_live(location))
        return false;
    if (location < 128) {
        if (K == 8 && !stepped && !open.empty())
            chain_end(location);
        live_ram[location] = 0;
        move(g, state(location));
    } else if (location >= CART) {
        live_cart[location - CART] = 0;
        move(g, out.cart + static_cast<size_t>(location - CART) * N);
    } else {
        move(g, state(location));
    }
    return true;
}

template <int K, int B> void Sweep<K, B>::run() {
    const bool clears = t.x0[LOW_PAGE] == 2;
    int64_t i = t.instrs - 1, frame = t.n_frames;
    while (i >= 0) {
        // chains end with the frame
        while (frame > 0 && t.frames[frame - 1].first_instr > i) {
            --frame;
            chains_end();
        }
        // the instruction that made the TIA write in force, which cannot be skipped
        int64_t stop = row > 0 ? t.tia[row - 1].instr : -1;
        if (const int64_t next = next_join(); next > stop)
            stop = next;
        const bool ends = frame > 0 && t.frames[frame - 1].first_instr - 1 >= stop;
        if (ends)
            stop = t.frames[frame - 1].first_instr - 1;
        // rows out of order: only in a trace that no machine made
        stop = stop < -1 ? -1 : stop > i ? i : stop;
        for (; i > stop; --i) {
            const Instr& r = t.instr[i];
            const Opcode& op = ops[r.opcode];
            if ((live & op.writes) || (op.stores && is_live(r.ea_loc)) || op.always) {
                at = i;
                cpu(r, op);
            }
            if (clears)
                zeroed(i);
        }
        if (i < 0)
            break;
        if (ends)
            continue;
        if (joins.n)
            gather(i);
        const Instr& r = t.instr[i];
        const Opcode& op = ops[r.opcode];
        at = i;
        double g[N];
        if (op.source_register < 3 && r.ea_loc >= TIA_W && r.ea_loc < TIA_W + 64) {
            // the most frequent kind: a plain store to the TIA
            if (row > 0 && t.tia[row - 1].instr == i && tia_undo(g)) {
                add(state(CPU + op.source_register), g);
                live |= 1u << op.source_register;
            }
        } else {
            cpu(r, op);
        }
        if (clears)
            zeroed(i);
        // a write the instruction does not account for
        while (row > 0 && t.tia[row - 1].instr >= i)
            tia_undo(g);
        if (joins.n)
            branch_undone(i);
        --i;
    }
    chains_end();
    segments_in_force();
}

}  // namespace adjoint
