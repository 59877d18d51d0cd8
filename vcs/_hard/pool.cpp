// Many machines on many threads: agent steps, resets and Atari preprocessing without Python (module vcs._hard._pool).
//
// Models the vector environment of ale-py, spec/environment.md 9.3 and 9.4, bit for bit; vcs/env/vector.py puts
// Gymnasium's interface on it and checks what comes from outside. The machines are Cython's, reached through
// vcs_api.h. Left out: action tables, continuous actions, seeds out of nothing (all Python), and snapshots, whose
// machine half is vcs._hard.machine.Snapshot; the other half is Pool.save.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>
#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))
#endif

#include "vcs_api.h"

namespace py = pybind11;

namespace {

constexpr int W = 160;
constexpr int MAX_ROWS = 300;
constexpr int SLACK = 32;                        // bytes behind the pixels of a picture that a wide load may touch

// Gray pictures can be made 32 bytes at a time; the narrow way gives the same bytes (tests/test_vector.py compares).
bool processor_is_wide() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

enum class Autoreset { next_step, same_step, disabled };

struct Config {
    int frame_skip, stack, out_h, out_w, noop_max;
    int64_t max_frames;
    bool gray, maxpool, episodic_life, life_loss_info, clip, fire_reset, wide;
    Autoreset autoreset;
    uint32_t system_seed;
    int channels() const { return gray ? 1 : 3; }
    size_t frame_bytes() const { return size_t(out_h) * out_w * channels(); }
};

// ------------------------------------------------------------------------------------------------ area resize, 9.4

struct Axis {
    int source, target, taps;     // taps: the most samples that one target takes
    double scale;
    bool whole;                   // the scale is an integer
    std::vector<int> first, count;
    std::vector<float> weight;    // target * taps, ascending samples, padded with 0
    std::vector<int> twin;        // the nearest earlier target with the same weights, or -1

    Axis(int source, int target) : source(source), target(target), taps(0) {
        scale = 1.0 / (double(target) / source);
        whole = std::fabs(scale - std::nearbyint(scale)) < std::numeric_limits<double>::epsilon();
        std::vector<std::vector<float>> all(target);
        for (int d = 0; d < target; d++) {
            double a = d * scale, b = a + scale, cell = std::min(scale, source - a);
            int lo = int(std::ceil(a)), hi = std::min(int(std::floor(b)), source - 1);
            lo = std::min(lo, hi);
            first.push_back(lo);
            if (lo - a > 1e-3) {
                first[d] = lo - 1;
                all[d].push_back(float((lo - a) / cell));
            }
            for (int i = lo; i < hi; i++) all[d].push_back(float(1.0 / cell));
            if (b - hi > 1e-3) all[d].push_back(float(std::min(std::min(b - hi, 1.0), cell) / cell));
            count.push_back(int(all[d].size()));
            taps = std::max(taps, count[d]);
        }
        weight.assign(size_t(target) * taps, 0.0f);
        for (int d = 0; d < target; d++) {
            std::copy(all[d].begin(), all[d].end(), weight.begin() + size_t(d) * taps);
            int e = d - 1;
            while (e >= 0 && all[e] != all[d]) e--;
            twin.push_back(e);
        }
    }
};

// What one thread needs while it makes an observation; nothing survives the call.
struct Scratch {
    uint8_t early[W * MAX_ROWS];                 // a picture that the next frame would draw over
    float sums[256 * W * 3];                     // horizontal sums of the distinct rows
    float wide[W * 3 + 32] = {};                 // a row, and zeros under the weights that pad a target
    std::vector<uint8_t> unpacked;
};

// A converted picture with equal neighbouring rows stored once: most lines of a television game repeat.
struct Picture {
    int rows = 0, distinct = 0;
    uint8_t index[256];                          // row -> which of the distinct rows
    std::vector<uint8_t> px;                     // distinct * W * channels

    const uint8_t* row(int r, int bytes) const { return px.data() + size_t(index[r]) * bytes; }
};

inline bool same_row(const uint8_t* a, const uint8_t* b) {
    uint64_t diff = 0, x, y;
    for (int i = 0; i < W; i += 8) {
        std::memcpy(&x, a + i, 8);
        std::memcpy(&y, b + i, 8);
        diff |= x ^ y;
    }
    return diff == 0;
}

inline void larger(uint8_t* out, const uint8_t* other, int n) {
    for (int i = 0; i < n; i++) out[i] = std::max(out[i], other[i]);
}

struct Colours {
    uint8_t gray[256];
    uint8_t even[128];                           // gray of the even indices, which are nearly all there is
    uint8_t rgb[256][3];

    void convert(bool to_gray, const uint8_t* src, uint8_t* out) const {
        if (to_gray)
            for (int i = 0; i < W; i++) out[i] = gray[src[i]];
        else
            for (int i = 0; i < W; i++) std::memcpy(out + 3 * i, rgb[src[i]], 3);
    }
};

#if defined(__x86_64__)
namespace wide {

inline AVX2 __m256i at(const uint8_t* p, int i) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p) + i);
}

inline AVX2 void put(uint8_t* p, int i, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p) + i, v); }

inline AVX2 bool same_row(const uint8_t* a, const uint8_t* b) {
    __m256i diff = _mm256_xor_si256(at(a, 0), at(b, 0));
    for (int i = 1; i < W / 32; i++) diff = _mm256_or_si256(diff, _mm256_xor_si256(at(a, i), at(b, i)));
    return _mm256_testz_si256(diff, diff);
}

// The gray row of `src`, or the larger of it and what `out` holds.
template <bool LARGER>
inline AVX2 void gray_row(const Colours& colours, const uint8_t* src, uint8_t* out) {
    __m256i odd = at(src, 0);
    for (int i = 1; i < W / 32; i++) odd = _mm256_or_si256(odd, at(src, i));
    if (!_mm256_testz_si256(odd, _mm256_set1_epi8(1))) {
        for (int i = 0; i < W; i++) out[i] = LARGER ? std::max(out[i], colours.gray[src[i]]) : colours.gray[src[i]];
        return;
    }
    __m256i table[8];
    for (int k = 0; k < 8; k++)
        table[k] = _mm256_broadcastsi128_si256(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(colours.even + 16 * k)));
    for (int i = 0; i < W / 32; i++) {
        const __m256i px = at(src, i);           // even: bits 1 to 4 choose within a table, bits 5 to 7 the table
        const __m256i low = _mm256_and_si256(_mm256_srli_epi16(px, 1), _mm256_set1_epi8(15));
        const __m256i b5 = _mm256_slli_epi16(px, 2), b6 = _mm256_slli_epi16(px, 1);
        __m256i v[4];
        for (int k = 0; k < 4; k++)
            v[k] = _mm256_blendv_epi8(_mm256_shuffle_epi8(table[2 * k], low),
                                      _mm256_shuffle_epi8(table[2 * k + 1], low), b5);
        __m256i all = _mm256_blendv_epi8(_mm256_blendv_epi8(v[0], v[1], b6), _mm256_blendv_epi8(v[2], v[3], b6), px);
        if (LARGER) all = _mm256_max_epu8(all, at(out, i));
        put(out, i, all);
    }
}

// Env::compose for gray.
AVX2 void compose(const Colours& colours, const uint8_t* a, const uint8_t* b, int rows, Picture& picture) {
    int u = -1;
    for (int r = 0; r < rows; r++, a += W) {
        if (!r || !same_row(a, a - W) || (b && !same_row(b, b - W))) {
            uint8_t* out = picture.px.data() + size_t(++u) * W;
            gray_row<false>(colours, a, out);
            if (b && !same_row(a, b)) gray_row<true>(colours, b, out);
        }
        picture.index[r] = uint8_t(u);
        if (b) b += W;
    }
    picture.rows = rows;
    picture.distinct = u + 1;
}

// An axis eight targets at a time: the samples of four lie in 16 bytes, `first` tells which, and each tap takes one
// of them for every target.
struct Eights {
    struct Tap {
        alignas(32) uint8_t where[32];
        alignas(32) float weight[8];
    };
    std::vector<int> first;                      // of the fours
    std::vector<Tap> taps;                       // groups * axis.taps
    bool usable = true;                          // false: samples of four targets that do not fit into 16 bytes

    explicit Eights(const Axis& axis) {
        for (int x0 = 0; x0 < axis.target; x0 += 8) {
            Tap none;
            std::fill(none.where, none.where + 32, uint8_t(0x80));   // gives 0
            std::fill(none.weight, none.weight + 8, 0.0f);
            const size_t at = taps.size();
            taps.resize(at + size_t(axis.taps), none);
            for (int i = 0; i < 8; i++) {
                const int x = std::min(x0 + i, axis.target - 1), lane = 16 * (i / 4);
                if (i % 4 == 0) first.push_back(axis.first[x]);
                for (int t = 0; t < axis.count[x]; t++) {
                    const int byte = axis.first[x] + t - first.back();
                    if (byte > 15) usable = false;
                    taps[at + t].where[lane + 4 * (i % 4)] = uint8_t(byte);
                    taps[at + t].weight[i] = axis.weight[size_t(x) * axis.taps + t];
                }
            }
        }
    }
};

// The horizontal sums of a gray row: the products are added in the order in which `across` adds them.
template <int T>
AVX2 void across(const Eights& axis, const uint8_t* src, float* out) {
    const Eights::Tap* tap = axis.taps.data();
    for (size_t g = 0; g < axis.first.size(); g += 2, tap += T, out += 8) {
        const __m128i* left = reinterpret_cast<const __m128i*>(src + axis.first[g]);
        const __m128i* right = reinterpret_cast<const __m128i*>(src + axis.first[g + 1]);
        const __m256i px = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(left)),
                                                   _mm_loadu_si128(right), 1);
        __m256 sum = _mm256_setzero_ps();
        for (int t = 0; t < T; t++) {
            const __m256i where = _mm256_load_si256(reinterpret_cast<const __m256i*>(tap[t].where));
            const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_shuffle_epi8(px, where)),
                                           _mm256_load_ps(tap[t].weight));
            sum = t ? _mm256_add_ps(sum, v) : v;
        }
        _mm256_storeu_ps(out, sum);
    }
}

// One row of the result from the sums of `taps` rows; n targets, and sums of the next whole eight.
AVX2 void down(const float* const* rows, const float* weight, int taps, int n, uint8_t* out) {
    for (int x = 0; x < n; x += 8) {
        __m256 acc = _mm256_mul_ps(_mm256_set1_ps(weight[0]), _mm256_loadu_ps(rows[0] + x));
        for (int t = 1; t < taps; t++)
            acc = _mm256_add_ps(acc, _mm256_mul_ps(_mm256_set1_ps(weight[t]), _mm256_loadu_ps(rows[t] + x)));
        const __m256i whole = _mm256_cvtps_epi32(acc);    // to nearest even
        const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
        const __m128i bytes = _mm_packus_epi16(words, words);
        if (x + 8 <= n)
            _mm_storel_epi64(reinterpret_cast<__m128i*>(out + x), bytes);
        else {
            const int64_t last = _mm_cvtsi128_si64(bytes);
            std::memcpy(out + x, &last, size_t(n - x));
        }
    }
}

}  // namespace wide
#endif

template <int C, int T>
void across(const Axis& axis, const float* src, float* out) {
    const float* w = axis.weight.data();
    for (int x = 0; x < axis.target; x++, w += T)
        for (int c = 0; c < C; c++) {
            const float* s = src + axis.first[x] * C + c;
            float sum = w[0] * s[0];
            for (int t = 1; t < T; t++) sum += w[t] * s[t * C];
            out[x * C + c] = sum;
        }
}

template <int C>
void across(const Axis& axis, const float* src, float* out) {
    switch (axis.taps) {
    case 1: return across<C, 1>(axis, src, out);
    case 2: return across<C, 2>(axis, src, out);
    case 3: return across<C, 3>(axis, src, out);
    case 4: return across<C, 4>(axis, src, out);
    }
    const float* w = axis.weight.data();
    for (int x = 0; x < axis.target; x++, w += axis.taps)
        for (int c = 0; c < C; c++) {
            const float* s = src + axis.first[x] * C + c;
            float sum = w[0] * s[0];
            for (int t = 1; t < axis.count[x]; t++) sum += w[t] * s[t * C];
            out[x * C + c] = sum;
        }
}

inline uint8_t rounded(float v) {
    long n = std::lrintf(v);                     // to nearest even, the default rounding
    return uint8_t(n < 0 ? 0 : n > 255 ? 255 : n);
}

struct Resizer {
    Axis ver, hor;
    int channels;
    bool equal, whole;
#if defined(__x86_64__)
    wide::Eights eights;
    bool wide;
#endif

    Resizer(int rows, const Config& c)
        : ver(rows, c.out_h), hor(W, c.out_w), channels(c.channels()),
          equal(rows == c.out_h && W == c.out_w), whole(ver.whole && hor.whole)
#if defined(__x86_64__)
          ,
          eights(hor), wide(c.wide && c.gray && hor.taps <= 4 && eights.usable)
#endif
    {
    }

    void run(const Picture& pic, Scratch& tmp, uint8_t* out) const {
        const int bytes = W * channels, n = hor.target * channels;
        if (equal) {
            for (int r = 0; r < ver.source; r++) std::memcpy(out + size_t(r) * bytes, pic.row(r, bytes), bytes);
            return;
        }
        if (whole) return blocks(pic, out);
#if defined(__x86_64__)
        if (wide) return eight_wide(pic, tmp, out);
#endif
        for (int u = 0; u < pic.distinct; u++) {
            const uint8_t* src = pic.px.data() + size_t(u) * bytes;
            for (int i = 0; i < bytes; i++) tmp.wide[i] = src[i];
            if (channels == 1)
                across<1>(hor, tmp.wide, tmp.sums + size_t(u) * n);
            else
                across<3>(hor, tmp.wide, tmp.sums + size_t(u) * n);
        }
        float acc[W * 3];
        for (int d = 0; d < ver.target; d++, out += n) {
            const uint8_t* rows = pic.index + ver.first[d];
            if (repeated(pic, d, out, n)) continue;
            const float* w = ver.weight.data() + size_t(d) * ver.taps;
            const float* s = tmp.sums + size_t(rows[0]) * n;
            for (int x = 0; x < n; x++) acc[x] = w[0] * s[x];
            for (int t = 1; t < ver.count[d]; t++) {
                s = tmp.sums + size_t(rows[t]) * n;
                for (int x = 0; x < n; x++) acc[x] += w[t] * s[x];
            }
            for (int x = 0; x < n; x++) out[x] = rounded(acc[x]);
        }
    }

    // Row d of the result copied from an earlier one, if it must be equal.
    bool repeated(const Picture& pic, int d, uint8_t* out, int n) const {
        const int twin = ver.twin[d];
        if (twin < 0 || std::memcmp(pic.index + ver.first[d], pic.index + ver.first[twin], ver.count[d])) return false;
        std::memcpy(out, out - size_t(d - twin) * n, n);
        return true;
    }

#if defined(__x86_64__)
    void eight_wide(const Picture& pic, Scratch& tmp, uint8_t* out) const {
        const int n = hor.target, stride = (n + 7) / 8 * 8;
        for (int u = 0; u < pic.distinct; u++) {
            const uint8_t* src = pic.px.data() + size_t(u) * W;
            float* sums = tmp.sums + size_t(u) * stride;
            switch (hor.taps) {
            case 1: wide::across<1>(eights, src, sums); break;
            case 2: wide::across<2>(eights, src, sums); break;
            case 3: wide::across<3>(eights, src, sums); break;
            default: wide::across<4>(eights, src, sums);
            }
        }
        const float* rows[MAX_ROWS];
        for (int d = 0; d < ver.target; d++, out += n) {
            if (repeated(pic, d, out, n)) continue;
            const int taps = ver.count[d];
            for (int t = 0; t < taps; t++) rows[t] = tmp.sums + size_t(pic.index[ver.first[d] + t]) * stride;
            wide::down(rows, ver.weight.data() + size_t(d) * ver.taps, taps, n, out);
        }
    }
#endif

    // Whole numbers of samples on both axes: integer sums.
    void blocks(const Picture& pic, uint8_t* out) const {
        const int bytes = W * channels, n = hor.target * channels;
        const int sy = int(std::nearbyint(ver.scale)), sx = int(std::nearbyint(hor.scale));
        const float part = 1.0f / float(sy * sx);
        for (int d = 0; d < ver.target; d++, out += n)
            for (int x = 0; x < n; x++) {
                int sum = 0;
                for (int i = 0; i < sy; i++) {
                    const uint8_t* s = pic.row(d * sy + i, bytes) + (x / channels) * sx * channels + x % channels;
                    for (int j = 0; j < sx; j++) sum += s[j * channels];
                }
                out[x] = sy == 2 && sx == 2 ? uint8_t((sum + 2) >> 2) : rounded(float(sum) * part);
            }
    }
};

// ------------------------------------------------------------------------------------------------- one environment

// Where a result goes: row `row` of the caller's arrays.
struct Out {
    uint8_t* obs = nullptr;
    uint8_t* final_obs = nullptr;
    int32_t *reward = nullptr, *lives = nullptr, *frame = nullptr, *episode_frame = nullptr;
    bool *terminated = nullptr, *truncated = nullptr;
};

struct Result {
    int32_t reward = 0, lives = 0, frame = 0, episode_frame = 0;
    bool terminated = false, truncated = false;
};

struct Shared {
    const VcsApi* api;
    Config cfg;
    Colours colours[2];                          // NTSC, PAL
};

class Env {
public:
    Env(const Shared& shared, void* machine, int mode, int difficulty, bool has_fire)
        : sh(shared), m(machine), mode(mode), difficulty(difficulty), has_fire(has_fire) {
        frames.assign(sh.cfg.frame_bytes() * sh.cfg.stack, 0);
        last.assign(sh.cfg.frame_bytes() * (sh.cfg.autoreset == Autoreset::same_step ? sh.cfg.stack : 0), 0);
        fit();
    }

    Result result;
    std::string error;                           // why the last job failed; empty if it did not
    bool ended = false;                          // the episode is over and no reset has followed
    bool busy = false;

    // Whether the next job boots the machine, and so takes as long as dozens of steps.
    bool starts(bool reset) const { return reset || (ended && sh.cfg.autoreset == Autoreset::next_step); }

    // seed < 0: the streams go on. Both streams take the seed modulo 2^32.
    void reset(int64_t seed, Scratch& tmp) {
        if (seed >= 0) {
            rng.seed(uint32_t(seed));
            sh.api->power_on(m, sh.cfg.system_seed, uint32_t(seed));
            fit();
            if (!boot()) return;
            sh.api->configure(m, mode, difficulty);
        }
        episode(tmp);
        result.reward = 0;
        result.terminated = result.truncated = false;
    }

    void step(int action, float strength, Scratch& tmp) {
        if (ended && sh.cfg.autoreset == Autoreset::next_step) return reset(-1, tmp);
        const Config& c = sh.cfg;
        const int64_t before = elapsed;
        Played p;
        // pictures that nobody can see are left out, but for steps whose end is known to come
        if (c.frame_skip > 2 && before + c.frame_skip < c.max_frames && sh.api->skip_begin(m)) {
            p = play(action, strength, c.frame_skip - 2, tmp);
            if (!sh.api->skip_end(m, p.frames == c.frame_skip)) {
                elapsed = before;
                p = play(action, strength, 0, tmp);
            }
        } else
            p = play(action, strength, 0, tmp);
        observe(p.whole, p.first, tmp);
        int32_t reward = int32_t(p.total);
        result.reward = c.clip ? std::max(-1, std::min(1, reward)) : reward;
        result.terminated = p.over || ((c.life_loss_info || c.episodic_life) && p.lost);
        result.truncated = p.late && !result.terminated;
        ended = p.ends(c);
        lives = sh.api->lives(m);
        counters();
        if (!last.empty() && (result.terminated || result.truncated)) write(last.data());
        if (ended && c.autoreset == Autoreset::same_step) {
            Result kept = result;
            episode(tmp);
            result.reward = kept.reward;
            result.terminated = kept.terminated;
            result.truncated = kept.truncated;
        }
    }

    // The stack, oldest frame first.
    void write(uint8_t* out) const {
        const size_t n = sh.cfg.frame_bytes(), old = size_t(sh.cfg.stack - head) * n;
        std::memcpy(out, frames.data() + size_t(head) * n, old);
        std::memcpy(out + old, frames.data(), size_t(head) * n);
    }

    void write(const Out& o, int row, bool fresh) const {
        const size_t n = frames.size();
        write(o.obs + row * n);
        if (fresh && o.final_obs && (result.terminated || result.truncated))
            std::memcpy(o.final_obs + row * n, last.data(), n);
        o.reward[row] = fresh ? result.reward : 0;
        o.terminated[row] = fresh && result.terminated;
        o.truncated[row] = fresh && result.truncated;
        o.lives[row] = result.lives;
        o.frame[row] = result.frame;
        o.episode_frame[row] = result.episode_frame;
    }

    // Everything but the machine, as bytes for this build and these settings.
    std::string save() const {
        std::string out;
        auto put = [&](const void* p, size_t n) { out.append(static_cast<const char*>(p), n); };
        int64_t numbers[] = {elapsed, lives, head, ended, picture.rows, picture.distinct};
        put(numbers, sizeof numbers);
        put(&rng, sizeof rng);
        put(picture.index, sizeof picture.index);
        put(frames.data(), frames.size());
        put(picture.px.data(), size_t(picture.distinct) * W * sh.cfg.channels());
        return out;
    }

    // False if the bytes cannot be those of `save` with these settings.
    bool load(const std::string& in) {
        int64_t v[6];
        const size_t row = size_t(W) * sh.cfg.channels(), fixed = sizeof v + sizeof rng + 256 + frames.size();
        if (in.size() < fixed) return false;
        std::memcpy(v, in.data(), sizeof v);
        if (v[0] < 0 || v[2] < 0 || v[2] >= sh.cfg.stack || v[4] != resizer->ver.source || v[5] < 1 || v[5] > 256
            || in.size() != fixed + size_t(v[5]) * row)
            return false;
        const char* p = in.data() + sizeof v;
        const uint8_t* index = reinterpret_cast<const uint8_t*>(p + sizeof rng);
        for (int r = 0; r < v[4]; r++)
            if (index[r] >= v[5]) return false;
        elapsed = v[0];
        lives = int32_t(v[1]);
        head = int(v[2]);
        ended = v[3] != 0;
        picture.rows = int(v[4]);
        picture.distinct = int(v[5]);
        Random other;
        std::memcpy(&other, p, sizeof other);
        if (other.at > 624) return false;
        rng = other;
        std::memcpy(picture.index, index, 256);
        std::memcpy(frames.data(), index + 256, frames.size());
        std::memcpy(picture.px.data(), index + 256 + frames.size(), size_t(v[5]) * row);
        result = Result();
        counters();
        return true;
    }

private:
    // MT19937 as the standard library seeds and draws it, but of known layout, so that it can be saved.
    struct Random {
        uint32_t mt[624] = {};
        uint32_t at = 624;

        void seed(uint32_t s) {
            mt[0] = s;
            for (uint32_t i = 1; i < 624; i++) mt[i] = 1812433253u * (mt[i - 1] ^ (mt[i - 1] >> 30)) + i;
            at = 624;
        }

        uint32_t next() {
            if (at >= 624) {
                for (int i = 0; i < 624; i++) {
                    uint32_t y = (mt[i] & 0x80000000u) | (mt[(i + 1) % 624] & 0x7fffffffu);
                    mt[i] = mt[(i + 397) % 624] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
                }
                at = 0;
            }
            uint32_t y = mt[at++];
            y ^= y >> 11;
            y ^= (y << 7) & 0x9d2c5680u;
            y ^= (y << 15) & 0xefc60000u;
            return y ^ (y >> 18);
        }

        uint32_t below(uint32_t n) {             // 9.3, "Reset"
            uint64_t product = uint64_t(next()) * n;
            if (uint32_t(product) < n) {
                const uint32_t reject = (0u - n) % n;
                while (uint32_t(product) < reject) product = uint64_t(next()) * n;
            }
            return uint32_t(product >> 32);
        }
    };

    const Shared& sh;
    void* m;
    int mode, difficulty;
    bool has_fire;
    int64_t elapsed = 0;
    int32_t lives = 0;
    int head = 0;                                // of the ring `frames`: the oldest frame
    Random rng;
    std::vector<uint8_t> frames, last;
    Picture picture;                             // raw buffer 0 of 9.3: the last processed picture, full size
    std::unique_ptr<Resizer> resizer;

    // Rows are known once the machine has been switched on.
    void fit() {
        int rows = sh.api->rows(m);
        if (resizer && resizer->ver.source == rows) return;
        resizer = std::make_unique<Resizer>(rows, sh.cfg);
        picture.px.assign(size_t(rows) * W * sh.cfg.channels() + SLACK, 0);
    }

    bool boot() {
        int32_t fault = sh.api->boot(m);
        if (fault == 1)
            error = "the game never reached the mode asked for; pick another mode";
        else if (fault)
            error = "the game's program is damaged or ran too long; check the game table";
        else if (sh.api->failed(m))
            error = "memory ran out; use fewer environments";
        return error.empty();
    }

    void counters() {
        result.lives = sh.api->lives(m);
        result.frame = sh.api->frame(m);
        result.episode_frame = sh.api->episode_frame(m);
        if (sh.api->failed(m)) error = "memory ran out; use fewer environments";
    }

    // What the frames of one step came to.
    struct Played {
        uint32_t total = 0;
        int frames = 0;
        bool whole = false;                      // every frame of the skip was played, and did not end the episode
        bool over = false, lost = false, late = false;
        const uint8_t* first = nullptr;          // the second-last frame's picture, if it counts

        // life_loss_info only tells: the episode goes on
        bool ends(const Config& c) const { return over || late || (c.episodic_life && lost); }
    };

    // The frames of one step, the first `unseen` of them without a picture.
    Played play(int action, float strength, int unseen, Scratch& tmp) {
        const Config& c = sh.cfg;
        const VcsApi& api = *sh.api;
        Played p;
        for (int k = 0; k < c.frame_skip; k++) {
            if (p.first && api.unfinished(m)) {  // the last frame goes on in the picture that was to be kept
                std::memcpy(tmp.early, p.first, size_t(resizer->ver.source) * W);
                p.first = tmp.early;
            }
            p.total += uint32_t(api.act(m, action, strength, k >= unseen));
            elapsed++;
            p.frames++;
            int32_t now = api.lives(m);
            p.over = api.over(m);
            p.lost = now < lives && now > 0;
            p.late = elapsed >= c.max_frames;
            if (p.ends(c)) return p;
            if (k == c.frame_skip - 2 && c.maxpool) p.first = api.picture(m);
        }
        p.whole = true;
        return p;
    }

    // The reset phase of 9.3.
    void episode(Scratch& tmp) {
        const Config& c = sh.cfg;
        if (!boot()) return;
        const bool fire = c.fire_reset && has_fire;
        if (fire) sh.api->act(m, 1, 1.0f, 1);
        int n = (c.noop_max > 1 ? int(rng.below(uint32_t(c.noop_max))) : 0) - (fire ? 1 : 0);
        for (int i = 0; i < n; i++) {
            sh.api->act(m, 0, 1.0f, 1);
            if (sh.api->over(m) && !boot()) return;
        }
        std::fill(frames.begin(), frames.end(), uint8_t(0));
        head = 0;
        elapsed = 0;
        lives = sh.api->lives(m);
        ended = false;
        compose(sh.api->picture(m), nullptr);
        push(tmp);
        counters();
    }

    // 9.3, "Process". whole: every frame of the skip was played. first: the second-last frame's picture, if captured.
    // After an early stop the buffers still hold what the step before left in them.
    void observe(bool whole, const uint8_t* first, Scratch& tmp) {
        if (whole)
            compose(sh.api->picture(m), first);
        else if (first)
            raise(first, tmp);
        else {                                   // nothing new was captured: the same picture again
            const size_t n = sh.cfg.frame_bytes();
            uint8_t* base = frames.data();
            std::memmove(base + size_t(head) * n, base + size_t((head + sh.cfg.stack - 1) % sh.cfg.stack) * n, n);
            head = (head + 1) % sh.cfg.stack;
            return;
        }
        push(tmp);
    }

    void push(Scratch& tmp) {
        resizer->run(picture, tmp, frames.data() + size_t(head) * sh.cfg.frame_bytes());
        head = (head + 1) % sh.cfg.stack;
    }

    // picture := the converted `a`, or the larger of it and the converted `b` byte by byte.
    void compose(const uint8_t* a, const uint8_t* b) {
        const Config& c = sh.cfg;
        const Colours& colours = sh.colours[sh.api->pal(m) ? 1 : 0];
        const int rows = resizer->ver.source, bytes = W * c.channels();
#if defined(__x86_64__)
        if (c.wide && c.gray) return wide::compose(colours, a, b, rows, picture);
#endif
        uint8_t second[W * 3];
        int u = -1;
        for (int r = 0; r < rows; r++, a += W) {
            const bool repeats = r && same_row(a, a - W) && (!b || same_row(b, b - W));
            if (!repeats) {
                uint8_t* out = picture.px.data() + size_t(++u) * bytes;
                colours.convert(c.gray, a, out);
                if (b && !same_row(a, b)) {
                    colours.convert(c.gray, b, second);
                    larger(out, second, bytes);
                }
            }
            picture.index[r] = uint8_t(u);
            if (b) b += W;
        }
        picture.rows = rows;
        picture.distinct = u + 1;
    }

    // picture := the larger of itself and the converted `b`, byte by byte.
    void raise(const uint8_t* b, Scratch& tmp) {
        const Config& c = sh.cfg;
        const Colours& colours = sh.colours[sh.api->pal(m) ? 1 : 0];
        const int rows = picture.rows, bytes = W * c.channels();
        tmp.unpacked.resize(size_t(rows) * bytes);
        for (int r = 0; r < rows; r++) {
            uint8_t* out = tmp.unpacked.data() + size_t(r) * bytes;
            colours.convert(c.gray, b + r * W, out);
            larger(out, picture.row(r, bytes), bytes);
        }
        std::copy(tmp.unpacked.begin(), tmp.unpacked.end(), picture.px.begin());
        for (int r = 0; r < rows; r++) picture.index[r] = uint8_t(r);
        picture.distinct = rows;
    }
};

// ------------------------------------------------------------------------------------------------------- the pool

template <class T>
using Array = py::array_t<T, py::array::c_style>;

template <class T>
T* pointer(const py::handle& array, size_t size, const char* name) {
    auto a = py::reinterpret_borrow<py::object>(array);
    if (!py::isinstance<Array<T>>(a)) throw py::type_error(std::string(name) + " has the wrong dtype or layout");
    auto typed = py::reinterpret_borrow<Array<T>>(a);
    if (size_t(typed.size()) != size || !typed.writeable())
        throw py::type_error(std::string(name) + " has the wrong size or is read-only");
    return typed.mutable_data();
}

// The arrays of one batch of results; keeps them alive.
struct Batch {
    py::tuple arrays;
    Out out;
    int rows;

    // obs, reward, terminated, truncated, lives, frame, episode_frame, final_obs (empty if unused)
    Batch(py::tuple a, size_t observation) : arrays(std::move(a)) {
        if (arrays.size() != 8) throw py::type_error("a batch has eight arrays");
        rows = int(py::len(arrays[1]));
        out.obs = pointer<uint8_t>(arrays[0], rows * observation, "obs");
        out.reward = pointer<int32_t>(arrays[1], rows, "reward");
        out.terminated = pointer<bool>(arrays[2], rows, "terminated");
        out.truncated = pointer<bool>(arrays[3], rows, "truncated");
        out.lives = pointer<int32_t>(arrays[4], rows, "lives");
        out.frame = pointer<int32_t>(arrays[5], rows, "frame");
        out.episode_frame = pointer<int32_t>(arrays[6], rows, "episode_frame");
        if (py::len(arrays[7])) out.final_obs = pointer<uint8_t>(arrays[7], rows * observation, "final_obs");
    }
};

struct Job {
    int env;
    bool reset;
    int action;
    float strength;
    int64_t seed;
    const Out* out;                              // write the result to row `env` at once, or nullptr
};

class Pool {
public:
    Pool(py::list cores, py::list handles, py::capsule api, py::dict config, Array<uint8_t> gray, Array<uint8_t> rgb,
         Array<int32_t> setup, int num_threads, int affinity)
        : keep(cores), pid(getpid()) {
        shared.api = api.get_pointer<VcsApi>();
        if (shared.api->version != VCS_API_VERSION)
            throw py::type_error("vcs._hard.machine and vcs._hard._pool are of different builds; build both again");
        Config& c = shared.cfg;
        auto number = [&](const char* key) { return config[key].cast<int>(); };
        c.frame_skip = number("frame_skip");
        c.stack = number("stack");
        c.out_h = number("height");
        c.out_w = number("width");
        c.noop_max = number("noop_max");
        c.max_frames = config["max_frames"].cast<int64_t>();
        c.gray = number("gray");
        c.maxpool = number("maxpool");
        c.episodic_life = number("episodic_life");
        c.life_loss_info = number("life_loss_info");
        c.clip = number("clip");
        c.fire_reset = number("fire_reset");
        c.wide = number("wide") && processor_is_wide();
        c.autoreset = Autoreset(number("autoreset"));
        c.system_seed = config["system_seed"].cast<uint32_t>();
        if (gray.size() != 512 || rgb.size() != 1536 || setup.size() != py::ssize_t(3 * handles.size()))
            throw py::type_error("a table has the wrong size");
        std::memcpy(shared.colours[0].gray, gray.data(), 256);
        std::memcpy(shared.colours[1].gray, gray.data() + 256, 256);
        for (Colours& table : shared.colours)
            for (int i = 0; i < 128; i++) table.even[i] = table.gray[2 * i];
        std::memcpy(shared.colours[0].rgb, rgb.data(), 768);
        std::memcpy(shared.colours[1].rgb, rgb.data() + 768, 768);
        const int32_t* s = setup.data();
        for (py::handle h : handles) {
            void* machine = py::reinterpret_borrow<py::capsule>(h).get_pointer();
            envs.push_back(std::make_unique<Env>(shared, machine, s[0], s[1], s[2] != 0));
            s += 3;
        }
        threads = num_threads;
        patient = threads > 1 && threads <= processors();
        for (int i = 0; i < num_threads; i++) {
            workers.emplace_back([this] { serve(); });
            if (affinity >= 0) pin(workers.back(), affinity + i);
        }
    }

    ~Pool() {
        py::gil_scoped_release free;
        stop();
    }

    void close() {
        py::gil_scoped_release free;
        stop();
    }

    // Reset the environments `ids`; rows of the others repeat what they last showed.
    void reset(Array<int32_t> ids, Array<int64_t> seeds, const Batch& batch) {
        std::vector<Job> jobs;
        for (py::ssize_t i = 0; i < ids.size(); i++)
            jobs.push_back({ids.at(i), true, 0, 1.0f, seeds.at(i), &batch.out});
        together(jobs, batch);
    }

    void step(Array<int32_t> ids, Array<int32_t> actions, Array<float> strengths, const Batch& batch) {
        std::vector<Job> jobs;
        for (py::ssize_t i = 0; i < ids.size(); i++)
            jobs.push_back({ids.at(i), false, actions.at(i), strengths.at(i), -1, &batch.out});
        together(jobs, batch);
    }

    // Begin steps (or resets) and return at once. With `batch`, results go to its rows as they come: the caller
    // then keeps the arrays until `receive` has returned.
    void send(Array<int32_t> ids, Array<int32_t> actions, Array<float> strengths, const Batch* batch) {
        std::vector<Job> jobs;
        for (py::ssize_t i = 0; i < ids.size(); i++)
            jobs.push_back({ids.at(i), false, actions.at(i), strengths.at(i), -1, batch ? &batch->out : nullptr});
        py::gil_scoped_release free;
        push(jobs, threads);
    }

    void send_reset(Array<int32_t> ids, Array<int64_t> seeds, const Batch* batch) {
        std::vector<Job> jobs;
        for (py::ssize_t i = 0; i < ids.size(); i++)
            jobs.push_back({ids.at(i), true, 0, 1.0f, seeds.at(i), batch ? &batch->out : nullptr});
        py::gil_scoped_release free;
        push(jobs, threads);
    }

    // Wait for `n` results, first come first served; returns their environments, in ascending order if all came.
    // Without `direct`, row i of the batch is the i-th of them.
    Array<int32_t> receive(int n, const Batch& batch, bool direct) {
        std::vector<int> ids;
        while (true) {
            py::gil_scoped_release free;
            std::unique_lock<std::mutex> lock(mutex);
            // wake now and then, so that Ctrl-C is seen
            if (done.wait_for(lock, std::chrono::milliseconds(200), [&] { return int(finished.size()) >= n; })) {
                ids.assign(finished.begin(), finished.begin() + n);
                finished.erase(finished.begin(), finished.begin() + n);
                completed = int(finished.size());
                for (int i : ids) envs[i]->busy = false;
                break;
            }
            lock.unlock();
            py::gil_scoped_acquire again;
            if (PyErr_CheckSignals()) throw py::error_already_set();
        }
        if (n == int(envs.size())) std::sort(ids.begin(), ids.end());
        if (!direct) {
            py::gil_scoped_release free;
            for (int i = 0; i < n; i++) envs[ids[i]]->write(batch.out, i, true);
        }
        complain(ids);
        Array<int32_t> out(n);
        std::copy(ids.begin(), ids.end(), out.mutable_data());
        return out;
    }

    int in_flight() {
        std::lock_guard<std::mutex> lock(mutex);
        int n = 0;
        for (auto& e : envs) n += e->busy;
        return n;
    }

    Array<bool> ended() {
        Array<bool> out(py::ssize_t(envs.size()));
        for (size_t i = 0; i < envs.size(); i++) out.mutable_at(i) = envs[i]->ended;
        return out;
    }

    Array<bool> busy() {
        Array<bool> out(py::ssize_t(envs.size()));
        std::lock_guard<std::mutex> lock(mutex);
        for (size_t i = 0; i < envs.size(); i++) out.mutable_at(i) = envs[i]->busy;
        return out;
    }

    py::bytes save(int i) { return py::bytes(envs.at(i)->save()); }

    bool load(int i, const std::string& bytes) { return envs.at(i)->load(bytes); }

    void show(const Batch& batch) {
        for (size_t i = 0; i < envs.size(); i++) envs[i]->write(batch.out, int(i), false);
    }

    bool usable() const { return !stopping && !inherited(); }

    // Whether this process is a fork of the one that made the pool.
    bool inherited() const { return pid != getpid(); }

private:
    Shared shared;
    py::list keep;                               // the Cores behind the handles
    std::vector<std::unique_ptr<Env>> envs;
    int threads;
    pid_t pid;
    std::vector<std::thread> workers;
    std::mutex mutex;
    std::condition_variable work, done;
    std::deque<Job> queue;
    std::deque<int> finished;
    bool stopping = false;
    std::atomic<int> queued{0}, completed{0};    // the lengths of the two, for those who look without the lock
    int looking = 0;                             // workers that look for jobs without the lock
    bool patient;                                // every thread has a processor to itself

    // Look for what is about to happen, because waking a sleeping thread takes longer.
    template <class Ready>
    void look(std::unique_lock<std::mutex>& lock, Ready ready) const {
        if (!patient) return;
        lock.unlock();
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(150);
        while (!ready() && std::chrono::steady_clock::now() < end) {
#if defined(__x86_64__)
            for (int i = 0; i < 16; i++) _mm_pause();
#endif
        }
        lock.lock();
    }

    // Processors that this process may use.
    static int processors() {
#ifdef __linux__
        cpu_set_t set;
        if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
        return int(std::thread::hardware_concurrency());
    }

    static void pin(std::thread& thread, int core) {
#ifdef __linux__
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(core % std::max(1u, std::thread::hardware_concurrency()), &set);
        pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
#else
        (void)thread;
        (void)core;
#endif
    }

    void stop() {
        if (inherited()) return;                 // threads do not survive a fork: nothing to join here
        {
            std::lock_guard<std::mutex> lock(mutex);
            stopping = true;
            queue.clear();
            queued = 0;
        }
        work.notify_all();
        for (auto& w : workers) w.join();
        workers.clear();
    }

    // Queue jobs and see to it that `helpers` workers take them.
    void push(const std::vector<Job>& jobs, int helpers) {
        std::lock_guard<std::mutex> lock(mutex);
        for (const Job& j : jobs) {
            envs[j.env]->busy = true;
            queue.push_back(j);
        }
        queued = int(queue.size());
        for (int i = looking; i < helpers; i++) work.notify_one();
    }

    // The first of the queue, run without the lock.
    void take(std::unique_lock<std::mutex>& lock, Scratch& tmp) {
        Job j = queue.front();
        queue.pop_front();
        queued = int(queue.size());
        lock.unlock();
        run(j, tmp);
        lock.lock();
        finished.push_back(j.env);
        completed = int(finished.size());
    }

    void run(const Job& j, Scratch& tmp) {
        Env& e = *envs[j.env];
        try {
            if (j.reset)
                e.reset(j.seed, tmp);
            else
                e.step(j.action, j.strength, tmp);
            if (j.out) e.write(*j.out, j.env, true);
        } catch (const std::exception& why) {    // memory
            e.error = why.what();
        }
    }

    void serve() {
        auto tmp = std::make_unique<Scratch>();
        std::unique_lock<std::mutex> lock(mutex);
        while (true) {
            work.wait(lock, [&] { return stopping || !queue.empty(); });
            while (!queue.empty() && !stopping) {
                take(lock, *tmp);
                done.notify_one();
                if (!queue.empty()) continue;
                looking++;
                look(lock, [&] { return queued.load(std::memory_order_relaxed) > 0; });
                looking--;
            }
            if (stopping) return;
        }
    }

    // Run jobs to their end; the calling thread works too, so that one thread needs no switching at all.
    void together(const std::vector<Job>& jobs, const Batch& batch) {
        std::vector<bool> busy(envs.size(), false);
        {
            py::gil_scoped_release free;
            if (!helper) helper = std::make_unique<Scratch>();
            // resets first: the last jobs, for which other threads wait, should be short
            std::vector<Job> order = jobs;
            std::stable_partition(order.begin(), order.end(), [&](const Job& j) { return envs[j.env]->starts(j.reset); });
            push(order, std::min<int>(threads, int(jobs.size())) - 1);
            std::unique_lock<std::mutex> lock(mutex);
            while (!queue.empty()) take(lock, *helper);
            const int all = int(jobs.size());
            if (int(finished.size()) < all)
                look(lock, [&] { return completed.load(std::memory_order_relaxed) == all; });
            done.wait(lock, [&] { return int(finished.size()) == all; });
            for (int i : finished) envs[i]->busy = false;
            finished.clear();
            completed = 0;
            lock.unlock();
            for (const Job& j : jobs) busy[j.env] = true;
            for (size_t i = 0; i < envs.size(); i++)
                if (!busy[i]) envs[i]->write(batch.out, int(i), false);
        }
        std::vector<int> ids;
        for (const Job& j : jobs) ids.push_back(j.env);
        complain(ids);
    }

    std::unique_ptr<Scratch> helper;

    void complain(const std::vector<int>& ids) {
        std::string text;
        for (int i : ids)
            if (!envs[i]->error.empty()) {
                if (text.empty()) text = "environment " + std::to_string(i) + ": " + envs[i]->error;
                envs[i]->error.clear();
            }
        if (!text.empty()) throw std::runtime_error(text);
    }
};

}  // namespace

// A forked process leaves a pool that it inherited as it is: whoever destroys a condition variable waits for the
// threads that sleep on it, which do not live there.
struct Destroy {
    void operator()(Pool* pool) const {
        if (!pool->inherited()) delete pool;
    }
};

PYBIND11_MODULE(_pool, m) {
    m.doc() = "Thread pool over hard machines; see vcs.env.vector for its interface.";
    py::class_<Batch>(m, "Batch").def(py::init<py::tuple, size_t>());
    py::class_<Pool, std::unique_ptr<Pool, Destroy>>(m, "Pool")
        .def(py::init<py::list, py::list, py::capsule, py::dict, Array<uint8_t>, Array<uint8_t>, Array<int32_t>, int,
                      int>())
        .def("close", &Pool::close)
        .def("reset", &Pool::reset)
        .def("step", &Pool::step)
        .def("send", &Pool::send)
        .def("send_reset", &Pool::send_reset)
        .def("receive", &Pool::receive)
        .def("in_flight", &Pool::in_flight)
        .def("ended", &Pool::ended)
        .def("busy", &Pool::busy)
        .def("save", &Pool::save)
        .def("load", &Pool::load)
        .def("show", &Pool::show)
        .def_property_readonly("usable", &Pool::usable);
}
