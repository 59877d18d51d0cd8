from vcs._hard.state cimport VCS


cdef class Core:
    cdef VCS* m
    cdef bytes rom_padded
    cdef Py_ssize_t rom_len
    cdef readonly str rom_sha256
    cdef object program
    cdef _check(self)
