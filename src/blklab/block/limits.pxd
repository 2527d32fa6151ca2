cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport MOST_BIO_SECTORS, OP_DISCARD, OP_WRITE, OP_WRITE_ZEROES, PAGE_BYTES
from blklab.block.memory cimport MemoryLayout

@cython.final
cdef class QueueLimits:
    cdef public int64_t logical_block_bytes, physical_block_bytes, io_min_bytes, io_opt_bytes, alignment_offset_bytes
    cdef public int64_t max_hw_sectors, max_dev_sectors, max_sectors, chunk_sectors
    cdef public int64_t max_segments, max_segment_bytes, seg_boundary_mask, virt_boundary_mask
    cdef public int64_t max_hw_discard_sectors, max_discard_sectors, max_discard_segments
    cdef public int64_t discard_granularity_bytes, discard_alignment_bytes
    cdef public int64_t max_write_zeroes_sectors, segments
    cdef public bint misaligned, discard_misaligned, raid_partial_stripes_expensive
    cdef public MemoryLayout memory

    @cython.locals(most=int64_t, left=int64_t, physical=int64_t, start=int64_t, end=int64_t)
    cpdef int64_t max_io_sectors(self, int64_t sector) noexcept
    @cython.locals(most=int64_t, left=int64_t)
    cpdef int64_t request_max_sectors(self, int op, int64_t sector) noexcept
    @cython.locals(nr_sectors=int64_t, nbytes=int64_t, in_page=int64_t, max_bytes=int64_t, taken=int64_t)
    cpdef int64_t fit(self, Bio bio) noexcept
    @cython.locals(in_page=int64_t, pages=int64_t)
    cpdef bint takes_whole(self, Bio bio) noexcept
    @cython.locals(granularity=int64_t, most=int64_t, over=int64_t)
    cdef int64_t _fit_discard(self, int64_t sector, int64_t nr_sectors) noexcept
    @cython.locals(run=int64_t, memory=MemoryLayout, boundary=int64_t, gaps=int64_t, position=int64_t, address=int64_t,
                   taken=int64_t, segments=int64_t, side_by_side=int64_t, left=int64_t, size=int64_t,
                   offset=int64_t, end=int64_t)
    cdef int64_t _walk(self, Bio bio, int64_t nbytes, int64_t max_bytes) noexcept
