cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport OP_DISCARD, PAGE_BYTES

@cython.final
cdef class QueueLimits:
    cdef public int64_t logical_block_bytes, physical_block_bytes
    cdef public int64_t max_hw_sectors, max_sectors, max_segments, max_segment_bytes, chunk_sectors
    cdef public int64_t virt_boundary_mask, io_min_bytes, io_opt_bytes
    cdef public int64_t max_hw_discard_sectors, max_discard_sectors, discard_granularity_bytes
    cdef public int64_t max_discard_segments, max_write_zeroes_sectors, segments

    @cython.locals(most=int64_t, left=int64_t, physical=int64_t, start=int64_t, end=int64_t)
    cpdef int64_t max_io_sectors(self, int64_t sector) noexcept
    @cython.locals(most=int64_t, left=int64_t)
    cpdef int64_t request_max_sectors(self, int64_t sector) noexcept
    @cython.locals(nbytes=int64_t, most=int64_t, max_bytes=int64_t, run=int64_t, position=int64_t,
                   taken=int64_t, segments=int64_t, piece=int64_t)
    cpdef int64_t fit(self, Bio bio) noexcept
