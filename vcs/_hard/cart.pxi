# Cartridges: the mappers of spec/cartridges.md, one function per question the bus asks.
#
# Models every mapper of section 2 (2K to UA, MB, MC, AR, DPC, the two stubs): what a read returns and
# switches, what a write does, what a reset changes. Leaves out what is undefined in the references: MC's
# block registers at power-on (0 here), the rest of the window of a short file (0 here), and AR's counting
# of accesses, of which only ale-py's default setting is modelled (a pending write never arrives).
#
# How a bank switch works. The window $1000-$1FFF is eight pointers to 1 KiB, `m.seg`, four for addresses
# with A13 clear and four for A13 set (only FE tells them apart). The bus reads through them without asking
# while the offset is in [fast_lo, fast_lo + fast_n); everything with a side effect lies outside and comes
# to `cart_read`. A switch stores the register in `m.s` and rewrites the pointers: no copy, no lookup later.
#
# Registers in `State`: `bank` (banked mappers; 3E: -1 - RAM bank; E7: slice), `slice` (E0: S0-S2; E7: RAM
# bank in [0]; MC: B[0]-B[3]; AR: L and H), `lock` (MC), `dpc_*`, `ar_*`. Sections are named per function.



cdef enum:
    M_2K = 0
    M_4K = 1
    M_F8 = 2
    M_F8SWAP = 3
    M_F8SC = 4
    M_F6 = 5
    M_F6SC = 6
    M_F4 = 7
    M_F4SC = 8
    M_E0 = 9
    M_E7 = 10
    M_FE = 11
    M_FASC = 12
    M_3F = 13
    M_3E = 14
    M_MB = 15
    M_MC = 16
    M_AR = 17
    M_DPC = 18
    M_CV = 19
    M_UA = 20
    M_0840 = 21
    M_4A50 = 22
    M_COUNT = 23

    AR_LOAD = 8448             # bytes of one AR load: 32 data pages and a header page
    AR_BIOS = 3                # AR bank number of the BIOS
    MC_ROM = 131072            # bytes of MC's ROM array; the file is its end

cdef extern from *:
    """
    /* What a stub mapper shows. */
    static const uint8_t CART_ZERO[1024];

    /* AR's banks L and H by (configuration >> 2) & 7; 3 is the BIOS. */
    static const uint8_t AR_LOW[8]  = {2, 0, 2, 0, 2, 1, 2, 1};
    static const uint8_t AR_HIGH[8] = {3, 3, 0, 2, 3, 3, 1, 2};

    /* DPC's mix of the three square waves. */
    static const uint8_t DPC_LEVEL[8] = {0, 4, 5, 9, 6, 10, 11, 15};

    /* Our own boot program for AR, written from the effects that section 5 lists ("BIOS"); it shows at
       $F800-$FFFF. What is not listed holds $02, but for the vectors (ar_bios). Its length in lines, and
       in instructions and cycles after the last VSYNC, was fitted to what a loaded program can see of
       ale-py's: frames, INTIM and the position in the line at the hand-over. */
    static const uint8_t AR_BIOS_CODE[] = {
    /* F800 warm start: the load number is in $FA */
    0xA5,0xFA, 0x85,0x80,             /*        LDA $FA     STA $80                          */
    0x4C,0x18,0xF8,                   /*        JMP warm                                     */
    2,2,2,
    /* F80A cold start: clear TIA and RAM upwards, so the load number at $80 is 0 */
    0x78, 0xD8, 0xA2,0x00, 0xA9,0x00, /*        SEI  CLD  LDX #0  LDA #0                     */
    0x95,0x00, 0xE8, 0xD0,0xFB,       /* clear: STA 0,X  INX  BNE clear                      */
    0x4C,0x50,0xF8,                   /*        JMP $F850                                    */
    /* F818 warm: configuration 6 (RAM 0 below, writes enabled), then 0 into $F700-$F7FF */
    0xCD,0x06,0xF0, 0xCD,0xF8,0xFF,   /*        CMP $F006   CMP $FFF8                        */
    0xA2,0x00,                        /*        LDX #0                                       */
    0xCD,0x00,0xF0, 0xEA,             /* zero:  CMP $F000 (hold 0)   NOP                     */
    0xDD,0x00,0xF7,                   /*        CMP $F700,X (five accesses later: stored)    */
    0xE8, 0xD0,0xF6,                  /*        INX  BNE zero                                */
    0x4C,0x50,0xF8,                   /*        JMP $F850                                    */
    2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,
    /* F850: fetching this opcode makes the mapper load. $FA: CMP $FFF8, JMP (start address) */
    0xA9,0xCD, 0x85,0xFA, 0xA9,0xF8, 0x85,0xFB, 0xA9,0xFF, 0x85,0xFC, 0xA9,0x4C, 0x85,0xFD,
    0xA9,0x00, 0xA2,0x28,             /*        LDA #0  LDX #$28                             */
    0x95,0x04, 0xCA, 0x10,0xFB,       /* tia:   STA $04,X  DEX  BPL tia                      */
    0xA2,0x1C, 0x95,0x81, 0xCA, 0x10,0xFB, /*   LDX #$1C  ram: STA $81,X  DEX  BPL ram       */
    0x85,0x01,                        /*        STA VBLANK                                   */
    0xA9,0x0F, 0x85,0x81,             /*        LDA #$0F  STA $81 (PF0 of the bars, PF1, PF2)*/
    0xA9,0x01, 0x85,0x0A,             /*        LDA #1  STA CTRLPF (mirrored)                */
    0xA9,0x04, 0x85,0x15,             /*        LDA #4  STA AUDC0                            */
    0xA9,0x07, 0x85,0x19,             /*        LDA #7  STA AUDV0                            */
    0x85,0x02, 0x85,0x02, 0xA2,0x15,  /*        STA WSYNC, two  LDX #21 (frames, a pixel each) */
    0x38, 0x26,0x81, 0x66,0x82, 0x26,0x83, /* frame: SEC  ROL $81  ROR $82  ROL $83          */
    0xA5,0x81, 0x85,0x0D,             /*        LDA $81  STA PF0                             */
    0xA5,0x82, 0x85,0x0E,             /*        LDA $82  STA PF1                             */
    0xA5,0x83, 0x85,0x0F,             /*        LDA $83  STA PF2                             */
    0x86,0x17, 0x86,0x09,             /*        STX AUDF0  STX COLUBK                        */
    0xA0,0x81,                        /*        LDY #129                                     */
    0x85,0x02, 0x85,0x02,             /* line:  STA WSYNC  STA WSYNC                         */
    0x88, 0xD0,0xF9,                  /*        DEY  BNE line                                */
    0xA9,0x02, 0x85,0x02, 0x85,0x00,  /*        LDA #2  STA WSYNC  STA VSYNC                 */
    0x85,0x02, 0x85,0x02, 0x85,0x02,  /*        STA WSYNC, three lines                       */
    0xA9,0x00, 0x85,0x00,             /*        LDA #0  STA VSYNC                            */
    0xCA, 0xD0,0xCD,                  /*        DEX  BNE frame                               */
    0xA9,0x02, 0x85,0x01,             /*        LDA #2  STA VBLANK                           */
    0xA9,0x00, 0x85,0x19, 0x85,0x09,  /*        LDA #0  STA AUDV0  STA COLUBK                */
    0xA2,0x04, 0xE6,0x81, 0xCA, 0xD0,0xFB, /*   LDX #4  wait: INC $81  DEX  BNE wait         */
    0xA6,0x81, 0xAE,0x81,0x00,        /*        LDX $81  LDX $0081: ale-py's time to here    */
    0xA2,0x1C, 0x95,0x81, 0xCA, 0x10,0xFB, /*   LDX #$1C  ram: STA $81,X  DEX  BPL ram       */
    0xA6,0x80, 0xDD,0x00,0xF0,        /*        LDX $80  CMP $F000,X (hold configuration)    */
    0xA5,0x80, 0x45,0xFE, 0x45,0xFF,  /*        LDA $80  EOR $FE  EOR $FF                    */
    0xA2,0xFF, 0xA0,0x00, 0x9A,       /*        LDX #$FF  LDY #0  TXS                        */
    0x4C,0xFA,0x00,                   /*        JMP $00FA                                    */
    };
    enum { AR_BIOS_SIZE = sizeof AR_BIOS_CODE };
    """
    const uint8_t CART_ZERO[1024]
    const uint8_t AR_LOW[8]
    const uint8_t AR_HIGH[8]
    const uint8_t DPC_LEVEL[8]
    const uint8_t AR_BIOS_CODE[]
    const uint32_t AR_BIOS_SIZE


# ---------------------------------------------------------------------------------------------- tables

cdef inline uint32_t hot_first(int mapper) noexcept nogil:
    """First hot spot of the mappers whose hot spots are consecutive offsets (section 2)."""
    if mapper == M_F6 or mapper == M_F6SC:
        return 0xFF6
    if mapper == M_F4 or mapper == M_F4SC:
        return 0xFF4
    return 0xFF8               # F8, F8SWAP, F8SC, FASC, DPC


cdef inline int bank_count(int mapper, int size) noexcept nogil:
    """Number of values the bank register can hold, 1 for mappers without one."""
    if mapper == M_F8 or mapper == M_F8SWAP or mapper == M_F8SC or mapper == M_DPC or mapper == M_UA:
        return 2
    if mapper == M_F6 or mapper == M_F6SC:
        return 4
    if mapper == M_F4 or mapper == M_F4SC or mapper == M_E7:
        return 8
    if mapper == M_FASC:
        return 3
    if mapper == M_MB:
        return 16
    if mapper == M_3F or mapper == M_3E:
        return size >> 11
    return 1


cdef inline uint32_t port_size(int mapper) noexcept nogil:
    """Bytes of the write port at offset 0 (the read port follows it), 0 if the mapper has none."""
    if mapper == M_F8SC or mapper == M_F6SC or mapper == M_F4SC:
        return 128
    if mapper == M_FASC:
        return 256
    return 0


cdef int cart_ram_bytes(int mapper, int size) noexcept nogil:
    """Bytes of cartridge RAM that a mapper has (section 3)."""
    if mapper == M_CV:
        return 1024
    if mapper == M_E7:
        return 2048
    if mapper == M_AR:
        return 6144
    if mapper == M_3E or mapper == M_MC:
        return 32768
    return <int>port_size(mapper)


cdef int cart_ram_random_bytes(int mapper, int size) noexcept nogil:
    """Bytes filled with random numbers at power-on: all but for CV's 4096-byte file, which brings its own."""
    if mapper == M_CV and size != 2048:
        return 0
    return cart_ram_bytes(mapper, size)


# ------------------------------------------------------------------------------------------- the window

cdef inline void window(VCS* m, const uint8_t* base) noexcept nogil:
    """Show 4 KiB from `base` in the whole window."""
    m.seg[0] = m.seg[4] = base
    m.seg[1] = m.seg[5] = base + 1024
    m.seg[2] = m.seg[6] = base + 2048
    m.seg[3] = m.seg[7] = base + 3072


cdef inline void halves(VCS* m, const uint8_t* low, const uint8_t* high) noexcept nogil:
    """Show 2 KiB from `low` at offset $000 and 2 KiB from `high` at $800."""
    m.seg[0] = m.seg[4] = low
    m.seg[1] = m.seg[5] = low + 1024
    m.seg[2] = m.seg[6] = high
    m.seg[3] = m.seg[7] = high + 1024


cdef inline void select_bank(VCS* m, int bank) noexcept nogil:
    """Switch a mapper of whole 4 KiB banks."""
    m.s.bank = bank
    leave_window(m)
    window(m, m.rom + 4096 * bank)


cdef inline void map_e0(VCS* m) noexcept nogil:
    cdef int i
    leave_window(m)
    for i in range(3):
        m.seg[i] = m.seg[i + 4] = m.rom + 1024 * m.s.slice[i]
    m.seg[3] = m.seg[7] = m.rom + 7 * 1024


cdef inline void map_e7(VCS* m) noexcept nogil:
    """Slice 7 is the RAM block: reads of its write port give the file byte (E7 rule 5), so the pointer of
    $000-$3FF stays in the file and only $400-$7FF moves to the RAM."""
    leave_window(m)
    halves(m, m.rom + 2048 * m.s.bank, m.rom + 14336)
    if m.s.bank == 7:
        m.seg[1] = m.seg[5] = m.cart_ram


cdef inline void map_tigervision(VCS* m) noexcept nogil:
    """3F and 3E. With a RAM bank both ports read the same RAM (3E rule 3)."""
    cdef const uint8_t* last = m.rom + m.rom_size - 2048
    leave_window(m)
    if m.s.bank >= 0:
        halves(m, m.rom + 2048 * m.s.bank, last)
    else:
        halves(m, m.cart_ram + 1024 * (-1 - m.s.bank), last)
        m.seg[1] = m.seg[5] = m.seg[0]


cdef void cart_map(VCS* m) noexcept nogil:
    """Derive the window, its fast range and the owned low pages from the mapper's registers.

    Called after construction, reset and restore. A switch calls only its mapper's part: the fast range
    and the pages never change."""
    cdef int mapper = m.mapper
    cdef const uint8_t* rom = m.rom
    m.fast_lo = 0
    m.fast_n = 4096
    m.low_page = mapper == M_3F or mapper == M_3E or mapper == M_MC
    m.ua_pages = mapper == M_UA
    if mapper == M_2K:
        halves(m, rom, rom)
    elif mapper == M_4K:
        window(m, rom)
    elif mapper == M_FE:
        window(m, rom)                     # A13 set: first half
        m.seg[0] = rom + 4096
        m.seg[1] = rom + 5120
        m.seg[2] = rom + 6144
        m.seg[3] = rom + 7168
    elif mapper == M_CV:
        halves(m, rom + m.rom_size - 2048, rom + m.rom_size - 2048)
        m.seg[0] = m.seg[4] = m.cart_ram
    elif mapper == M_3F or mapper == M_3E:
        map_tigervision(m)
    elif mapper == M_E0:
        map_e0(m)
        m.fast_n = 0xFE0
    elif mapper == M_E7:
        map_e7(m)
        m.fast_lo = 0xA00
        m.fast_n = 0xFE0 - 0xA00
    elif mapper == M_MC or mapper == M_AR:
        window(m, rom)                     # never used: every access has side effects
        m.fast_n = 0
    elif mapper == M_0840 or mapper == M_4A50:
        m.seg[0] = m.seg[1] = m.seg[2] = m.seg[3] = &CART_ZERO[0]
        m.seg[4] = m.seg[5] = m.seg[6] = m.seg[7] = &CART_ZERO[0]
    else:
        window(m, rom + 4096 * m.s.bank)
        if mapper == M_MB:
            m.fast_n = 0xFF0
        elif mapper == M_DPC:
            m.fast_lo = 0x080
            m.fast_n = 0xFC0 - 0x080
        elif mapper != M_UA:
            m.fast_lo = 2 * port_size(mapper)
            m.fast_n = hot_first(mapper) - m.fast_lo


cdef bint cart_valid(VCS* m) noexcept nogil:
    """Whether the mapper's registers are in range: a restored state must be asked this before
    `cart_map`, which makes pointers of them."""
    cdef int i
    cdef int low = -32 if m.mapper == M_3E else 0
    if m.s.bank < low or m.s.bank >= bank_count(m.mapper, m.rom_size):
        return False
    if m.mapper == M_E0:
        for i in range(3):
            if m.s.slice[i] > 7:
                return False
    if m.mapper == M_E7:
        return m.s.slice[0] < 4
    if m.mapper == M_AR:
        return m.s.slice[0] <= AR_BIOS and m.s.slice[1] <= AR_BIOS
    return True


# ------------------------------------------------------------------------------------ power-on and reset

cdef void cart_reset(VCS* m) noexcept nogil:
    """The mapper's part of a system reset (the "start" column of section 2). Random RAM is filled by the
    caller, before or after: nothing here reads it."""
    cdef int mapper = m.mapper
    m.s.bank = 0
    if mapper == M_F8 or mapper == M_F8SC or mapper == M_MB or mapper == M_DPC:
        m.s.bank = 1
    elif mapper == M_FASC:
        m.s.bank = 2
    elif mapper == M_E0:
        m.s.slice[0] = 4
        m.s.slice[1] = 5
        m.s.slice[2] = 6
    elif mapper == M_E7:
        m.s.slice[0] = 0
    elif mapper == M_AR:
        m.s.ar_hold = 0
        m.s.ar_pending = 0
        ar_configure(m, 0)
    elif mapper == M_CV and m.ale and m.rom_size == 4096:
        memcpy(m.cart_ram, m.rom, 1024)    # CV rule 4: xitari does this at power-on only
    if mapper == M_DPC:
        m.s.dpc_cycles = <int32_t>m.s.cycles
        m.s.dpc_frac = 0.0
    cart_map(m)


cdef void cart_power_on(VCS* m) noexcept nogil:
    """The mapper's registers and own RAM contents at construction."""
    cdef int i
    for i in range(4):
        m.s.slice[i] = 0
    m.s.lock = 0
    for i in range(8):
        m.s.dpc_top[i] = m.s.dpc_bottom[i] = m.s.dpc_flag[i] = m.s.dpc_music[i] = 0
        m.s.dpc_counter[i] = 0
    m.s.dpc_rng = 1
    if m.mapper == M_CV and m.rom_size == 4096:
        memcpy(m.cart_ram, m.rom, 1024)
    cart_reset(m)


cdef void cart_rebase(VCS* m, uint32_t c) noexcept nogil:
    """The cycle counter is about to go back by c (riot.md 1)."""
    m.s.dpc_cycles = <int32_t>(<uint32_t>m.s.dpc_cycles - c)


# --------------------------------------------------------------------------------------------- DPC (4)

cdef inline void dpc_clock(VCS* m) noexcept nogil:
    """One clock of the random register."""
    cdef uint32_t r = m.s.dpc_rng
    cdef uint32_t bit = 1 ^ (((r >> 7) ^ (r >> 5) ^ (r >> 4) ^ (r >> 3)) & 1)
    m.s.dpc_rng = <uint8_t>((r << 1) | bit)


cdef int dpc_amplitude(VCS* m) noexcept nogil:
    """Advance the music fetchers to the present cycle and mix them ("Music amplitude")."""
    cdef int i, w, low, span, index = 0
    cdef int32_t n = <int32_t>(m.s.cycles - <uint32_t>m.s.dpc_cycles)
    cdef double x
    m.s.dpc_cycles = <int32_t>m.s.cycles
    x = (15750.0 * n) / 1193191.66666667 + m.s.dpc_frac
    w = <int>x
    m.s.dpc_frac = x - w
    for i in range(5, 8):
        if not m.s.dpc_music[i]:
            continue
        if w > 0:
            low = 0
            if m.s.dpc_top[i]:
                span = m.s.dpc_top[i] + 1
                low = (m.s.dpc_counter[i] & 0xFF) - w % span
                if low < 0:
                    low += span
            if low <= m.s.dpc_bottom[i]:
                m.s.dpc_flag[i] = 0x00
            elif low <= m.s.dpc_top[i]:
                m.s.dpc_flag[i] = 0xFF
            m.s.dpc_counter[i] = <uint16_t>((m.s.dpc_counter[i] & 0x700) | (low & 0xFF))
        if m.s.dpc_flag[i]:
            index |= 1 << (i - 5)
    return DPC_LEVEL[index]


cdef int dpc_fetch(VCS* m, uint32_t o) noexcept nogil:
    """Read a data fetcher register, o in $000-$03F; the random register is clocked already."""
    cdef int i = o & 7
    cdef int f = o >> 3
    cdef int result = 0
    cdef uint32_t low = m.s.dpc_counter[i] & 0xFF
    if low == m.s.dpc_top[i]:
        m.s.dpc_flag[i] = 0xFF
    elif low == m.s.dpc_bottom[i]:
        m.s.dpc_flag[i] = 0x00
    if f == 0:
        result = m.s.dpc_rng if i < 4 else dpc_amplitude(m)
    elif f == 1:
        result = m.rom[8192 + 2047 - m.s.dpc_counter[i]]
    elif f == 2:
        result = m.rom[8192 + 2047 - m.s.dpc_counter[i]] & m.s.dpc_flag[i]
    elif f == 7:
        result = m.s.dpc_flag[i]
    if not m.s.dpc_music[i]:
        m.s.dpc_counter[i] = (m.s.dpc_counter[i] - 1) & 0x7FF
    return result


cdef void dpc_write(VCS* m, uint32_t o, int v) noexcept nogil:
    """Write a data fetcher register, o in $040-$07F."""
    cdef int i = o & 7
    cdef int f = (o >> 3) & 7
    if f == 0:
        m.s.dpc_top[i] = <uint8_t>v
        m.s.dpc_flag[i] = 0x00
    elif f == 1:
        m.s.dpc_bottom[i] = <uint8_t>v
    elif f == 2:
        m.s.dpc_counter[i] = <uint16_t>((m.s.dpc_counter[i] & 0x700)
                                        | (m.s.dpc_top[i] if m.s.dpc_music[i] else v & 0xFF))
    elif f == 3:
        m.s.dpc_counter[i] = <uint16_t>(((v & 7) << 8) | (m.s.dpc_counter[i] & 0xFF))
        if i >= 5:
            m.s.dpc_music[i] = (v >> 4) & 1
    elif f == 6:
        m.s.dpc_rng = 1


# ----------------------------------------------------------------------------------------- MC (section 2)

cdef inline void mc_lock(VCS* m, uint32_t a) noexcept nogil:
    """MC rule 4, for the masked address of any access."""
    if a == 0x1FFC or a == 0x1FFD:
        m.s.lock = 1
    elif 0x1000 <= a <= 0x1BFF:
        m.s.lock = 0


cdef inline int mc_block(VCS* m, uint32_t a) noexcept nogil:
    """The block register that rules the slot of an address."""
    cdef int slot = (a >> 10) & 3
    return 0xFF if slot == 3 and m.s.lock else m.s.slice[slot]


cdef inline int32_t mc_rom_index(VCS* m, int block, uint32_t a) noexcept nogil:
    """Index into the file, negative in the zeros in front of it."""
    return (block & 0x7F) * 1024 + <int32_t>(a & 0x3FF) - (MC_ROM - m.rom_size)


cdef int mc_read(VCS* m, uint32_t a) noexcept nogil:
    cdef int block
    cdef int32_t i
    if a < 0x1000:
        return 0
    mc_lock(m, a)
    block = mc_block(m, a)
    if block & 0x80:
        i = mc_rom_index(m, block, a)
        return m.rom[i] if i >= 0 else 0
    i = (block & 0x3F) * 512 + (a & 0x1FF)
    if not a & 0x200:
        m.cart_ram[i] = 0
    return m.cart_ram[i]


cdef void mc_write(VCS* m, uint32_t a, int v) noexcept nogil:
    cdef int block
    if 0x3C <= a <= 0x3F:
        m.s.slice[a - 0x3C] = <uint8_t>v
        return
    mc_lock(m, a)
    block = mc_block(m, a)
    if not block & 0x80 and not a & 0x200:
        m.cart_ram[(block & 0x3F) * 512 + (a & 0x1FF)] = <uint8_t>v


# --------------------------------------------------------------------------------------------- AR (5)

cdef inline int ar_bios(uint32_t o) noexcept nogil:
    """Byte of the BIOS at offset o of its 2 KiB."""
    if o < AR_BIOS_SIZE:
        return AR_BIOS_CODE[o]
    if o == 0x7FC or o == 0x7FE:           # reset and IRQ vectors: $F80A
        return 0x0A
    if o == 0x7FD or o == 0x7FF:
        return 0xF8
    return 0x02


cdef void ar_configure(VCS* m, int g) noexcept nogil:
    """Take a configuration byte: banks L and H, write enable, BIOS power."""
    cdef int k = (g >> 2) & 7
    m.s.slice[0] = AR_LOW[k]
    m.s.slice[1] = AR_HIGH[k]
    m.s.ar_write = (g >> 1) & 1
    m.s.ar_power = not g & 1


cdef void ar_load(VCS* m, int number) noexcept nogil:
    """Copy the first load with that number to the RAM ("Load format"); nothing happens without one."""
    cdef const uint8_t* load = m.rom
    cdef const uint8_t* header
    cdef int k, j, target
    for k in range(m.rom_size // AR_LOAD):
        header = load + 8192
        if header[5] == number:
            for j in range(header[3] if header[3] < 32 else 32):
                target = header[16 + j]
                if target & 3 != AR_BIOS:
                    memcpy(m.cart_ram + (target & 3) * 2048 + ((target >> 2) & 7) * 256, load + 256 * j, 256)
            m.s.ram[0x7E] = header[0]
            m.s.ram[0x7F] = header[1]
            m.s.ram[0x00] = header[2]
            return
        load += AR_LOAD


cdef inline void ar_access(VCS* m, uint32_t a) noexcept nogil:
    """Rules 3 and 4, for the masked address of any access. Rules 2 and 5 compare counts of accesses; with
    ale-py's default CPU the count stands still, so neither ever applies."""
    if not a & 0x0F00:
        if not (m.s.ar_write and m.s.ar_pending):
            m.s.ar_hold = a & 0xFF
            m.s.ar_pending = 1
    elif a == 0x1FF8:
        m.s.ar_pending = 0
        ar_configure(m, m.s.ar_hold)


cdef int ar_read(VCS* m, uint32_t a) noexcept nogil:
    cdef int bank
    if a == 0x1850 and m.s.slice[1] == AR_BIOS:
        ar_load(m, m.s.ram[0])
    else:
        ar_access(m, a)
    bank = m.s.slice[(a >> 11) & 1]
    return ar_bios(a & 0x7FF) if bank == AR_BIOS else m.cart_ram[bank * 2048 + (a & 0x7FF)]


# ----------------------------------------------------------------------------------------------- accesses

cdef inline bint hot_spot(VCS* m, uint32_t o) noexcept nogil:
    """Switch banks if o is a hot spot of a mapper with 4 KiB banks in consecutive order."""
    cdef int bank = <int>(o - hot_first(m.mapper))
    if o < hot_first(m.mapper) or bank >= bank_count(m.mapper, m.rom_size):
        return False
    select_bank(m, bank)
    return True


cdef inline void e0_hot_spot(VCS* m, uint32_t o) noexcept nogil:
    if 0xFE0 <= o < 0xFF8:
        m.s.slice[(o >> 3) & 3 if o < 0xFF0 else 2] = o & 7
        map_e0(m)


cdef inline void e7_hot_spot(VCS* m, uint32_t o) noexcept nogil:
    if 0xFE0 <= o < 0xFE8:
        m.s.bank = o & 7
        map_e7(m)
    elif 0xFE8 <= o < 0xFEC:
        m.s.slice[0] = o & 3


cdef inline void ua_hot_spot(VCS* m, uint32_t a) noexcept nogil:
    if a == 0x0220:
        select_bank(m, 0)
    elif a == 0x0240:
        select_bank(m, 1)


cdef int cart_read(VCS* m, uint32_t addr) noexcept nogil:
    """Read with side effects: any address with A12 set, and the low pages that the mapper owns.

    A hot spot switches first; the byte then comes from the new bank (section 1, rule 4)."""
    cdef uint32_t a = addr & 0x1FFF
    cdef uint32_t o = addr & 0x0FFF
    cdef uint32_t n
    cdef int mapper = m.mapper
    if mapper == M_F8 or mapper == M_F8SWAP or mapper == M_F6 or mapper == M_F4:
        hot_spot(m, o)
    elif mapper == M_F8SC or mapper == M_F6SC or mapper == M_F4SC or mapper == M_FASC:
        n = port_size(mapper)
        if n <= o < 2 * n:
            return m.cart_ram[o - n]
        hot_spot(m, o)
    elif mapper == M_E0:
        e0_hot_spot(m, o)
    elif mapper == M_DPC:
        if o < 0x080 or o >= 0xFC0:
            dpc_clock(m)
            if o < 0x040:
                return dpc_fetch(m, o)
            hot_spot(m, o)
    elif mapper == M_E7:
        e7_hot_spot(m, o)
        if 0x900 <= o < 0xA00:
            return m.cart_ram[1024 + 256 * m.s.slice[0] + (o & 0xFF)]
    elif mapper == M_MB:
        if o == 0xFF0:
            select_bank(m, (m.s.bank + 1) & 15)
    elif mapper == M_UA:
        if not addr & 0x1000:
            ua_hot_spot(m, a)
            return tia_read(m, a)
    elif mapper == M_MC:
        return mc_read(m, a)
    elif mapper == M_AR:
        return ar_read(m, a)
    return m.seg[((addr >> 11) & 4) | (o >> 10)][o & 0x3FF]


cdef void cart_write(VCS* m, uint32_t addr, int v) noexcept nogil:
    """Write: any address with A12 set, and the low pages that the mapper owns."""
    cdef uint32_t a = addr & 0x1FFF
    cdef uint32_t o = addr & 0x0FFF
    cdef int mapper = m.mapper
    if mapper == M_F8 or mapper == M_F8SWAP or mapper == M_F6 or mapper == M_F4:
        hot_spot(m, o)
    elif mapper == M_F8SC or mapper == M_F6SC or mapper == M_F4SC or mapper == M_FASC:
        if o < port_size(mapper):
            m.cart_ram[o] = <uint8_t>v
        elif mapper != M_F4SC:             # F4SC: writes do not switch (RAM rule 4)
            hot_spot(m, o)
    elif mapper == M_E0:
        e0_hot_spot(m, o)
    elif mapper == M_DPC:
        dpc_clock(m)
        if 0x040 <= o < 0x080:
            dpc_write(m, o, v)
        else:
            hot_spot(m, o)
    elif mapper == M_E7:
        e7_hot_spot(m, o)
        if o < 0x400:
            if m.s.bank == 7:
                m.cart_ram[o] = <uint8_t>v
        elif 0x800 <= o < 0x900:
            m.cart_ram[1024 + 256 * m.s.slice[0] + (o & 0xFF)] = <uint8_t>v
    elif mapper == M_3F:
        if o <= 0x03F:
            m.s.bank = v % (m.rom_size >> 11)
            map_tigervision(m)
        tia_write(m, o & 0x3F, v, m.s.cycles)
    elif mapper == M_3E:
        if m.s.bank < 0 and 0x400 <= o < 0x800:
            m.cart_ram[1024 * (-1 - m.s.bank) + (o & 0x3FF)] = <uint8_t>v
            return
        if o == 0x03F:
            m.s.bank = v % (m.rom_size >> 11)
            map_tigervision(m)
        elif o == 0x03E:
            m.s.bank = -1 - (v & 31)
            map_tigervision(m)
        tia_write(m, o & 0x3F, v, m.s.cycles)
    elif mapper == M_MB:
        if o == 0xFF0:
            select_bank(m, (m.s.bank + 1) & 15)
    elif mapper == M_CV:
        if 0x400 <= o < 0x800:
            m.cart_ram[o & 0x3FF] = <uint8_t>v
    elif mapper == M_UA:
        if not addr & 0x1000:
            ua_hot_spot(m, a)
            tia_write(m, a, v, m.s.cycles)
    elif mapper == M_MC:
        mc_write(m, a, v)
    elif mapper == M_AR:
        ar_access(m, a)


# ----------------------------------------------------------------------------------------------- locations

cdef int32_t cart_loc(VCS* m, uint32_t addr, bint write, bint done) noexcept nogil:
    """Location of the cartridge byte behind an address, -1 if none (a register, the BIOS, zeros).

    `done`: the access has happened already; only DPC's fetchers, which count down at each read, care."""
    cdef uint32_t a = addr & 0x1FFF
    cdef uint32_t o = addr & 0x0FFF
    cdef uint32_t n = port_size(m.mapper)
    cdef int mapper = m.mapper
    cdef int block, bank
    cdef int32_t i
    cdef const uint8_t* p
    if mapper == M_3F and write:
        return LOC_TIA_W + (o & 0x3F)
    if mapper == M_3E and write:
        if m.s.bank < 0 and 0x400 <= o < 0x800:
            return LOC_CART + 1024 * (-1 - m.s.bank) + <int32_t>(o & 0x3FF)
        return LOC_TIA_W + (o & 0x3F)
    if mapper == M_UA and a < 0x1000:
        return LOC_TIA_W + (a & 0x3F) if write else LOC_TIA_R + (a & 0x0F)
    if mapper == M_MC:
        if a < 0x1000 and (not write or a >= 0x3C):
            return -1
        block = mc_block(m, a)
        if block & 0x80:
            i = mc_rom_index(m, block, a)
            return LOC_ROM + i if i >= 0 and not write else -1
        if write and a & 0x200:
            return -1
        return LOC_CART + (block & 0x3F) * 512 + <int32_t>(a & 0x1FF)
    if mapper == M_AR:
        bank = m.s.slice[(a >> 11) & 1]
        return -1 if bank == AR_BIOS or write else LOC_CART + bank * 2048 + <int32_t>(a & 0x7FF)
    if mapper == M_E7:
        if 0x800 <= o < 0xA00 and write == (o < 0x900):
            return LOC_CART + 1024 + 256 * m.s.slice[0] + <int32_t>(o & 0xFF)
        if write and o < 0x400 and m.s.bank == 7:
            return LOC_CART + <int32_t>o
    if mapper == M_CV and write and 0x400 <= o < 0x800:
        return LOC_CART + <int32_t>(o & 0x3FF)
    if mapper == M_DPC and o < 0x040 and not write:
        if (o >> 3) != 1 and (o >> 3) != 2:
            return -1
        if (o >> 3) == 2 and not m.s.dpc_flag[o & 7]:
            return -1                      # the fetcher's flag masks the byte
        i = m.s.dpc_counter[o & 7]
        if done and not m.s.dpc_music[o & 7]:
            i = (i + 1) & 0x7FF
        return LOC_ROM + 8192 + 2047 - i
    if write:
        return LOC_CART + <int32_t>o if o < n else -1
    if n <= o < 2 * n:
        return LOC_CART + <int32_t>(o - n)
    p = m.seg[((addr >> 11) & 4) | (o >> 10)] + (o & 0x3FF)
    if m.rom <= p < m.rom + m.rom_size:
        return LOC_ROM + <int32_t>(p - m.rom)
    if m.cart_ram <= p < m.cart_ram + m.cart_ram_size:
        return LOC_CART + <int32_t>(p - m.cart_ram)
    return -1                              # stub mappers


cdef inline int32_t bus_loc(VCS* m, uint32_t addr, bint write) noexcept nogil:
    """Location id (docs/design.md) of the cell behind a 16-bit address, -1 if none.

    No side effects. Call it AFTER the access: a hot spot has switched then, so a read's location is that
    of the byte it returned. Decoding: cpu.md 6.1, riot.md 2."""
    cdef uint32_t a = addr & 0x1FFF, t = (addr & 0xFFF) - m.fast_lo
    cdef int64_t at
    if (a & 0x1280) == 0x80:
        return LOC_RAM + <int32_t>(a & 0x7F)
    if a & 0x1000 and not write and t < m.fast_n:
        at = (m.seg[((addr >> 10) & 3) | ((addr >> 11) & 4)] + (addr & 0x3FF)) - m.rom
        if 0 <= at < m.rom_size:
            return LOC_ROM + <int32_t>at
    if (a & 0x1000 or (m.low_page and a < 0x40) or (m.ua_pages and (a & 0x1F80) == 0x0200)):
        return cart_loc(m, addr, write, True)
    if not a & 0x80:
        return LOC_TIA_W + <int32_t>(a & 0x3F) if write else LOC_TIA_R + <int32_t>(a & 0x0F)
    if not a & 4:
        return LOC_RIOT + <int32_t>(a & 3)
    if not write:
        return LOC_RIOT + 4 + <int32_t>(a & 1)
    return LOC_RIOT + 6 if a & 0x10 else -1


cdef int cart_peek(VCS* m, uint32_t addr) noexcept nogil:
    """The cartridge byte at an address as it is mapped now, without side effects (0 where there is none)."""
    cdef int32_t loc = cart_loc(m, addr, False, False)
    if loc >= LOC_ROM:
        return m.rom[loc - LOC_ROM]
    if loc >= LOC_CART:
        return m.cart_ram[loc - LOC_CART]
    if m.mapper == M_AR:
        return ar_bios(addr & 0x7FF)
    return 0
