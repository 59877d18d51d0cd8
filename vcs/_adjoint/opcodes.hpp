// What each opcode is, built from vcs/data/opcodes.csv by the caller: the mnemonic gives the rule, the
// mode says where its operand is.
#pragma once
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace adjoint {

#define ADJOINT_KINDS(X)                                                                                      \
    X(LDA) X(LDX) X(LDY) X(LAX) X(STA) X(STX) X(STY) X(SAX) X(TAX) X(TAY) X(TXA) X(TYA) X(TSX) X(TXS)         \
    X(ADC) X(SBC) X(CMP) X(CPX) X(CPY) X(AND) X(ORA) X(EOR) X(BIT) X(INC) X(DEC) X(INX) X(INY) X(DEX) X(DEY)  \
    X(ASL) X(ROL) X(LSR) X(ROR) X(PHA) X(PHP) X(PLA) X(PLP) X(JMP) X(JSR) X(RTS) X(RTI) X(BRK)                \
    X(CLC) X(SEC) X(CLD) X(SED) X(CLI) X(SEI) X(CLV) X(NOP) X(KIL)                                            \
    X(BPL) X(BMI) X(BVC) X(BVS) X(BCC) X(BCS) X(BNE) X(BEQ)                                                   \
    X(SLO) X(RLA) X(SRE) X(RRA) X(DCP) X(ISB) X(ANC) X(ASR) X(ARR) X(ANE) X(LXA) X(SBX) X(LAS)                \
    X(SHA) X(SHS) X(SHX) X(SHY)

enum class Kind : uint8_t {
#define X(name) name,
    ADJOINT_KINDS(X)
#undef X
};

// Bits of the set of registers and flags whose adjoint may not be zero.
enum Live : uint32_t {
    LA = 1, LX = 2, LY = 4, LSP = 8, LN = 16, LV = 32, LD = 64, LI = 128, LZ = 256, LC = 512, LPC = 1024,
    LNZ = LN | LZ, LFLAGS = LN | LV | LD | LI | LZ | LC,
};

enum class Source : uint8_t { none, immediate, memory, accumulator };

// What the address of a read depends on: an index register added in 16 or 8 bits, a pointer, or a pointer and Y.
enum class Index : uint8_t { none, x, y, page_x, page_y, pointer, pointer_y };

struct Opcode {
    Kind kind;
    Source source;
    uint8_t cycles;
    Index index;
    bool indirect;                 // JMP (abs)
    bool stores;                   // writes the cell at ea_loc
    bool always;                   // pushes more than one byte: must be undone in any case
    uint8_t source_register;       // of STA, STX, STY: the place of A, X or Y among the registers, else 255
    uint32_t writes;               // Live bits of what it writes, SP and PC only where they are not moved by a constant
};

inline uint32_t written(Kind k, bool accumulator) {
    switch (k) {
    case Kind::LDA: case Kind::AND: case Kind::ORA: case Kind::EOR: case Kind::TXA: case Kind::TYA: case Kind::ANE:
        return LA | LNZ;
    case Kind::PLA:
        return LA | LNZ | LSP;
    case Kind::LDX: case Kind::TAX: case Kind::TSX: case Kind::INX: case Kind::DEX:
        return LX | LNZ;
    case Kind::LDY: case Kind::TAY: case Kind::INY: case Kind::DEY:
        return LY | LNZ;
    case Kind::LAX: case Kind::LXA:
        return LA | LX | LNZ;
    case Kind::LAS:
        return LA | LX | LSP | LNZ;
    case Kind::TXS: case Kind::SHS: case Kind::PHA: case Kind::PHP:
        return LSP;
    case Kind::ADC: case Kind::SBC: case Kind::RRA: case Kind::ISB: case Kind::ARR:
        return LA | LNZ | LV | LC;
    case Kind::CMP: case Kind::CPX: case Kind::CPY: case Kind::DCP:
        return LNZ | LC;
    case Kind::BIT:
        return LNZ | LV;
    case Kind::INC: case Kind::DEC:
        return LNZ;
    case Kind::ASL: case Kind::ROL: case Kind::LSR: case Kind::ROR:
        return LNZ | LC | (accumulator ? +LA : 0u);
    case Kind::SLO: case Kind::RLA: case Kind::SRE: case Kind::ANC: case Kind::ASR:
        return LA | LNZ | LC;
    case Kind::SBX:
        return LX | LNZ | LC;
    case Kind::PLP:
        return LFLAGS | LSP;
    case Kind::RTI:
        return LFLAGS | LSP | LPC;
    case Kind::RTS:
        return LSP | LPC;
    case Kind::JMP:
        return LPC;
    case Kind::BPL: case Kind::BMI:
        return LPC | LN;           // a branch pins its flag
    case Kind::BVC: case Kind::BVS:
        return LPC | LV;
    case Kind::BCC: case Kind::BCS:
        return LPC | LC;
    case Kind::BNE: case Kind::BEQ:
        return LPC | LZ;
    case Kind::CLC: case Kind::SEC:
        return LC;
    case Kind::CLD: case Kind::SED:
        return LD;
    case Kind::CLI: case Kind::SEI:
        return LI;
    case Kind::CLV:
        return LV;
    case Kind::JSR: case Kind::BRK:
        return LSP | LPC | LI;
    case Kind::STA: case Kind::STX: case Kind::STY: case Kind::SAX: case Kind::SHA: case Kind::SHX: case Kind::SHY:
    case Kind::NOP: case Kind::KIL:
        return 0;
    }
    return ~0u;
}

struct OpcodeRow {
    std::string mnemonic, mode;
    int cycles;
};

struct Opcodes : std::array<Opcode, 256> {};

inline Opcodes decode(const std::vector<OpcodeRow>& rows) {
    static const char* const names[] = {
#define X(name) #name,
        ADJOINT_KINDS(X)
#undef X
    };
    if (rows.size() != 256)
        throw std::invalid_argument("the opcode table has " + std::to_string(rows.size()) + " rows; it must have 256");
    Opcodes out{};
    for (size_t i = 0; i < 256; ++i) {
        const OpcodeRow& row = rows[i];
        size_t k = 0;
        while (k < std::size(names) && row.mnemonic != names[k])
            ++k;
        if (k == std::size(names))
            throw std::invalid_argument("the opcode table names an unknown instruction " + row.mnemonic);
        Opcode& op = out[i];
        op.kind = static_cast<Kind>(k);
        op.cycles = static_cast<uint8_t>(row.cycles);
        op.source = row.mode == "immediate" ? Source::immediate
                  : row.mode == "accumulator" ? Source::accumulator
                  : row.mode == "implied" || row.mode == "relative" ? Source::none : Source::memory;
        op.indirect = row.mode == "indirect";
        op.index = row.mode == "absolute,X" ? Index::x
                 : row.mode == "absolute,Y" ? Index::y
                 : row.mode == "zeropage,X" ? Index::page_x
                 : row.mode == "zeropage,Y" ? Index::page_y
                 : row.mode == "(indirect,X)" ? Index::pointer
                 : row.mode == "(indirect),Y" ? Index::pointer_y : Index::none;
        op.writes = written(op.kind, op.source == Source::accumulator);
        op.always = op.kind == Kind::JSR || op.kind == Kind::BRK;
        op.source_register = op.kind == Kind::STA ? 0 : op.kind == Kind::STX ? 1 : op.kind == Kind::STY ? 2 : 255;
        switch (op.kind) {
        case Kind::STA: case Kind::STX: case Kind::STY: case Kind::SAX: case Kind::SHA: case Kind::SHS: case Kind::SHX:
        case Kind::SHY: case Kind::PHA: case Kind::PHP: case Kind::INC: case Kind::DEC: case Kind::SLO: case Kind::RLA:
        case Kind::SRE: case Kind::RRA: case Kind::DCP: case Kind::ISB:
            op.stores = true;
            break;
        case Kind::ASL: case Kind::ROL: case Kind::LSR: case Kind::ROR:
            op.stores = op.source == Source::memory;
            break;
        default:
            op.stores = false;
        }
    }
    return out;
}

}  // namespace adjoint
