# The C interface of vcs_api.h, for engines that drive many machines without Python (pool.cpp). Left out: everything
# that needs checking of what came from outside (snapshots); that stays with Core.

from cpython.pycapsule cimport PyCapsule_New

cdef extern from "vcs_api.h":
    const uint32_t VCS_API_VERSION
    const char* VCS_API_NAME
    const char* VCS_HANDLE_NAME
    ctypedef struct VcsApi:
        uint32_t version
        void (*power_on)(void*, uint32_t, uint32_t) noexcept nogil
        int32_t (*boot)(void*) noexcept nogil
        void (*configure)(void*, int32_t, int32_t) noexcept nogil
        int32_t (*act)(void*, int32_t, float, int32_t) noexcept nogil
        int32_t (*skip_begin)(void*) noexcept nogil
        int32_t (*skip_end)(void*, int32_t) noexcept nogil
        int32_t (*over)(const void*) noexcept nogil
        int32_t (*truncated)(const void*) noexcept nogil
        int32_t (*lives)(const void*) noexcept nogil
        int32_t (*frame)(const void*) noexcept nogil
        int32_t (*episode_frame)(const void*) noexcept nogil
        int32_t (*rows)(const void*) noexcept nogil
        int32_t (*pal)(const void*) noexcept nogil
        const uint8_t* (*picture)(const void*) noexcept nogil
        const uint8_t* (*previous)(const void*) noexcept nogil
        int32_t (*unfinished)(const void*) noexcept nogil
        int32_t (*failed)(void*) noexcept nogil


cdef void blank_picture(VCS* m, Frame** slot) noexcept nogil:
    cdef Frame* f = frame_new()
    if f == NULL:
        m.oom = 1
        return
    frame_drop(slot[0])
    slot[0] = f


cdef void api_power_on(void* machine, uint32_t system_seed, uint32_t random_seed) noexcept nogil:
    """What Core's constructor does with the settings it was given, from a state of zeros."""
    cdef VCS* m = <VCS*>machine
    memset(&m.s, 0, sizeof(State))
    blank_picture(m, &m.cur)
    blank_picture(m, &m.prev)
    if m.cart_ram_size:
        memset(m.cart_ram, 0, m.cart_ram_size)
    all_dirty(m)
    m.pend = NOTHING
    m.short_frame = 0
    m.after_write = 0
    mt_seed(&m.s.sticky, random_seed)
    cart_power_on(m)
    env_power_on(m, system_seed)


cdef int32_t api_boot(void* machine) noexcept nogil:
    return env_boot(<VCS*>machine)


cdef void api_configure(void* machine, int32_t mode, int32_t difficulty) noexcept nogil:
    (<VCS*>machine).s.mode = mode
    (<VCS*>machine).s.difficulty = difficulty


cdef int32_t api_act(void* machine, int32_t action, float strength, int32_t drawn) noexcept nogil:
    cdef VCS* m = <VCS*>machine
    return env_act(m, action, strength) if drawn else env_act_unseen(m, action, strength)


cdef int32_t api_skip_begin(void* machine) noexcept nogil:
    return skip_begin(<VCS*>machine)


cdef int32_t api_skip_end(void* machine, int32_t whole) noexcept nogil:
    return skip_end(<VCS*>machine, whole)


cdef int32_t api_over(const void* machine) noexcept nogil:
    return env_over(<VCS*>machine)


cdef int32_t api_truncated(const void* machine) noexcept nogil:
    return env_truncated(<VCS*>machine)


cdef int32_t api_lives(const void* machine) noexcept nogil:
    return (<VCS*>machine).s.lives


cdef int32_t api_frame(const void* machine) noexcept nogil:
    return (<VCS*>machine).s.frame


cdef int32_t api_episode_frame(const void* machine) noexcept nogil:
    return (<VCS*>machine).s.episode_frame


cdef int32_t api_rows(const void* machine) noexcept nogil:
    return (<VCS*>machine).h


cdef int32_t api_pal(const void* machine) noexcept nogil:
    return (<VCS*>machine).pal


cdef const uint8_t* api_picture(const void* machine) noexcept nogil:
    return (<VCS*>machine).cur.px


cdef const uint8_t* api_previous(const void* machine) noexcept nogil:
    draw_ghost(<VCS*>machine)
    return (<VCS*>machine).prev.px


cdef int32_t api_unfinished(const void* machine) noexcept nogil:
    return (<VCS*>machine).s.tia.inprogress


cdef int32_t api_failed(void* machine) noexcept nogil:
    cdef int32_t failed = (<VCS*>machine).oom
    (<VCS*>machine).oom = 0
    return failed


cdef VcsApi _API
_API.version = VCS_API_VERSION
_API.power_on = api_power_on
_API.boot = api_boot
_API.configure = api_configure
_API.act = api_act
_API.skip_begin = api_skip_begin
_API.skip_end = api_skip_end
_API.over = api_over
_API.truncated = api_truncated
_API.lives = api_lives
_API.frame = api_frame
_API.episode_frame = api_episode_frame
_API.rows = api_rows
_API.pal = api_pal
_API.picture = api_picture
_API.previous = api_previous
_API.unfinished = api_unfinished
_API.failed = api_failed


def api():
    """PyCapsule with the function table of vcs_api.h."""
    return PyCapsule_New(&_API, VCS_API_NAME, NULL)


def handle(Core core not None):
    """PyCapsule with the machine of a Core, valid while the Core lives."""
    return PyCapsule_New(core.m, VCS_HANDLE_NAME, NULL)


def restore_all(machines, Snapshot snapshot not None):
    """Put one snapshot into each of the machines (an iterable of Core); pictures stay shared until drawn on.

    Raises VcsError as ``restore`` does, at the first machine that the snapshot does not fit."""
    cdef Core machine
    for machine in machines:
        machine.restore(snapshot)
