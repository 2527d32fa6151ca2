cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from blklab.core.bits cimport ALL_ONES_32, ALL_ONES_64, bit64, ffs64, ffz64, low_mask64, not64

@cython.final
cdef class Axmap:
    cdef readonly int64_t nr_bits
    cdef int64_t[::1] level_first, level_words
    cdef uint32_t[::1] slots, old_slots
    cdef uint64_t[::1] words
    cdef int nr_levels
    cdef int64_t nr_words, dense_words, slot_mask, nr_used
    cdef bint sparse, allocated

    @cython.locals(i=int64_t)
    cpdef void reset(self) except *
    cdef void _allocate(self) except *
    cpdef int64_t memory_bytes(self) noexcept
    cpdef int is_set(self, int64_t block) noexcept
    @cython.locals(index=int64_t, level=int, place=int64_t, word=uint64_t)
    cpdef void set(self, int64_t block) except *
    @cython.locals(done=int64_t)
    cpdef int64_t set_range(self, int64_t block, int64_t count) except -1
    cpdef int64_t find(self, int64_t block) noexcept
    @cython.locals(start=int64_t, found=int64_t)
    cpdef int64_t next_free(self, int64_t block) noexcept
    @cython.locals(index=int64_t, level=int, word=uint64_t, free=uint64_t)
    cdef int64_t _find_free(self, int64_t start) noexcept
    @cython.locals(slot=int64_t)
    cdef int64_t _slot(self, int64_t block) noexcept
    cdef void _sparse_set(self, int64_t block) except *
    @cython.locals(slots=int64_t, i=int64_t)
    cdef void _grow(self) except *
