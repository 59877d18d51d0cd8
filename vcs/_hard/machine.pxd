from vcs._hard.state cimport VCS, TraceBuf


cdef class Core:
    cdef VCS* m
    cdef TraceBuf* spare       # buffers of the last recording
    cdef bytes rom_padded
    cdef Py_ssize_t rom_len
    cdef readonly str rom_sha256
    cdef object program
    cdef object relaxed_rom
    cdef bint busy             # a thread runs it without the GIL
    cdef _check(self)
    cdef VCS* _mine(self) except NULL
