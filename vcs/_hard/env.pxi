# The environment around the machine: power-on, boot, inputs, one agent step, and the game program that turns RAM
# into reward, lives and game over. Models environment.md sections 1, 3 to 6 and games.md sections 2 to 4.
# Left out: names and files (vcs/roms.py, vcs/games.py), pictures in colour (vcs/env/ale.py).
# Everything is nogil C: any number of machines may boot and step on any threads.

cdef extern from *:
    """
    /* What each action 0..17 does: 1 up, 2 down, 4 left, 8 right, 16 fire (environment.md 5.1). */
    static const unsigned char vcs_action_bits[18] = {
        0, 16, 1, 8, 4, 2, 9, 5, 10, 6, 17, 24, 20, 18, 25, 21, 26, 22};
    """
    const uint8_t[18] vcs_action_bits

cdef enum:
    ACT_RESET = 40
    ACT_SELECT = 46
    PADDLE_STEP = 23000
    NO_PADDLE = 0x7FFFFFFF
    KEY_RESET = 1              # bits of SWCHB while the key is down
    KEY_SELECT = 2
    FORMAT_AUTO = 0            # m.format
    FORMAT_NTSC = 1
    FORMAT_PAL = 2
    FORMAT_SECAM = 3
    FAULT_MODE = 1             # m.fault: a mode rule did not reach its mode
    FAULT_PROGRAM = 2          # the program is damaged, or ran too long
    # the flat program of vcs/games.py
    PROG_MAGIC = 0x47505231
    PROG_HEADER = 16
    P_INIT = 2
    P_RESET = 3
    P_STEP = 4
    P_MODE = 5
    P_START = 6
    P_LEGAL = 7
    P_MAX_FRAMES = 8
    P_LIVES = 9
    P_DEFAULT_MODE = 10
    PROG_STACK = 64
    PROG_BUDGET = 20000        # instructions between two frames; the longest real program needs some 3000
    RULE_FRAMES = 60000        # frames that a mode rule may take; the longest real one needs some 3000

# Numbers of the operations: their order is OPS in vcs/games.py.
cdef enum:
    OP_END, OP_CONST, OP_LOAD, OP_STORE, OP_MODE, OP_RAM, OP_RAMK, OP_BUS, OP_BCD, OP_BCDK, OP_S8, OP_ADD, OP_SUB
    OP_MUL, OP_DIV, OP_MOD, OP_BAND, OP_BOR, OP_SHL, OP_SHR, OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_LAND
    OP_LOR, OP_LNOT, OP_PICK, OP_MIN, OP_MAX, OP_RAND, OP_JUMP, OP_JZ, OP_JGT, OP_INC, OP_OUT, OP_SELECT, OP_ACT
    OP_SOFT, OP_FRAMES, OP_ROUND


# ------------------------------------------------------------------------------------------------- inputs

cdef inline int action_bits(int action) noexcept nogil:
    return vcs_action_bits[action] if 0 <= action < 18 else 0


cdef void env_rest_inputs(VCS* m) noexcept nogil:
    """Nothing pressed, and paddles that have not been set yet: resistance 0 (environment.md 1.3)."""
    cdef int port, jack
    m.s.swcha = 0xFF
    m.s.inpt45[0] = m.s.inpt45[1] = 0x80
    m.s.swchb |= KEY_RESET | KEY_SELECT
    for port in range(2):
        jack = port ^ (1 if m.swap_ports else 0)
        m.s.resist[2 * port] = m.s.resist[2 * port + 1] = 0 if (m.paddles >> jack) & 1 else NO_PADDLE


cdef void env_set_inputs(VCS* m, int action_a, int action_b, double strength, int keys) noexcept nogil:
    """Hold the controllers and console keys for the next frame (environment.md 5.3 to 5.5). Paddles move here.

    action_a, action_b: 0..17 of each player; anything else is no movement. strength: of player A's paddle.
    keys: KEY_RESET and KEY_SELECT.
    """
    cdef int bits[2]
    cdef int n, port, first
    cdef int64_t step, at
    cdef double scaled
    cdef uint8_t pins = 0xFF
    bits[0] = action_bits(action_a)
    bits[1] = action_bits(action_b)
    env_rest_inputs(m)
    if m.ale:                                  # D5: the setting overrides the switches' property
        m.s.swchb = (m.s.swchb & 0x3F) | ((m.s.difficulty & 1) << 6) | ((m.s.difficulty & 2) << 6)
    m.s.swchb &= <uint8_t>(~keys & 0xFF)
    if m.paddles:
        for n in range(2):
            scaled = PADDLE_STEP * (strength if n == 0 else 1.0)
            scaled = -scaled if scaled < 0.0 else scaled
            # a strength that no int32 holds moves to the stop; NaN does not move
            step = <int64_t>scaled if scaled < 2147483647.0 else (2147483647 if scaled == scaled else 0)
            at = m.s.paddle[n]
            if bits[n] & 8:
                at -= step
            if bits[n] & 4:
                at += step
            at = m.paddle_max if at > m.paddle_max else at
            at = m.paddle_min if at < m.paddle_min else at
            m.s.paddle[n] = <int32_t>at
        if m.paddles & 1:                      # the left jack; nobody holds a pair in the right one
            port = 1 if m.swap_ports else 0
            for n in range(2):
                first = n ^ (1 if m.swap_paddles else 0)
                m.s.resist[2 * port + first] = m.s.paddle[n]
                if bits[n] & 16:               # pin 4 (first of the pair) or pin 3 of that port
                    pins &= <uint8_t>(~(0x80 >> (4 * port + first)) & 0xFF)
    else:
        for n in range(2):
            port = n ^ (1 if m.swap_ports else 0)
            pins &= <uint8_t>(~((bits[n] & 15) << (0 if port else 4)) & 0xFF)
            if bits[n] & 16:
                m.s.inpt45[port] = 0
    m.s.swcha = pins


cdef void env_centre(VCS* m) noexcept nogil:
    m.s.paddle[0] = m.s.paddle[1] = <int32_t>((<int64_t>m.paddle_min + m.paddle_max) >> 1)


cdef void env_frame(VCS* m, int action_a, int action_b, double strength) noexcept nogil:
    """One frame with the game's program after it. Actions 40 and 46 press RESET and SELECT."""
    cdef int keys = 0
    if action_a == ACT_RESET:
        keys = KEY_RESET
    elif action_a == ACT_SELECT:
        keys = KEY_SELECT
    env_set_inputs(m, action_a, action_b, strength, keys)
    if m.edits == NULL:
        run_frame(m)
    else:
        run_edited(m)
    prog_run(m, P_STEP)


cdef inline void env_read_ram(VCS* m) noexcept nogil:
    """What ale-py does after every act, reset and press of a key: it copies the RAM over the bus, so the latch
    keeps the last cell. Code that the next frame begins in TIA space sees it (measured, tests/fuzz/twin.py)."""
    if m.ale:
        m.s.latch = m.s.ram[127]


cdef void env_soft_reset(VCS* m) noexcept nogil:
    """Four frames with RESET held; what was held by sticky actions is let go."""
    cdef int i
    for i in range(4):
        env_frame(m, ACT_RESET, 0, 1.0)
    env_read_ram(m)
    m.s.held_a = m.s.held_b = 0
    m.s.held_strength = 1.0


cdef void env_select(VCS* m, int frames) noexcept nogil:
    """One SELECT press of a mode rule (environment.md 4.1)."""
    cdef int i
    for i in range(frames):
        env_set_inputs(m, 0, 0, 1.0, KEY_SELECT)
        run_frame(m)
    env_read_ram(m)
    env_frame(m, 0, 0, 1.0)
    env_read_ram(m)
    env_count(m)


cdef inline void env_count(VCS* m) noexcept nogil:
    m.s.frame = <int32_t>(<uint32_t>m.s.frame + 1)
    m.s.episode_frame = <int32_t>(<uint32_t>m.s.episode_frame + 1)


# ----------------------------------------------------------------------------------------- power-on and boot

cdef void cart_lcg_fill(VCS* m) noexcept nogil:
    """xitari's cartridge RAM at construction (environment.md 4.3)."""
    cdef uint32_t v = m.cart_seed
    cdef int i
    for i in range(m.cart_ram_random):
        v = (2416 * v + 374441) % 1771875
        m.cart_ram[i] = <uint8_t>(v & 0xFF)


cdef int env_probe(VCS* m) noexcept nogil:
    """True if the cartridge draws PAL frames (environment.md 1.3): 60 frames at rest, long ones counted."""
    cdef int i, count = 0
    system_reset(m)
    for i in range(60):
        run_frame(m)
        if i >= 30 and (<int64_t>3 * m.s.cycles - m.s.tia.F) // 228 > 285:
            count += 1
    return count >= 15


cdef void env_power_on(VCS* m, uint32_t system_seed) noexcept nogil:
    """Switch the console on (environment.md 1.2), up to and including the reset before the boot.

    Expects a zeroed State, the constants of VCS set, and m.h the height property. Leaves m.pal, m.maxline and m.h
    as the format wants them.
    """
    cdef int i
    cdef int pal
    m.fault = 0
    m.s.frame = m.s.episode_frame = 0
    m.s.mode = m.prog[P_DEFAULT_MODE] if m.prog != NULL else 0
    m.s.difficulty = 0
    m.s.held_a = m.s.held_b = 0
    m.s.held_strength = 1.0
    m.s.swchb = m.swchb0
    env_rest_inputs(m)
    if m.ale:
        mt_seed(&m.s.sys, system_seed)
        for i in range(128):
            m.s.ram[i] = <uint8_t>(mt_next(&m.s.sys) & 0xFF)
        mt_next(&m.s.sys)                      # the RIOT's own reset; the next one overwrites its value
    else:
        for i in range(128):
            m.s.ram[i] = 0
        cart_lcg_fill(m)
    m.pal = 0
    m.maxline = 290
    pal = env_probe(m) if m.format == FORMAT_AUTO else m.format == FORMAT_PAL
    if m.h == 210 and (pal or m.format == FORMAT_SECAM):
        m.h = 250
    if pal:
        m.pal = 1
        m.maxline = 342
    system_reset(m)
    prog_run(m, P_INIT)
    m.fresh_lives = m.prog[P_LIVES] if m.prog != NULL else 0


cdef int env_boot(VCS* m) noexcept nogil:
    """Start an episode (environment.md 3.2, 4.1). Returns 0, or a FAULT_* if the mode could not be reached."""
    cdef int i
    m.fault = 0
    m.s.episode_frame = 0
    env_centre(m)
    system_reset(m)
    for i in range(60):
        env_frame(m, 0, 0, 1.0)
    env_read_ram(m)
    env_soft_reset(m)
    prog_run(m, P_RESET)
    if m.ale:
        prog_run(m, P_MODE)
        env_soft_reset(m)
    prog_run(m, P_START)
    return m.fault


# -------------------------------------------------------------------------------------------- one agent step

cdef inline int env_truncated(VCS* m) noexcept nogil:
    """True if a limit of the settings, not the game, has ended the episode (environment.md 6.4; ale only)."""
    if not m.ale:
        return 0
    return ((m.max_frames > 0 and m.s.episode_frame >= m.max_frames)
            or (m.trunc_on_life and m.s.lives < m.fresh_lives))


cdef inline int env_over(VCS* m) noexcept nogil:
    """True if the game has ended; xitari counts its frame limits as an end (environment.md 6.1)."""
    if m.s.over:
        return 1
    if m.ale:
        return 0
    return ((m.max_frames > 0 and m.s.episode_frame >= m.max_frames)
            or (m.prog != NULL and m.prog[P_MAX_FRAMES] > 0 and m.s.episode_frame >= m.prog[P_MAX_FRAMES]))


cdef inline void env_played_frame(VCS* m, int action_a, int action_b, double strength) noexcept nogil:
    """A frame of an episode: what the game declares illegal, and RESET, become NOOP (environment.md 5.2)."""
    if 0 <= action_a < 18 and m.prog != NULL and not (m.prog[P_LEGAL] >> action_a) & 1:
        action_a = 0
    if action_a == ACT_RESET:
        action_a = 0
    env_frame(m, action_a, action_b, strength)
    env_read_ram(m)
    env_count(m)


cdef int env_act_frames(VCS* m, int action, float strength, int n, int hidden) noexcept nogil:
    """The frames of one agent step and the sum of their rewards; the first `hidden` may stay undrawn."""
    cdef int i
    cdef uint32_t total = 0
    for i in range(n):
        m.draw = i >= hidden
        m.ghosting = i < hidden < n and i == n - 2
        if m.ale:
            if mt_next(&m.s.sticky) / 4294967296.0 >= m.sticky_p:
                m.s.held_a = action
                m.s.held_strength = strength
            if mt_next(&m.s.sticky) / 4294967296.0 >= m.sticky_p:
                m.s.held_b = 0
            if not (env_over(m) or env_truncated(m)):
                env_played_frame(m, m.s.held_a, m.s.held_b, m.s.held_strength)
                total += <uint32_t>m.s.reward
        elif not env_over(m):
            env_played_frame(m, action, 0, 1.0)
            total += <uint32_t>m.s.reward
    m.draw = 1
    m.ghosting = 0
    return <int32_t>total


cdef int env_play(VCS* m, int action, float strength, int n) noexcept nogil:
    """n frames with one action, and the sum of their rewards, which no setting clamps.

    Of a long step only the last two pictures can be seen, and the one before the last seldom is: the others are not
    drawn, unless something shows that they matter; then the step is taken again with all of them (machine.pyx,
    skip_begin)."""
    cdef int32_t reward, before
    cdef int hidden = n - 1
    if not m.ale and env_over(m):
        return m.s.reward                      # D8: the last reward again
    if m.ghost_wait > 0:
        m.ghost_wait -= 1
        hidden -= 1
    if hidden > 0 and skip_begin(m):
        before = m.s.episode_frame
        reward = env_act_frames(m, action, strength, n, hidden)
        if not skip_end(m, m.s.episode_frame - before == n):
            reward = env_act_frames(m, action, strength, n, 0)
    else:
        reward = env_act_frames(m, action, strength, n, 0)
    return reward


cdef inline int env_frames(VCS* m) noexcept nogil:
    """Frames of one agent step."""
    return m.frame_skip if m.frame_skip > 1 else 1


cdef inline int env_clamped(VCS* m, int32_t reward) noexcept nogil:
    if not m.ale:
        return reward
    if reward > m.reward_max:
        reward = m.reward_max
    return m.reward_min if reward < m.reward_min else reward


cdef int env_act(VCS* m, int action, float strength) noexcept nogil:
    """One agent step (environment.md 6.1, 6.2): frame_skip frames, and the sum of their rewards."""
    return env_clamped(m, env_play(m, action, strength, env_frames(m)))


cdef int env_act_unseen(VCS* m, int action, float strength) noexcept nogil:
    """env_act without pictures, for who called skip_begin and is to call skip_end."""
    cdef int n = env_frames(m)
    if not m.ale and env_over(m):
        return m.s.reward
    return env_clamped(m, env_act_frames(m, action, strength, n, n))


# ---------------------------------------------------------------------------------------- the game's program

cdef int prog_valid(const int32_t* p, int32_t n) noexcept nogil:
    """True if this can be a program: its header is there and says so. Its code is checked as it runs."""
    return n >= PROG_HEADER and p[0] == PROG_MAGIC and p[1] == n


cdef int32_t bcd_byte(uint32_t b) noexcept nogil:
    return <int32_t>(10 * (b >> 4) + (b & 15))


cdef void prog_run(VCS* m, int entry) noexcept nogil:
    """Run the program from one of its entry points (P_INIT .. P_START). Without a program nothing happens.

    A damaged program (behind a valid header) can do no harm: variables and RAM are indexed within bounds, the stack pointer wraps, jumps
    outside the array and too many instructions end it with FAULT_PROGRAM. Arithmetic wraps at 32 bits.

    A read of RAM or of the bus goes to the data-bus latch: the references read for their rules over the bus, and
    a program whose next frame begins with an opcode fetch from TIA space sees it (measured, tests/fuzz/twin.py).
    """
    cdef const int32_t* p = m.prog
    cdef int32_t n = m.prog_len
    cdef int32_t st[PROG_STACK]
    cdef uint32_t sp = 0                       # values on the stack; the top is st[(sp - 1) & 63]
    cdef int32_t pc, op, a, b, k, i
    cdef uint32_t v, weight
    cdef int32_t budget = PROG_BUDGET
    cdef int32_t frames = 0
    if p == NULL or m.fault == FAULT_PROGRAM:
        return
    pc = p[entry]
    while True:
        budget -= 1
        # no instruction has more than four words, but BCDK, which checks its list; the array ends in three END
        if budget < 0 or pc < PROG_HEADER or pc > n - 4:
            m.fault = FAULT_PROGRAM
            return
        op = p[pc]
        if op == OP_END:
            return
        elif op == OP_CONST:
            st[sp & 63] = p[pc + 1]
            sp += 1
            pc += 2
        elif op == OP_LOAD:
            st[sp & 63] = m.s.var[<uint32_t>p[pc + 1] % MAXVARS]
            sp += 1
            pc += 2
        elif op == OP_STORE:
            sp -= 1
            m.s.var[<uint32_t>p[pc + 1] % MAXVARS] = st[sp & 63]
            pc += 2
        elif op == OP_RAMK:
            m.s.latch = m.s.ram[p[pc + 1] & 127]
            st[sp & 63] = m.s.latch
            sp += 1
            pc += 2
        elif op == OP_RAM:
            m.s.latch = m.s.ram[st[(sp - 1) & 63] & 127]
            st[(sp - 1) & 63] = m.s.latch
            pc += 1
        elif op == OP_BCDK:
            k = p[pc + 1]
            if k < 0 or k > PROG_STACK or pc + 2 + k >= n:
                m.fault = FAULT_PROGRAM
                return
            v = 0
            weight = 1
            for i in range(k):
                m.s.latch = m.s.ram[p[pc + 2 + i] & 127]
                v += weight * <uint32_t>bcd_byte(m.s.latch)
                weight *= 100
            st[sp & 63] = <int32_t>v
            sp += 1
            pc += 2 + k
        elif op == OP_BCD:
            k = p[pc + 1]
            if k < 0 or k > PROG_STACK:
                m.fault = FAULT_PROGRAM
                return
            v = 0
            weight = 1
            for i in range(k):
                v += weight * <uint32_t>bcd_byte(<uint32_t>st[(sp - k + i) & 63])
                weight *= 100
            sp = sp - k + 1
            st[(sp - 1) & 63] = <int32_t>v
            pc += 2
        elif op == OP_LAND or op == OP_LOR:
            k = p[pc + 1]
            if k < 0 or k > PROG_STACK:
                m.fault = FAULT_PROGRAM
                return
            a = 1 if op == OP_LAND else 0
            for i in range(k):
                b = 1 if st[(sp - k + i) & 63] != 0 else 0
                a = a & b if op == OP_LAND else a | b
            sp = sp - k + 1
            st[(sp - 1) & 63] = a
            pc += 2
        elif op == OP_MODE:
            st[sp & 63] = m.s.mode
            sp += 1
            pc += 1
        elif op == OP_RAND:
            st[sp & 63] = <int32_t>mt_next(&m.s.sticky)
            sp += 1
            pc += 1
        elif op == OP_BUS:
            st[(sp - 1) & 63] = bus_peek(m, st[(sp - 1) & 63] & 0xFFFF)
            m.s.latch = <uint8_t>st[(sp - 1) & 63]
            pc += 1
        elif op == OP_S8:
            a = st[(sp - 1) & 63]
            st[(sp - 1) & 63] = a if a < 128 else a - 256
            pc += 1
        elif op == OP_LNOT:
            st[(sp - 1) & 63] = 1 if st[(sp - 1) & 63] == 0 else 0
            pc += 1
        elif op == OP_PICK:
            sp -= 2
            if st[(sp - 1) & 63] != 0:
                st[(sp - 1) & 63] = st[sp & 63]
            else:
                st[(sp - 1) & 63] = st[(sp + 1) & 63]
            pc += 1
        elif OP_ADD <= op <= OP_GE or op == OP_MIN or op == OP_MAX:
            sp -= 1
            a = st[(sp - 1) & 63]
            b = st[sp & 63]
            if op == OP_ADD:
                a = <int32_t>(<uint32_t>a + <uint32_t>b)
            elif op == OP_SUB:
                a = <int32_t>(<uint32_t>a - <uint32_t>b)
            elif op == OP_MUL:
                a = <int32_t>(<uint32_t>a * <uint32_t>b)
            elif op == OP_DIV:                 # unsigned: rand() may use all 32 bits
                a = <int32_t>(<uint32_t>a // <uint32_t>b) if b != 0 else 0
            elif op == OP_MOD:
                a = <int32_t>(<uint32_t>a % <uint32_t>b) if b != 0 else 0
            elif op == OP_BAND:
                a &= b
            elif op == OP_BOR:
                a |= b
            elif op == OP_SHL:
                a = <int32_t>(<uint32_t>a << (b & 31))
            elif op == OP_SHR:
                a = <int32_t>(<uint32_t>a >> (b & 31))
            elif op == OP_EQ:
                a = 1 if a == b else 0
            elif op == OP_NE:
                a = 1 if a != b else 0
            elif op == OP_LT:
                a = 1 if a < b else 0
            elif op == OP_LE:
                a = 1 if a <= b else 0
            elif op == OP_GT:
                a = 1 if a > b else 0
            elif op == OP_GE:
                a = 1 if a >= b else 0
            elif op == OP_MIN:
                a = a if a < b else b
            else:
                a = a if a > b else b
            st[(sp - 1) & 63] = a
            pc += 1
        elif op == OP_JUMP:
            pc = p[pc + 1]
        elif op == OP_JZ:
            sp -= 1
            pc = pc + 2 if st[sp & 63] != 0 else p[pc + 1]
        elif op == OP_JGT:
            if m.s.var[<uint32_t>p[pc + 1] % MAXVARS] > m.s.var[<uint32_t>p[pc + 2] % MAXVARS]:
                pc = p[pc + 3]
            else:
                pc += 4
        elif op == OP_INC:
            k = <int32_t>(<uint32_t>p[pc + 1] % MAXVARS)
            m.s.var[k] = <int32_t>(<uint32_t>m.s.var[k] + 1)
            pc += 2
        elif op == OP_OUT:
            sp -= 1
            if p[pc + 1] == 0:
                m.s.reward = st[sp & 63]
            elif p[pc + 1] == 1:
                m.s.over = st[sp & 63]
            else:
                m.s.lives = st[sp & 63]
            pc += 2
        elif entry != P_MODE and entry != P_START:
            m.fault = FAULT_PROGRAM            # only these two may run frames; so programs nest at most once
            return
        elif op == OP_SELECT:
            sp -= 1
            k = st[sp & 63]
            k = 0 if k < 0 else (1000 if k > 1000 else k)
            env_select(m, k)
            frames += k + 1
            budget = PROG_BUDGET
            pc += 1
        elif op == OP_ACT:
            sp -= 1
            k = st[sp & 63]
            k = 0 if k < 0 else (1000 if k > 1000 else k)
            for i in range(k):
                env_act(m, p[pc + 1], 1.0)
            frames += k * (m.frame_skip if 1 < m.frame_skip < RULE_FRAMES else 1)
            budget = PROG_BUDGET
            pc += 2
        elif op == OP_SOFT:
            env_soft_reset(m)
            frames += 4
            pc += 1
        elif op == OP_FRAMES:
            sp -= 1
            k = st[sp & 63]
            k = 0 if k < 0 else (1000 if k > 1000 else k)
            for i in range(k):
                env_frame(m, p[pc + 1], 0, 1.0)
            env_read_ram(m)
            frames += k
            pc += 2
        elif op == OP_ROUND:
            # one more round of an `until` that may have a limit of its own
            k = <int32_t>(<uint32_t>p[pc + 1] % MAXVARS)
            if p[pc + 2] >= 0 and m.s.var[k] >= p[pc + 2]:
                m.fault = FAULT_MODE
                return
            m.s.var[k] = <int32_t>(<uint32_t>m.s.var[k] + 1)
            frames += 1
            pc += 3
        else:
            m.fault = FAULT_PROGRAM
            return
        if frames > RULE_FRAMES:
            m.fault = FAULT_MODE
            return
        if m.fault == FAULT_PROGRAM:
            return
