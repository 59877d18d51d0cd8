# cython: language_level=3
"""The structs of the hard machine: one flat State, and VCS around it. One fact in one place: every
chip's registers are here, with the section of the specification that defines them."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int8_t, int16_t, int32_t, int64_t

cdef enum:
    W = 160                    # pixels of a line
    ROWS = 300                 # rows of a picture buffer (tia.md 3)
    MAXVARS = 40               # variables of a game program (games.md)
    # locations (vcs/layout.py holds the same numbers; tests/test_layout.py compares)
    LOC_RAM = 0
    LOC_CPU = 128
    LOC_TIA_W = 192
    LOC_TIA_X = 256
    LOC_TIA_R = 320
    LOC_RIOT = 336
    LOC_INPUT = 352
    LOC_CART = 1024
    LOC_ROM = 65536

cdef struct MT:                # MT19937
    uint32_t mt[624]
    int32_t idx

cdef struct Frame:             # a picture, shared between machines and snapshots until written
    uint8_t px[160 * 300 + 128]    # first, and the whole aligned: rows are drawn 32 bytes at a time
    int64_t refs

cdef struct Tia:
    uint8_t vsync, vblank, ctrlpf
    uint8_t nusiz[2]
    uint8_t colu[4]            # P0 P1 PF BK
    uint8_t grp_new[2]
    uint8_t grp_old[2]
    uint8_t enabl_new, enabl_old
    uint8_t enam[2]
    uint8_t refp[2]
    uint8_t vdelp[2]
    uint8_t vdelbl
    uint8_t resmp[2]
    uint8_t hm[5]              # P0 P1 M0 M1 BL, upper nibble
    uint8_t pos[5]             # P0 P1 M0 M1 BL
    uint8_t reflect            # sampled CTRLPF D0
    uint8_t skip[2]            # first copy suppressed
    uint8_t m0mode             # 0 normal, 1 stretched, 2 hidden
    uint8_t comb               # pending HMOVE blank
    uint8_t ark, arkcnt
    uint8_t dump
    uint8_t inprogress, greyed
    uint8_t regs[64]           # last byte written to each register, for readers of the state
    uint16_t collisions
    uint32_t pf                # 20 bits: PF0>>4, PF1<<4, PF2<<12
    int32_t hk, dc, vf
    int32_t lastlines, lines
    int32_t F, D0, D1, L, E, ptr

cdef struct State:
    # --- CPU
    uint8_t a, x, y, sp, p     # p packed, bits 4 and 5 set
    uint8_t jam                # fatal opcode executed (cpu.md 3.2)
    uint8_t latch              # last byte on the bus (cpu.md 6.3)
    uint8_t stop               # a device asked to end the batch
    uint16_t pc
    uint32_t cycles
    # --- RIOT
    uint8_t ram[128]
    uint8_t tim_n, tim_shift, tim_read, swacnt
    int32_t tim_t, tim_r
    # --- TIA
    Tia tia
    # --- cartridge (cart.pxi says which mapper uses which field)
    int32_t bank
    uint8_t slice[4]
    uint8_t lock
    uint8_t dpc_top[8]
    uint8_t dpc_bottom[8]
    uint8_t dpc_flag[8]
    uint16_t dpc_counter[8]
    uint8_t dpc_music[8]
    uint8_t dpc_rng
    int32_t dpc_cycles
    double dpc_frac
    uint8_t ar_hold, ar_pending, ar_write, ar_power
    # --- console inputs, held during a frame
    uint8_t swcha, swchb       # bytes as the CPU reads them (SWCHB: latched D7 D6 D3)
    uint8_t inpt45[2]          # 0x80 = released
    int32_t resist[4]          # INPT0-3 resistance; 0x7FFFFFFF = nothing there
    int32_t paddle[2]          # positions kept by the environment
    # --- environment (env.pxi)
    int32_t frame, episode_frame
    int32_t mode, difficulty
    int32_t held_a, held_b     # sticky actions
    float held_strength
    int32_t var[40]            # variables of the game program
    int32_t reward, lives, over
    int64_t cycles_total       # CPU cycles before the last rebase, since power-on
    MT sys                     # ale's system stream (riot.md 5)
    MT sticky                  # ale's environment stream (environment.md 6.3)

# --- rows of a trace (docs/design.md); vcs/trace.py has the same dtypes
cdef packed struct Instr:
    int32_t cycles, frame, loc0, loc1, loc2, ea_loc, ptr0, ptr1
    uint16_t pc, ea
    uint8_t opcode, b1, b2, a, x, y, sp, p, rd, wr, flags, bank

cdef packed struct TiaRow:
    int32_t instr, clock
    uint8_t reg, value
    int8_t delta[5]
    uint8_t pad

cdef packed struct Segment:
    int32_t instr, tia, frame
    int16_t row
    uint8_t x0, x1
    uint32_t pf
    uint8_t colu[4]
    uint8_t pos[5]
    uint8_t grp[2]
    uint8_t nusiz[2]
    uint8_t ctrlpf
    uint8_t refp[2]
    uint8_t en[3]
    uint8_t vdel[3]
    uint8_t vblank, reflect
    uint8_t skip[2]
    uint8_t m0mode, comb

cdef packed struct FrameRow:
    int32_t first_instr, end_instr, first_tia, first_segment, action, cycles, start_clock
    int32_t paddle[4]
    uint8_t swcha, swchb
    uint8_t inpt[2]

cdef struct TraceBuf:
    Instr* instr
    TiaRow* tia
    Segment* seg
    FrameRow* frame
    uint8_t* screens           # a picture and its winners per frame, if kept
    int64_t n_instr, n_tia, n_seg, n_frame
    int64_t cap_instr, cap_tia, cap_seg, cap_frame, cap_screens
    int32_t pictures           # 1: keep screens and winners
    int32_t failed             # 1: out of memory, the trace is not whole
    int32_t action
    uint8_t winner[160 * 300 + 128]

cdef struct VCS:
    State s
    Frame* cur                 # the picture being drawn, or just drawn
    Frame* prev
    uint8_t* cart_ram
    int32_t cart_ram_size      # bytes allocated and saved
    int32_t cart_ram_random    # bytes filled at power-on (cartridges.md 3)
    # --- constant after construction
    const uint8_t* rom
    int32_t rom_size
    int32_t mapper
    int32_t y0, h, maxline, pal, hmove_blanks
    int32_t ale                # 1: protocol "ale", 0: "xitari"
    int32_t paddles            # bit 0: a pair in the left jack, bit 1: in the right one
    int32_t swap_ports, swap_paddles
    int32_t format             # Display.Format: 0 probe it, 1 NTSC, 2 PAL, 3 SECAM (env.pxi)
    int32_t paddle_min, paddle_max
    uint8_t swchb0             # power-on SWCHB
    uint32_t cart_seed
    # --- derived: bus
    const uint8_t* seg[8]      # 1 KiB segments of the cartridge window; 4-7 for addresses with A13 set
    const uint8_t* win_base    # what code_window found (machine.pyx); win_span is 0 after leave_window
    uint32_t win_lo, win_span
    uint64_t win_end           # run_plain: where in memory the code of its window ends, 0 after leave_window
    uint32_t win_bias          # and what makes an address of a place in memory
    uint32_t loop_cycles       # what skip_timer_loop found
    const void* ops[256]       # where run_plain has the code of each opcode; filled by its first run
    uint32_t fast_lo, fast_n   # offsets lo <= o < lo+n can be read through seg without side effects
    int32_t low_page           # mapper owns $0000-$003F (3F, 3E, MC)
    int32_t ua_pages           # mapper owns $0200-$027F (UA)
    # --- derived: object masks, bit x of word x//64 = pixel x
    uint64_t mask[6][4]        # P0 P1 M0 M1 BL PF; the fourth word stays 0
    uint64_t layer[3][4]       # pixels that have the colour of P0, of P1, of PF
    uint64_t overlap[4]        # pixels where two objects are
    uint32_t layered           # 1: layers and overlap are up to date
    uint32_t meet              # 1: overlap has a pixel
    int32_t first_layer        # 0, 2 if the first two layers are empty, 3 if all are
    uint32_t dirty             # bit per object
    uint32_t enabled           # bit per object (tia.md 7.4)
    uint64_t extent[5][4]      # where an object could show whatever its graphics (undrawn frames, tia.pxi)
    uint32_t moved             # bit per object: its extent, or the playfield, is not what far and near were found for
    uint32_t far, near         # pairs of objects whose extents are known to be apart, and to overlap
    int32_t pend               # postponed render target (tia.pxi)
    int32_t calm_to            # undrawn frames: up to here nothing can collide, though tia.L is behind (tia.pxi)
    int32_t blind              # 1: render_to counts the pixels only
    int32_t exact              # 1: cut a run at every store, draw the spill (tia.pxi)
    uint32_t quick_end         # cycle up to which low_write may do stores itself (cut_all)
    int32_t line0              # cycle at which the frame began, 0 or less
    int32_t short_frame        # the last frame ended before its last visible line
    int32_t cut                # clocks after the frame start at which a store ends the frame
    int32_t event              # an access asked to stop, or changed the mapping (leave_window)
    int32_t after_write        # the access before this store was a store (cpu.md 6.4)
    # --- switches
    int32_t opt                # bit 0 merged stores, bit 1 INTIM loops, bit 2 unseen pictures undrawn, bit 3 AVX2
    int32_t oom                # an allocation failed; Core raises MemoryError
    int32_t draw               # 0: collisions only, nobody will see the picture
    # --- edits inside the frame to come (oracle.pxi); NULL: none
    void* edits
    uint8_t* edits_rom
    int32_t edits_n, edits_frame
    # --- game program (env.pxi), flat int32 code
    const int32_t* prog
    int32_t prog_len
    int32_t fault              # 0, or why the program ended the last boot (FAULT_* of env.pxi)
    # --- environment settings
    double sticky_p
    int32_t frame_skip, max_frames, reward_min, reward_max, trunc_on_life, fresh_lives
    # --- frames that must run twice (run_frame)
    State bak
    uint8_t* bak_ram
    # --- steps whose first pictures nobody can see (skip_begin)
    State skip_state
    uint8_t* skip_ram
    Frame* skip_cur
    int32_t skipping, skip_bad, skip_wait
    # --- the picture before the last one, left out by such a step and drawn when somebody asks (draw_ghost)
    State ghost_state[2]       # up to sys: at the start of its frame; the other place is the step's under way
    uint8_t* ghost_ram         # cartridge RAM, two places
    int32_t ghost              # 1: m.prev is such a picture, not drawn yet
    int32_t ghost_at           # its place
    int32_t ghosting           # 1: the frame that runs is to become one
    int32_t ghost_kept         # 1: the step under way has kept one
    int32_t ghost_wait         # steps that draw both of their last pictures, since somebody looked at them
    int32_t relaxed            # 1: run_frame uses the relaxed specialisation
    # --- tracing
    TraceBuf* tr
    # --- relaxation hook (relax.pxi)
    double relax_gate
    double relax_w[5]          # weights of the bytes k places away
    const uint8_t* relax_rom   # every byte of the ROM as a relaxed read sees it
    const uint8_t* rx_base     # exact bytes of addresses rx_lo .. rx_lo + rx_span - 1
    const uint8_t* rx_table    # and as relaxed reads see them
    uint32_t rx_lo, rx_span
    int32_t relax_mode
    uint32_t relax_bus         # exact byte of the last access
    int64_t relax_wrong[3]     # wrong casts: ROM, RAM, branches
    int64_t relax_reads[4]     # casts: ROM, RAM, exact reads, branches
    int32_t relax_first[6]     # the first wrong cast: seen, kind, address, exact, relaxed, frame
