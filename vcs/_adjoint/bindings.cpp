// Python's side of the reverse sweep. Everything that comes in is checked here: a trace may be a stranger's.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <tuple>

#include "adjoint.hpp"

namespace py = pybind11;
using namespace adjoint;

namespace {

template <class T> const T* rows(const py::array& array, const char* name) {
    if (array.ndim() != 1 || array.itemsize() != static_cast<py::ssize_t>(sizeof(T)) ||
        !(array.flags() & py::array::c_style))
        throw std::invalid_argument(std::string("the array ") + name + " must be one-dimensional and contiguous, with " +
                                    std::to_string(sizeof(T)) + " bytes a row: pass a vcs.Trace's");
    return static_cast<const T*>(array.data());
}

using Doubles = py::array_t<double, py::array::c_style>;
using Bytes = py::array_t<uint8_t, py::array::c_style>;
using Ints = py::array_t<int32_t, py::array::c_style>;
using Integers = py::array_t<int64_t, py::array::c_style>;

class Adjoint {
public:
    Adjoint(const Opcodes& opcodes, const Bytes& image, int64_t cart_size, int lanes, bool bits)
        : lanes_(lanes), k_(bits ? 8 : 1), rom_size_(image.size()), cart_size_(cart_size),
          image_(image.data(), image.data() + image.size()), ops_(opcodes) {
        if (lanes != 1 && lanes != 4 && lanes != 8)
            throw std::invalid_argument("lanes is " + std::to_string(lanes) + "; it must be 1, 4 or 8");
        if (image.ndim() != 1 || rom_size_ < 1 || rom_size_ > 1 << 24 || cart_size < 0 || cart_size > ROM - CART)
            throw std::invalid_argument("the ROM or the cartridge RAM has an impossible size");
        const size_t width = static_cast<size_t>(k_) * lanes_;
        state_.assign(STATE * width, 0.0);
        cart_.assign(cart_size * width, 0.0);
        rom_.assign(rom_size_ * width, 0.0);
        latches_.assign(LATCHES * lanes, 0.0);
    }

    // A view of an adjoint: float64[rows, bits, lanes].
    static Doubles view(std::vector<double>& data, py::ssize_t rows, py::object owner) {
        const Adjoint& self = owner.cast<const Adjoint&>();
        return Doubles({rows, static_cast<py::ssize_t>(self.k_), static_cast<py::ssize_t>(self.lanes_)}, data.data(), owner);
    }
    static Doubles state(py::object self) { return view(self.cast<Adjoint&>().state_, STATE, self); }
    static Doubles cart(py::object self) {
        Adjoint& a = self.cast<Adjoint&>();
        return view(a.cart_, a.cart_size_, self);
    }
    static Doubles rom(py::object self) {
        Adjoint& a = self.cast<Adjoint&>();
        return view(a.rom_, a.rom_size_, self);
    }

    Doubles sweep(const py::array& instr, const py::array& tia, const py::array& segments, const py::array& frames,
                  const py::array_t<int32_t, py::array::c_style>& x0, int height, const Integers& pixels,
                  const Doubles& weights, double alpha, const std::vector<double>& read_weights, const Integers& branch,
                  const Integers& meet, const Integers& start, const Ints& place, const Ints& other, const Ints& here,
                  double slope) {
        Trace t{rows<Instr>(instr, "instr"), instr.size(), rows<TiaRow>(tia, "tia"), tia.size(),
                rows<Segment>(segments, "segments"), segments.size(), rows<FrameRow>(frames, "frames"), frames.size(),
                x0.data(), height};
        if (x0.ndim() != 1 || x0.size() != X0)
            throw std::invalid_argument("x0 must hold 1024 values: pass a vcs.Trace's");
        if (height < 0 || height > 1024)
            throw std::invalid_argument("the picture has an impossible height");
        if (pixels.ndim() != 1 || weights.ndim() != 2 || weights.shape(0) != pixels.size() || weights.shape(1) != lanes_)
            throw std::invalid_argument("pixels must be int64[P] and weights float64[P, lanes]");
        if (!std::isfinite(alpha) || alpha < 0 || !std::isfinite(slope))
            throw std::invalid_argument("alpha must be a number of 0 or more, slope finite");
        if (!read_weights.empty() && read_weights.size() != Relaxation::WINDOW + 1)
            throw std::invalid_argument("read_weights must be empty or hold 5 numbers");
        Relaxation relaxation{alpha, !read_weights.empty(), {}};
        std::copy(read_weights.begin(), read_weights.end(), relaxation.weight);
        const int64_t* p = pixels.data();
        const int64_t end = t.n_frames * height * WIDTH;
        for (py::ssize_t k = 0; k < pixels.size(); ++k)
            if (p[k] < 0 || p[k] >= end || (k && p[k] <= p[k - 1]))
                throw std::invalid_argument("pixels must ascend and lie within the trace's frames");
        Seeds seeds{p, weights.data(), pixels.size()};
        Doubles lines({t.n_frames, static_cast<int64_t>(LINES), static_cast<int64_t>(lanes_)});
        std::memset(lines.mutable_data(), 0, lines.nbytes());
        const int64_t n = branch.size();
        bool fits = branch.ndim() == 1 && meet.ndim() == 1 && start.ndim() == 1 && place.ndim() == 1 && other.ndim() == 1 &&
                    here.ndim() == 1 && meet.size() == n && start.size() == n + 1 && other.size() == place.size() &&
                    here.size() == place.size();
        fits = fits && start.data()[0] == 0 && start.data()[n] == place.size();
        for (int64_t k = 0; fits && k < n; ++k)
            fits = 0 <= branch.data()[k] && branch.data()[k] < meet.data()[k] && meet.data()[k] <= t.instrs &&
                   start.data()[k] <= start.data()[k + 1] && (!k || branch.data()[k - 1] < branch.data()[k]);
        if (!fits)
            throw std::invalid_argument("the joins do not fit the trace: make them from it with vcs.join");
        Joins joins{branch.data(), meet.data(), start.data(), place.data(), other.data(), here.data(), n, slope};
        Totals totals{state_.data(), cart_.data(), cart_size_, rom_.data(), rom_size_, lines.mutable_data(), latches_.data(),
                      image_.data()};
        if (busy_.exchange(true))
            throw std::runtime_error("this Adjoint is sweeping on another thread: give each thread its own");
        struct Release {
            std::atomic<bool>& busy;
            ~Release() { busy = false; }
        } release{busy_};
        {
            py::gil_scoped_release unlocked;
            if (k_ == 1)
                lanes_ == 1 ? run<1, 1>(t, seeds, totals, relaxation, joins) : lanes_ == 4 ? run<1, 4>(t, seeds, totals, relaxation, joins)
                                                                               : run<1, 8>(t, seeds, totals, relaxation, joins);
            else
                lanes_ == 1 ? run<8, 1>(t, seeds, totals, relaxation, joins) : lanes_ == 4 ? run<8, 4>(t, seeds, totals, relaxation, joins)
                                                                               : run<8, 8>(t, seeds, totals, relaxation, joins);
        }
        return lines;
    }

private:
    template <int K, int B> void run(const Trace& t, const Seeds& seeds, const Totals& totals, const Relaxation& relaxation, const Joins& joins) {
        Sweep<K, B>(ops_, t, seeds, totals, relaxation, joins).run();
    }

    const int lanes_, k_;
    const int64_t rom_size_, cart_size_;
    std::vector<double> state_, cart_, rom_, latches_;
    const std::vector<uint8_t> image_;
    const Opcodes ops_;
    std::atomic<bool> busy_{false};
};

}  // namespace

PYBIND11_MODULE(_adjoint, m) {
    m.doc() = "The compiled reverse sweep over a trace (docs/gradients.md).";
    py::class_<Opcodes>(m, "Opcodes", "The 256 opcodes, decoded. rows: 256 (mnemonic, mode, cycles).\n\nRaises ValueError.")
        .def(py::init([](const std::vector<std::tuple<std::string, std::string, int>>& rows) {
                 std::vector<OpcodeRow> table;
                 for (const auto& [mnemonic, mode, cycles] : rows)
                     table.push_back({mnemonic, mode, cycles});
                 return decode(table);
             }),
             py::arg("rows"));
    py::class_<Adjoint>(m, "Adjoint",
                        "The adjoint of a machine's state, carried backwards over traces.\n\n"
                        "opcodes: what the opcodes are. image: uint8[N], the ROM. lanes: cotangent vectors at once, 1, 4 or 8. bits: True for the\n"
                        "`bit` rules (eight derivatives a byte), False for `value`. Raises ValueError for anything out of range.")
        .def(py::init<const Opcodes&, const Bytes&, int64_t, int, bool>(),
             py::arg("opcodes"), py::arg("image"), py::arg("cart_size"), py::arg("lanes"), py::arg("bits"))
        .def_property_readonly("state", &Adjoint::state,
                               "float64[344, 1 or 8, lanes], writable: adjoint of every location below 344")
        .def_property_readonly("cart", &Adjoint::cart, "float64[c, 1 or 8, lanes], writable: of cartridge RAM")
        .def_property_readonly("rom", &Adjoint::rom, "float64[N, 1 or 8, lanes], writable: of the ROM image")
        .def("sweep", &Adjoint::sweep, py::arg("instr"), py::arg("tia"), py::arg("segments"), py::arg("frames"),
             py::arg("x0"), py::arg("height"), py::arg("pixels"), py::arg("weights"), py::arg("alpha"),
             py::arg("read_weights"), py::arg("branch"), py::arg("meet"), py::arg("start"), py::arg("place"),
             py::arg("other"), py::arg("here"), py::arg("slope"),
             "Carry the adjoint over a trace, from its end to its start.\n\n"
             "The arrays are a vcs.Trace's. pixels: int64[P], ascending flat indices (frame, row, column) of pixels with a\n"
             "cotangent; weights: float64[P, lanes]. read_weights: of a relaxed read at distance 0 to 4, or\n"
             "empty for exact reads. branch to here: the joins of vcs.join and their slope, or\n"
             "empty arrays (start: one 0). Returns float64[F, 32, lanes], the adjoint of the input lines.\n"
             "Releases the GIL. Raises ValueError for arrays of another shape.");
    m.attr("LOCATIONS") = py::dict(py::arg("CPU") = int(CPU), py::arg("TIA_W") = int(TIA_W),
                                   py::arg("POSITION") = int(POSITION), py::arg("TIA_R") = int(TIA_R),
                                   py::arg("RIOT") = int(SWCHA), py::arg("TIMER") = int(TIMER), py::arg("CART") = int(CART),
                                   py::arg("ROM") = int(ROM), py::arg("INPUT_SIZE") = LINES);
    m.attr("ROWS") = py::dict(py::arg("instr") = sizeof(Instr), py::arg("tia") = sizeof(TiaRow),
                              py::arg("segments") = sizeof(Segment), py::arg("frames") = sizeof(FrameRow));
}
