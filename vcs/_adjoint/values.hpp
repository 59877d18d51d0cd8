// What instructions compute, as plain functions of bytes: the rules are differences of these. The
// formulas are those of vcs/soft/ops.py (cpu.md 7 and 9, tia.md 9.2); the agreement of the two engines
// tests them.
#pragma once
#include <array>
#include <cstdint>

namespace adjoint {

inline int from_bcd(int b) { return 10 * (b >> 4) + (b & 15); }

inline int to_bcd(int v) { return 16 * (v % 100 / 10) + v % 10; }

struct Sum {
    int r, c, v;                   // result byte, carry, overflow
};

inline Sum add(int a, int m, int c, bool decimal) {
    if (decimal) {
        int t = from_bcd(a) + from_bcd(m) + c;
        int r = to_bcd(t & 255);
        return {r, t > 99, ((a ^ r) & (r ^ m) & 0x80) != 0};
    }
    int t = a + m + c, r = t & 255;
    return {r, t > 255, ((a ^ r) & (m ^ r) & 0x80) != 0};
}

inline Sum sub(int a, int m, int c, bool decimal) {
    int carry = a >= m + 1 - c;
    if (decimal) {
        int t = from_bcd(a) - from_bcd(m) - 1 + c;
        if (t < 0)
            t += 100;
        int r = t >= 0 ? to_bcd(t) : from_bcd(256 + t);
        return {r, carry, ((a ^ r) & (r ^ m) & 0x80) != 0};
    }
    int r = (a - m - 1 + c) & 255;
    return {r, carry, ((a ^ m) & (a ^ r) & 0x80) != 0};
}

struct Arr {
    int a, n, v, z, c;
};

inline Arr arr(int t, int c, bool decimal) {
    int r = t >> 1 | c << 7;
    if (!decimal)
        return {r, r >> 7, (r >> 6 ^ r >> 5) & 1, r == 0, r >> 6 & 1};
    Arr out{r, c, (t ^ r) >> 6 & 1, r == 0, 0};
    if ((t & 15) + (t & 1) > 5)
        out.a = (out.a & 0xF0) | ((out.a + 6) & 15);
    if ((t & 0xF0) + (t & 16) > 0x50) {
        out.c = 1;
        out.a = (out.a + 0x60) & 255;
    }
    return out;
}

struct Motion {
    int pixels;
    bool passes;                   // whether the nibble decides it
};

inline Motion motion(int nibble, int cycle) {
    static constexpr int low[] = {-6, -5, -5, -4, -3, -2, -2, -1, 0, 1, 1, 2, 3, 4, 4, 5, 6};
    static constexpr int up[] = {6, 5, 4, 4, 3, 2, 1, 1, 0, -1, -2, -2, -3, -4, -5, -5, -6, -7, -8, -8};
    int base = nibble < 8 ? -nibble : 16 - nibble;
    if (cycle <= 3 || cycle == 75)
        return {base, true};
    if (cycle <= 20)
        return {base > low[cycle - 4] ? base : low[cycle - 4], base >= low[cycle - 4]};
    if (cycle <= 54)
        return {0, false};
    int sum = base + up[cycle - 55];
    return {sum < 0 ? sum : 0, sum <= 0};
}

// Mean over the eight one-bit flips of u of the secant slope of f.
template <class F> double contraction(F f, int u) {
    double sum = 0.0;
    int here = f(u);
    for (int k = 0; k < 8; ++k)
        sum += static_cast<double>(f(u ^ 1 << k) - here) / ((u ^ 1 << k) - u);
    return sum / 8;
}

}  // namespace adjoint
