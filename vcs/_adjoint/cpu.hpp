// The 6507, backwards: one case per instruction, each the transpose of vcs/soft/cpu.py's method of that
// name (docs/gradients.md 1).
#pragma once
#include "sweep.hpp"

namespace adjoint {

struct Popcount {
    double of[256];                // set bits / 8
    double zero_slope[256];        // contraction of Z: -255/1024 at 0, -1/(8 * 2^k) at 2^k
    constexpr Popcount() : of(), zero_slope() {
        for (int u = 0; u < 256; ++u) {
            int n = 0;
            for (int k = 0; k < 8; ++k) {
                n += u >> k & 1;
                if (u == 1 << k)
                    zero_slope[u] = -1.0 / (8 << k);
            }
            of[u] = n / 8.0;
        }
        zero_slope[0] = -255.0 / 1024;
    }
};
inline constexpr Popcount TABLE;

// Boolean differences (K = 8): cotangent of the bits of u from that of the byte f(u) ...
template <int K, int B> template <class F>
void Sweep<K, B>::difference(F f, int u, const double* g, double* to) {
    for (int k = 0; k < 8; ++k) {
        const unsigned high = f(u | 1 << k) & 255, low = f(u & ~(1 << k)) & 255;
        for (unsigned d = high ^ low; d; d &= d - 1) {
            const int j = __builtin_ctz(d);
            add_lane(to + k * B, g + j * B, high >> j & 1 ? 1.0 : -1.0);
        }
    }
}

// ... and from that of the number f(u).
template <int K, int B> template <class F>
void Sweep<K, B>::number_difference(F f, int u, const double* flag, double* to) {
    for (int k = 0; k < 8; ++k) {
        const int change = f(u | 1 << k) - f(u & ~(1 << k));
        if (change)
            add_lane(to + k * B, flag, change);
    }
}

// Adds the adjoints of N and Z, set from the byte r, to that of r.
template <int K, int B> void Sweep<K, B>::from_nz(int r, double* g) {
    if (live & LN)
        flag_from(g, 7, FN, LN);
    from_z(r, g);
}

template <int K, int B> void Sweep<K, B>::from_z(int r, double* g) {
    if (!(live & LZ))
        return;
    if constexpr (K == 1) {
        add_lane(g, FZ, TABLE.zero_slope[r]);
    } else {
        for (int k = 0; k < 8; ++k)
            if ((r & ~(1 << k)) == 0)
                add_lane(g + k * B, FZ, -1.0);
    }
    clear(FZ);
    live &= ~LZ;
}

// A flag that was set to bit k of a byte with adjoint u.
template <int K, int B> void Sweep<K, B>::flag_from(double* u, int k, double* flag, uint32_t bit) {
    if (!(live & bit))
        return;
    if constexpr (K == 1)
        add_lane(u, flag, 1.0 / (1 << k));
    else
        add_lane(u + k * B, flag, 1.0);
    clear(flag);
    live &= ~bit;
}

// The flags were unpacked from a byte with adjoint g (PLP, RTI).
template <int K, int B> void Sweep<K, B>::unpacked(double* g) {
    flag_from(g, 7, FN, LN);
    flag_from(g, 6, FV, LV);
    flag_from(g, 3, FD, LD);
    flag_from(g, 2, FI, LI);
    flag_from(g, 1, FZ, LZ);
    flag_from(g, 0, FC, LC);
}

// A byte with adjoint g was packed from the flags (PHP, BRK).
template <int K, int B> void Sweep<K, B>::packed(const double* g) {
    double* const flags[] = {FN, FV, FD, FI, FZ, FC};
    static constexpr int bits[] = {7, 6, 3, 2, 1, 0};
    for (int f = 0; f < 6; ++f) {
        if constexpr (K == 1)
            add_lane(flags[f], g, 1 << bits[f]);
        else
            add_lane(flags[f], g + bits[f] * B, 1.0);
    }
    live |= LFLAGS;
}

template <int K, int B>
void Sweep<K, B>::adc_sbc(bool subtract, int a, int m, int c, bool decimal, const double* g, double* gm) {
    auto f = [&](int u, int v, int w) { return subtract ? sub(u, v, w, decimal) : adjoint::add(u, v, w, decimal); };
    const double sign = subtract ? -1.0 : 1.0;
    double carry[B], overflow[B];
    std::memcpy(carry, FC, sizeof carry);
    std::memcpy(overflow, FV, sizeof overflow);
    clear(FC);
    clear(FV);
    if constexpr (K == 1) {
        add(A, g);
        add(gm, g, sign);
        add(FC, g);
        add_lane(A, carry, 1.0 / 256);
        add_lane(gm, carry, sign / 256);
        add_lane(FC, carry, 1.0 / 256);
        if (live & LV) {
            add_lane(A, overflow, contraction([&](int u) { return f(u, m, c).v; }, a));
            add_lane(gm, overflow, contraction([&](int u) { return f(a, u, c).v; }, m));
            add_lane(FC, overflow, f(a, m, 1).v - f(a, m, 0).v);
        }
    } else {
        difference([&](int u) { return f(u, m, c).r; }, a, g, A);
        difference([&](int u) { return f(a, u, c).r; }, m, g, gm);
        const Sum high = f(a, m, 1), low = f(a, m, 0);
        for (unsigned d = static_cast<unsigned>(high.r ^ low.r); d; d &= d - 1) {
            const int j = __builtin_ctz(d);
            add_lane(FC, g + j * B, high.r >> j & 1 ? 1.0 : -1.0);
        }
        if (live & LC) {
            number_difference([&](int u) { return f(u, m, c).c; }, a, carry, A);
            number_difference([&](int u) { return f(a, u, c).c; }, m, carry, gm);
            add_lane(FC, carry, high.c - low.c);
        }
        if (live & LV) {
            number_difference([&](int u) { return f(u, m, c).v; }, a, overflow, A);
            number_difference([&](int u) { return f(a, u, c).v; }, m, overflow, gm);
            add_lane(FC, overflow, high.v - low.v);
        }
    }
    live = (live & ~LV) | LA | LC;
}

// C, N and Z of reg - m; `g` is the adjoint of the difference where it is kept (SBX), else zero.
template <int K, int B> void Sweep<K, B>::compare(int reg, int m, double* g, double* greg, double* gm) {
    from_nz((reg - m) & 255, g);
    if constexpr (K == 1) {
        add(greg, g);
        add(gm, g, -1.0);
        if (live & LC) {
            add_lane(greg, FC, 1.0 / 256);
            add_lane(gm, FC, -1.0 / 256);
        }
    } else {
        difference([&](int u) { return u - m; }, reg, g, greg);
        difference([&](int u) { return reg - u; }, m, g, gm);
        if (live & LC) {
            number_difference([&](int u) { return u >= m; }, reg, FC, greg);
            number_difference([&](int u) { return reg >= u; }, m, FC, gm);
        }
    }
    clear(FC);
    live &= ~LC;
}

// AND, ORA, EOR of a and m with result adjoint g; gm may be null: a constant.
template <int K, int B>
void Sweep<K, B>::logic(Kind kind, int a, int m, const double* g, double* ga, double* gm) {
    auto pass = [&](int other, double* to) {
        if constexpr (K == 1) {
            const double p = TABLE.of[other];
            add(to, g, kind == Kind::AND ? p : kind == Kind::ORA ? 1 - p : 1 - 2 * p);
        } else {
            for (int k = 0; k < 8; ++k) {
                const int b = other >> k & 1, slope = kind == Kind::AND ? b : kind == Kind::ORA ? 1 - b : 1 - 2 * b;
                if (slope)
                    add_lane(to + k * B, g + k * B, slope);
            }
        }
    };
    pass(m, ga);
    if (gm)
        pass(a, gm);
}

// A place that held `before` was incremented by `direction`, after which it had adjoint g.
template <int K, int B> void Sweep<K, B>::chain_step(int which, int before, int direction, const double* g) {
    Chain& c = chains[which];
    bool any = false;
    for (int j = 0; j < N; ++j)
        any = any || g[j] != 0.0;
    if (any) {
        if (c.held.empty()) {
            open.push_back(which);
            c.moved = 0;
        }
        c.held.push_back({c.moved, {}});
        std::memcpy(c.held.back().g, g, sizeof c.held.back().g);
    }
    c.moved += direction;
    c.base = before;
}

// The place got its value `base` by something else.
template <int K, int B> void Sweep<K, B>::chain_end(int which) {
    Chain& c = chains[which];
    if (c.held.empty())
        return;
    double* const to = which == CHAIN_X ? X : which == CHAIN_Y ? Y : state(which);
    for (const Held& h : c.held) {
        const int n = c.moved - h.moved;
        difference([n](int v) { return v + n; }, c.base, h.g, to);
    }
    c.held.clear();
    open.erase(std::find(open.begin(), open.end(), which));
    if (which < 128)
        live_ram[which] = 1;
    else
        live |= which == CHAIN_X ? LX : LY;
}

template <int K, int B> void Sweep<K, B>::chains_end() {
    while (!open.empty())
        chain_end(open.back());
}

// INC, DEC: g of the result becomes g of u.
template <int K, int B> void Sweep<K, B>::step(int u, int direction, double* g) {
    if constexpr (K == 8) {
        double from[N];
        move(from, g);
        difference([direction](int v) { return v + direction; }, u, from, g);
    }
}

// SP moved by one.
template <int K, int B> void Sweep<K, B>::move_sp(int before, int direction) {
    if (live & LSP)
        step(before & 255, direction, SP);
}

// Shifts and rotates: g of the result becomes g of u; C's adjoint that of the carry before.
template <int K, int B> void Sweep<K, B>::shift(Kind kind, double* g) {
    const bool left = kind == Kind::ASL || kind == Kind::ROL, rotate = kind == Kind::ROL || kind == Kind::ROR;
    double carry[B];
    const bool had = live & LC;
    std::memcpy(carry, FC, sizeof carry);
    clear(FC);
    live &= ~LC;
    if (rotate) {
        if constexpr (K == 1)
            add_lane(FC, g, left ? 1.0 : 128.0);
        else
            add_lane(FC, g + (left ? 0 : 7) * B, 1.0);
        live |= LC;
    }
    if constexpr (K == 1) {
        for (int b = 0; b < B; ++b)
            g[b] *= left ? 2.0 : 0.5;
        if (had)
            add_lane(g, carry, left ? 1.0 / 128 : 1.0);
    } else {
        if (left) {
            std::memmove(g, g + B, 7 * B * sizeof(double));
            std::memset(g + 7 * B, 0, B * sizeof(double));
        } else {
            std::memmove(g + B, g, 7 * B * sizeof(double));
            std::memset(g, 0, B * sizeof(double));
        }
        if (had)
            add_lane(g + (left ? 7 : 0) * B, carry, 1.0);
    }
}

// PC was made of two bytes.
template <int K, int B> void Sweep<K, B>::word(int32_t low, int32_t high, const Instr& r, bool pulled) {
    if (!(live & LPC))
        return;
    double g[N] = {}, h[N];
    if constexpr (K == 1)
        add_lane(g, PC, 1.0);
    else
        for (int k = 0; k < 8; ++k)
            add_lane(g + k * B, PC, 1 << k);
    std::memset(h, 0, sizeof h);
    add(h, g, 256.0);
    clear(PC);
    live &= ~LPC;
    if (pulled) {
        give_exact(low, r, g);
        give_exact(high, r, h);
    } else {
        give(low, r, g);
        give(high, r, h);
    }
}

template <int K, int B> void Sweep<K, B>::branch(const Instr& r, double* flag, uint32_t bit, int sense) {
    // a branch pins its flag: what came after it knew the flag's value
    clear(flag);
    live &= ~bit;
    if (!(live & LPC))
        return;
    // the gate and one minus it, each exact in its small tail; alpha z is +-alpha, + where the branch is taken
    const double small = std::exp(-soft.alpha) / (1.0 + std::exp(-soft.alpha)), large = 1.0 / (1.0 + std::exp(-soft.alpha));
    const double gate = r.flags & TAKEN ? large : small, delta = static_cast<int8_t>(r.b1);
    clear(flag);                            // pinned: later uses know its value (docs/gradients.md 1.6)
    add_lane(flag, PC, 2.0 * sense * soft.alpha * large * small * delta);
    live |= bit;
    double g[N] = {};
    if constexpr (K == 1)
        add_lane(g, PC, gate);
    else
        for (int k = 0; k < 8; ++k)
            add_lane(g + k * B, PC, gate * (k == 7 ? -128 : 1 << k));
    give(r.loc1, r, g);
}

// Adds g to the adjoint of the byte read at a location ...
template <int K, int B> void Sweep<K, B>::give_exact(int32_t location, const Instr& r, const double* g) {
    if (location >= TIA_W && location < STATE)
        read_port(location, r, g);
    else
        add(cell(location), g);
}

// ... and, in full mode, of its neighbours: inside the 128 bytes of RAM or a 4 KiB bank of the image
// (vcs/soft/relax.py).
template <int K, int B> void Sweep<K, B>::give(int32_t location, const Instr& r, const double* g) {
    const bool ram = location >= RAM && location < 128;
    if (!soft.full || !(ram || (location >= ROM && location - ROM < out.rom_size))) {
        give_exact(location, r, g);
        return;
    }
    add(cell(location), g, soft.weight[0]);
    const int64_t index = location - (ram ? RAM : ROM), size = ram ? 128 : out.rom_size < 4096 ? out.rom_size : 4096;
    const int64_t start = index / size * size;
    for (int k = 1; k <= Relaxation::WINDOW; ++k)
        for (int sign = -1; sign <= 1; sign += 2) {
            const int64_t beside = start + (index - start + sign * k + size) % size;
            add(cell(static_cast<int32_t>((ram ? RAM : ROM) + beside)), g, soft.weight[k]);
        }
}

// Where the stack's byte at $0100 + sp is.
inline int32_t stack(int sp, bool write) {
    sp &= 255;
    return sp & 0x80 ? sp & 0x7F : write ? TIA_W + (sp & 0x3F) : TIA_R + (sp & 0x0F);
}

template <int K, int B> void Sweep<K, B>::find_stores(int64_t stretch) {
    auto found = std::make_unique<Stores>();
    std::vector<std::pair<uint8_t, Written>> flat;
    const auto put = [&flat](int32_t location, int64_t k, int value) {
        if (location >= 0 && location < 128)
            flat.push_back({static_cast<uint8_t>(location), {k, static_cast<uint8_t>(value)}});
    };
    const int64_t end = std::min(t.instrs, (stretch + 1) * STRETCH);
    for (int64_t k = stretch * STRETCH; k < end; ++k) {
        const Instr& r = t.instr[k];
        const Opcode& op = ops[r.opcode];
        if (op.stores)
            put(r.ea_loc, k, r.wr);
        else if (op.always) {
            put(stack(r.sp, true), k, (r.pc + 2) >> 8);
            put(stack(r.sp - 1, true), k, r.pc + 2);
            if (op.kind == Kind::BRK)
                put(stack(r.sp - 2, true), k, r.p | 0x30);
        }
    }
    std::stable_sort(flat.begin(), flat.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    size_t n = 0;
    for (int c = 0; c < 128; ++c) {
        found->start[c] = static_cast<int32_t>(n);
        for (; n < flat.size() && flat[n].first == c; ++n)
            found->all.push_back(flat[n].second);
    }
    found->start[128] = static_cast<int32_t>(n);
    stores[stretch] = std::move(found);
}

// The byte of RAM before instruction `at`: the trace has what was written, so the writes are looked up.
template <int K, int B> int Sweep<K, B>::ram_before(int cell) {
    if (stores.empty())
        stores.resize(t.instrs / STRETCH + 1);
    for (int64_t stretch = at / STRETCH; stretch >= 0; --stretch) {
        if (!stores[stretch])
            find_stores(stretch);
        const Stores& s = *stores[stretch];
        const auto first = s.all.begin() + s.start[cell], last = s.all.begin() + s.start[cell + 1];
        const auto next = std::partition_point(first, last, [this](const Written& w) { return w.instr < at; });
        if (next != first)
            return (next - 1)->value;
    }
    return t.x0[cell] & 255;
}

// What an instruction that read r.rd at r.ea would have read at another address; r.rd where that is not known: the
// TIA, the RIOT's ports, and where a mapper has switches, other slices, or RAM.
template <int K, int B> int Sweep<K, B>::entry(int address, const Instr& r) {
    address &= 0xFFFF;
    if ((address & 0x1280) == 0x80)
        return ram_before(address & 0x7F);
    if (!(address & r.ea & 0x1000) || r.ea_loc < ROM || r.ea_loc - ROM >= out.rom_size || out.cart_size >= 1024)
        return r.rd;
    const int place = address & 0xFFF;
    const int64_t index = r.ea_loc - ROM + address - r.ea;
    if (place < 0x100 && (out.cart_size || (out.rom_size > 4096 && out.rom_size % 4096)))
        return r.rd;
    if (out.rom_size <= 4096)
        return out.image[(index + 2 * 65536 / out.rom_size * out.rom_size) % out.rom_size];
    if ((address ^ r.ea) & 0xC00 || place >= 0xFE0 || index < 0 || index >= out.rom_size)
        return r.rd;
    return out.image[index];
}

// The byte that was read has adjoint g: what its address was made of, as the table's other entries say.
template <int K, int B> void Sweep<K, B>::look_up(Index index, const Instr& r, const double* g) {
    bool any = false;
    for (int j = 0; j < N; ++j)
        any = any || g[j] != 0.0;
    if (!any)
        return;
    const auto part = [&](double* to, int u, auto address) {
        const auto at_part = [&](int v) { return address(v) == r.ea ? r.rd : entry(address(v), r); };
        if constexpr (K == 1)
            add(to, g, (at_part(u + 1) - at_part(u - 1)) / 2.0);
        else
            difference(at_part, u, g, to);
    };
    const int base = index == Index::x || index == Index::y ? r.b1 | r.b2 << 8 : r.b1;
    const auto plain = [base](int v) { return (base + v) & 0xFFFF; };
    const auto page = [base](int v) { return (base + v) & 0xFF; };
    switch (index) {
    case Index::x: part(X, r.x, plain); live |= LX; break;
    case Index::y: part(Y, r.y, plain); live |= LY; break;
    case Index::page_x: part(X, r.x, page); live |= LX; break;
    case Index::page_y: part(Y, r.y, page); live |= LY; break;
    case Index::pointer:
    case Index::pointer_y: {
        const int y = index == Index::pointer_y ? r.y : 0, pointer = (r.ea - y) & 0xFFFF;
        part(cell(r.ptr0), pointer & 255, [=](int v) { return ((pointer & 0xFF00) + v + y) & 0xFFFF; });
        part(cell(r.ptr1), pointer >> 8, [=](int v) { return ((pointer & 0xFF) + (v << 8) + y) & 0xFFFF; });
        if (index == Index::pointer_y) {
            part(Y, y, [=](int v) { return (pointer + v) & 0xFFFF; });
            live |= LY;
        }
        break;
    }
    case Index::none:
        break;
    }
}

// Where a read-modify-write instruction read its byte: ea_loc says where it wrote. -1 where that is the cartridge,
// which never has the same cell at both. `low`: reads below $40 do not reach the TIA.
inline int32_t modify_location(const Instr& r, bool low) {
    if (r.ea_loc >= 0 && r.ea_loc < 128)
        return r.ea_loc;
    if ((r.ea & 0x1080) == 0 && !(low && (r.ea & 0x1FFF) < 0x40))
        return TIA_R + (r.ea & 15);
    if ((r.ea & 0x1280) == 0x280)
        return r.ea & 4 ? INTIM + (r.ea & 1) : SWCHA + (r.ea & 3);
    return -1;
}

// A read of mapper MC's RAM through the half to write it stores 0, and that is the byte read: what came later has
// nothing from before.
template <int K, int B> void Sweep<K, B>::zeroed(int64_t k) {
    const Instr& r = t.instr[k];
    const auto end = [this](int32_t location, int address) {
        double g[N];
        if (location >= CART && location < ROM && !(address & 0x200))
            take(location, g);
    };
    if (r.opcode == 0x60 && k + 1 < t.instrs) {
        // RTS reads in front of the next instruction, for nothing: in the same 512 bytes, whichever half reads them
        const Instr& next = t.instr[k + 1];
        const int address = (next.pc - 1) & 0xFFFF;
        if (address & 0x1000 && next.loc0 >= CART && next.loc0 < ROM)
            end(next.loc0 - (next.loc0 - CART) % 512 + address % 512, address);
    }
    if (r.opcode == 0x6C) {
        const int pointer = r.b1 | r.b2 << 8;
        end(r.ptr0, pointer);
        end(r.ptr1, (pointer & 0xFF00) | ((pointer + 1) & 0xFF));
    }
    if (r.flags & READ)
        end(r.ea_loc, r.ea);
    end(r.loc0, r.pc);
    end(r.loc1, r.pc + 1);
    end(r.loc2, r.pc + 2);
}

template <int K, int B> void Sweep<K, B>::cpu(const Instr& r, const Opcode& op) {
    const int a = r.a, x = r.x, y = r.y, sp = r.sp, carry = r.p & 1;
    const bool decimal = r.p & 8, immediate = op.source == Source::immediate;
    const int m = immediate ? r.b1 : r.rd;
    const int32_t from = immediate ? r.loc1 : r.ea_loc;
    double g[N], h[N];

    auto grab = [&](double* reg, uint32_t bit) {
        move(g, reg);
        live &= ~bit;
    };
    auto put = [&](double* reg, uint32_t bit, const double* what) {
        add(reg, what);
        live |= bit;
    };
    const bool stepped = op.kind == Kind::INC || op.kind == Kind::DEC || op.kind == Kind::DCP || op.kind == Kind::ISB;
    auto stored = [&](int32_t location) {
        if (take(location, g, stepped && !soft.full))
            return true;
        clear(g);
        return false;
    };
    // the operand has adjoint what
    auto read = [&](const double* what) {
        give(from, r, what);
        if (op.index != Index::none)
            look_up(op.index, r, what);
    };
    auto load = [&](double* reg, uint32_t bit) {
        grab(reg, bit);
        from_nz(m, g);
        read(g);
    };
    auto transfer = [&](double* to, uint32_t to_bit, double* source, uint32_t source_bit, int value) {
        grab(to, to_bit);
        from_nz(value, g);
        put(source, source_bit, g);
    };
    auto step_register = [&](double* reg, uint32_t bit, int value, int direction) {
        grab(reg, bit);
        from_nz((value + direction) & 255, g);
        if constexpr (K == 8) {
            chain_step(bit == LX ? CHAIN_X : CHAIN_Y, value, direction, g);
            live |= bit;
        } else {
            put(reg, bit, g);
        }
    };
    auto logical = [&](Kind kind, int result) {
        grab(A, LA);
        from_nz(result, g);
        clear(h);
        logic(kind, a, m, g, A, h);
        live |= LA;
        read(h);
    };
    auto compared = [&](double* reg, uint32_t bit, int value) {
        clear(g);
        clear(h);
        compare(value, m, g, reg, h);
        live |= bit;
        read(h);
    };
    // the rest of a read-modify-write whose result's adjoint is g
    auto modified = [&](Kind kind) {
        if (kind == Kind::INC || kind == Kind::DEC) {
            const int direction = kind == Kind::INC ? 1 : -1;
            if (K == 8 && !soft.full && r.ea_loc >= RAM && r.ea_loc < 128) {
                chain_step(r.ea_loc, m, direction, g);
                live_ram[r.ea_loc] = 1;
                return;
            }
            step(m, direction, g);
        } else {
            shift(kind, g);
        }
        give(modify_location(r, t.x0[LOW_PAGE] != 0), r, g);
    };
    // A = A op (result of the modification): adds to the result's adjoint g
    auto combined = [&](Kind kind, int result) {
        stored(r.ea_loc);
        double ga[N];
        move(ga, A);
        live &= ~LA;
        from_nz(result, ga);
        clear(h);
        logic(kind, a, r.wr, ga, A, h);
        live |= LA;
        add(g, h);
    };
    auto summed = [&](bool subtract, int c) {
        stored(r.ea_loc);
        double ga[N];
        move(ga, A);
        from_nz((subtract ? sub(a, r.wr, c, decimal) : adjoint::add(a, r.wr, c, decimal)).r, ga);
        clear(h);
        adc_sbc(subtract, a, r.wr, c, decimal, ga, h);
        add(g, h);
    };
    auto store_and = [&](int u, double* gu, uint32_t bit) {
        if (stored(r.ea_loc)) {
            logic(Kind::AND, u, ((r.ea >> 8) + 1) & 255, g, gu, nullptr);
            live |= bit;
        }
    };

    if (K == 8 && !open.empty() && (op.writes & (LX | LY)) && op.kind != Kind::INX && op.kind != Kind::DEX &&
        op.kind != Kind::INY && op.kind != Kind::DEY)
        chain_end(op.writes & LX ? CHAIN_X : CHAIN_Y);

    switch (op.kind) {
    case Kind::LDA: load(A, LA); break;
    case Kind::LDX: load(X, LX); break;
    case Kind::LDY: load(Y, LY); break;
    case Kind::LAX:
        put(A, LA, X);
        clear(X);
        live &= ~LX;
        load(A, LA);
        break;
    case Kind::STA: if (stored(r.ea_loc)) put(A, LA, g); break;
    case Kind::STX: if (stored(r.ea_loc)) put(X, LX, g); break;
    case Kind::STY: if (stored(r.ea_loc)) put(Y, LY, g); break;
    case Kind::SAX:
        if (stored(r.ea_loc)) {
            logic(Kind::AND, a, x, g, A, X);
            live |= LA | LX;
        }
        break;
    case Kind::TAX: transfer(X, LX, A, LA, a); break;
    case Kind::TAY: transfer(Y, LY, A, LA, a); break;
    case Kind::TXA: transfer(A, LA, X, LX, x); break;
    case Kind::TYA: transfer(A, LA, Y, LY, y); break;
    case Kind::TSX: transfer(X, LX, SP, LSP, sp); break;
    case Kind::TXS:
        grab(SP, LSP);
        put(X, LX, g);
        break;
    case Kind::ADC:
    case Kind::SBC: {
        const bool subtract = op.kind == Kind::SBC;
        grab(A, LA);
        from_nz((subtract ? sub(a, m, carry, decimal) : adjoint::add(a, m, carry, decimal)).r, g);
        clear(h);
        adc_sbc(subtract, a, m, carry, decimal, g, h);
        read(h);
        break;
    }
    case Kind::CMP: compared(A, LA, a); break;
    case Kind::CPX: compared(X, LX, x); break;
    case Kind::CPY: compared(Y, LY, y); break;
    case Kind::AND: logical(Kind::AND, a & m); break;
    case Kind::ORA: logical(Kind::ORA, a | m); break;
    case Kind::EOR: logical(Kind::EOR, a ^ m); break;
    case Kind::BIT:
        clear(g);
        clear(h);
        from_z(a & m, g);
        logic(Kind::AND, a, m, g, A, h);
        live |= LA;
        flag_from(h, 7, FN, LN);
        flag_from(h, 6, FV, LV);
        give(from, r, h);
        break;
    case Kind::INC:
    case Kind::DEC:
        stored(r.ea_loc);
        from_nz(r.wr, g);
        modified(op.kind);
        break;
    case Kind::INX: step_register(X, LX, x, 1); break;
    case Kind::INY: step_register(Y, LY, y, 1); break;
    case Kind::DEX: step_register(X, LX, x, -1); break;
    case Kind::DEY: step_register(Y, LY, y, -1); break;
    case Kind::ASL:
    case Kind::ROL:
    case Kind::LSR:
    case Kind::ROR:
        if (op.source == Source::accumulator) {
            grab(A, LA);
            const int in = op.kind == Kind::ROL || op.kind == Kind::ROR ? carry : 0;
            from_nz(op.kind == Kind::ASL || op.kind == Kind::ROL ? (a << 1 | in) & 255 : a >> 1 | in << 7, g);
            shift(op.kind, g);
            put(A, LA, g);
        } else {
            stored(r.ea_loc);
            from_nz(r.wr, g);
            modified(op.kind);
        }
        break;
    case Kind::PHA:
        move_sp(sp, -1);
        if (stored(r.ea_loc))
            put(A, LA, g);
        break;
    case Kind::PHP:
        move_sp(sp, -1);
        if (stored(r.ea_loc))
            packed(g);
        break;
    case Kind::PLA:
        grab(A, LA);
        from_nz(r.rd, g);
        give_exact(r.ea_loc, r, g);
        move_sp(sp, 1);
        break;
    case Kind::PLP:
        clear(g);
        unpacked(g);
        give_exact(r.ea_loc, r, g);
        move_sp(sp, 1);
        break;
    case Kind::JMP:
        if (op.indirect)
            word(r.ptr0, r.ptr1, r);
        else
            word(r.loc1, r.loc2, r);
        break;
    case Kind::JSR:
        word(r.loc1, r.loc2, r);
        move_sp(sp - 1, -1);
        stored(stack(sp - 1, true));
        move_sp(sp, -1);
        stored(stack(sp, true));
        break;
    case Kind::RTS:
        word(stack(sp + 1, false), stack(sp + 2, false), r, true);
        move_sp(sp + 1, 1);
        move_sp(sp, 1);
        break;
    case Kind::RTI:
        word(stack(sp + 2, false), stack(sp + 3, false), r, true);
        clear(g);
        unpacked(g);
        give_exact(stack(sp + 1, false), r, g);
        for (int k = 2; k >= 0; --k)
            move_sp(sp + k, 1);
        break;
    case Kind::BRK:
        word(r.ptr0, r.ptr1, r);
        clear(FI);
        live &= ~LI;
        move_sp(sp - 2, -1);
        if (stored(stack(sp - 2, true)))
            packed(g);
        move_sp(sp - 1, -1);
        stored(stack(sp - 1, true));
        move_sp(sp, -1);
        stored(stack(sp, true));
        break;
    case Kind::CLC:
    case Kind::SEC:
        grab(FC, LC);
        break;
    case Kind::CLD:
    case Kind::SED:
        grab(FD, LD);
        break;
    case Kind::CLI:
    case Kind::SEI:
        grab(FI, LI);
        break;
    case Kind::CLV:
        grab(FV, LV);
        break;
    case Kind::NOP:
    case Kind::KIL:
        break;
    case Kind::BPL: branch(r, FN, LN, -1); break;
    case Kind::BMI: branch(r, FN, LN, 1); break;
    case Kind::BVC: branch(r, FV, LV, -1); break;
    case Kind::BVS: branch(r, FV, LV, 1); break;
    case Kind::BCC: branch(r, FC, LC, -1); break;
    case Kind::BCS: branch(r, FC, LC, 1); break;
    case Kind::BNE: branch(r, FZ, LZ, -1); break;
    case Kind::BEQ: branch(r, FZ, LZ, 1); break;

    case Kind::SLO:
        combined(Kind::ORA, a | r.wr);
        modified(Kind::ASL);
        break;
    case Kind::RLA:
        combined(Kind::AND, a & r.wr);
        modified(Kind::ROL);
        break;
    case Kind::SRE:
        combined(Kind::EOR, a ^ r.wr);
        modified(Kind::LSR);
        break;
    case Kind::RRA:
        summed(false, m & 1);
        modified(Kind::ROR);
        break;
    case Kind::DCP:
        stored(r.ea_loc);
        clear(h);
        {
            double q[N] = {};
            compare(a, r.wr, q, A, h);
        }
        live |= LA;
        add(g, h);
        modified(Kind::DEC);
        break;
    case Kind::ISB:
        summed(true, carry);
        modified(Kind::INC);
        break;
    case Kind::ANC:
        put(FN, LN, FC);
        clear(FC);
        live &= ~LC;
        logical(Kind::AND, a & m);
        break;
    case Kind::ASR: {
        grab(A, LA);
        const int both = a & m;
        from_nz(both >> 1, g);
        shift(Kind::LSR, g);
        clear(h);
        logic(Kind::AND, a, m, g, A, h);
        live |= LA;
        give(from, r, h);
        break;
    }
    case Kind::ARR:
        arr_undo(a & m, carry, decimal, g);
        clear(h);
        logic(Kind::AND, a, m, g, A, h);
        live |= LA;
        give(from, r, h);
        break;
    case Kind::ANE: {
        const int first = a | 0xEE;
        grab(A, LA);
        from_nz(first & x & m, g);
        clear(h);
        double q[N] = {}, p[N] = {};
        logic(Kind::AND, first & x, m, g, q, h);
        logic(Kind::AND, first, x, q, p, X);
        logic(Kind::ORA, a, 0xEE, p, A, nullptr);
        live |= LA | LX;
        give(from, r, h);
        break;
    }
    case Kind::LXA: {
        const int first = a | 0xEE;
        put(A, LA, X);
        clear(X);
        live &= ~LX;
        grab(A, LA);
        from_nz(first & m, g);
        clear(h);
        double q[N] = {};
        logic(Kind::AND, first, m, g, q, h);
        logic(Kind::ORA, a, 0xEE, q, A, nullptr);
        live |= LA;
        give(from, r, h);
        break;
    }
    case Kind::SBX: {
        grab(X, LX);
        double q[N] = {};
        clear(h);
        compare(a & x, m, g, q, h);
        logic(Kind::AND, a, x, q, A, X);
        live |= LA | LX;
        give(from, r, h);
        break;
    }
    case Kind::LAS:
        grab(A, LA);
        add(g, X);
        add(g, SP);
        clear(X);
        clear(SP);
        live &= ~(LX | LSP);
        from_nz(sp & m, g);
        clear(h);
        logic(Kind::AND, sp, m, g, SP, h);
        live |= LSP;
        read(h);
        break;
    case Kind::SHA: {
        double q[N] = {};
        store_and(a & x, q, 0);
        logic(Kind::AND, a, x, q, A, X);
        live |= LA | LX;
        break;
    }
    case Kind::SHS:
        store_and(a & x, SP, LSP);
        grab(SP, LSP);
        logic(Kind::AND, a, x, g, A, X);
        live |= LA | LX;
        break;
    case Kind::SHX: store_and(x, X, LX); break;
    case Kind::SHY: store_and(y, Y, LY); break;
    }
}

// ARR after its AND: g becomes the adjoint of t = A AND operand, C's that of the carry before.
template <int K, int B> void Sweep<K, B>::arr_undo(int both, int carry, bool decimal, double* g) {
    double old[5][N];              // of A N V Z C
    double* const rows[] = {A, FN, FV, FZ, FC};
    for (int k = 0; k < 5; ++k)
        move(old[k], rows[k]);
    live &= ~(LA | LNZ | LV | LC);
    clear(g);
    auto f = [&](int u) { return arr(u, carry, decimal); };
    if constexpr (K == 1) {
        add(g, old[0], 0.5);
        add(FC, old[0], 128.0);
        add(FC, old[1]);           // N is the carry that went in, in both forms
        add(g, old[2], contraction([&](int u) { return f(u).v; }, both));
        add(g, old[3], contraction([&](int u) { return f(u).z; }, both));
        add(g, old[4], contraction([&](int u) { return f(u).c; }, both));
    } else {
        const Arr high = arr(both, 1, decimal), low = arr(both, 0, decimal);
        difference([&](int u) { return f(u).a; }, both, old[0], g);
        number_difference([&](int u) { return f(u).n; }, both, old[1], g);
        number_difference([&](int u) { return f(u).v; }, both, old[2], g);
        number_difference([&](int u) { return f(u).z; }, both, old[3], g);
        number_difference([&](int u) { return f(u).c; }, both, old[4], g);
        for (int j = 0; j < 8; ++j)
            add_lane(FC, old[0] + j * B, (high.a >> j & 1) - (low.a >> j & 1));
        add_lane(FC, old[1], high.n - low.n);
        add_lane(FC, old[2], high.v - low.v);
        add_lane(FC, old[3], high.z - low.z);
        add_lane(FC, old[4], high.c - low.c);
    }
    live |= LC;
}

}  // namespace adjoint
