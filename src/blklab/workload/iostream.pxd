cimport cython
from libc.stdint cimport int64_t, uint64_t
from blklab.core.bits cimport ALL_ONES_32, ALL_ONES_64
from blklab.workload.arith cimport next_multiple, truncate
from blklab.workload.axmap cimport Axmap
from blklab.workload.lfsr cimport Lfsr
from blklab.workload.stream_ids cimport (
    BUSY, G_BLOCK, G_BS, G_FILE, G_MIX, G_SEQUENTIAL, NO_FILE, READ, SERVICE_RANDOM, SERVICE_SEQUENTIAL, TRIM, WRITE,
)
from blklab.workload.stream cimport Stream
from blklab.workload.taus cimport fraction, percent, rand

cdef class IoStream(Stream):
    cdef readonly object spec
    cdef list maps, lfsrs, seeds
    cdef uint64_t[::1] rng, rng_start
    cdef bint random, mixed, trimwrite, randtrimwrite, seq_identical, time_based, bs_is_seq_rand, bs_unaligned
    cdef bint lfsr, use64, use64_later, reseed, reset_done_count, io_size_given, busy_ok, ended
    cdef int fixed_ddir, rwmix_read, service, nr_files, open_files, mix_ddir, pending_ddir
    cdef int next_file, service_file, nr_open, nr_done
    cdef int64_t seq_nr, seq_left, seq_add, max_bs, service_nr, service_left, mix_issues, loops_left
    cdef int64_t limit_once_bytes, limit_bytes, pass_limit_bytes, number_ios
    cdef int64_t issue_bytes, pass_bytes, pass_ios, done_ios, done_bytes
    cdef int64_t[::1] min_bs, max_bs_of, ba, percent_random, split_first, split_bytes, split_percent
    cdef int64_t[::1] counts_job, counts_pass, issued
    cdef int64_t[::1] file_offset, io_size, real_size, last_pos, last_start, is_open, is_done, last_block

    @cython.locals(file=int)
    cpdef int advance(self) except -1
    @cython.locals(ddir=int)
    cpdef void ramp_over(self, int64_t ios_in_flight, int64_t bytes_in_flight) noexcept
    cpdef int draw_ddir(self) except -1
    cpdef void turn_ddir(self, int ddir) noexcept
    @cython.final
    @cython.locals(file=int, left=int64_t)
    cdef bint _keep_running(self) except -1
    @cython.final
    cdef void _start_pass(self) noexcept
    @cython.final
    @cython.locals(file=int, i=int)
    cdef void _next_pass(self) except *
    @cython.final
    @cython.locals(file=int)
    cdef int _get_file(self) except? -1
    @cython.final
    @cython.locals(file=int)
    cdef int _turn(self) except? -1
    @cython.final
    @cython.locals(file=int, _=int)
    cdef int _next_in_turn(self) noexcept
    @cython.final
    @cython.locals(ddir=int, found=Axmap, register=Lfsr)
    cdef void _reset_file(self, int file) except *
    @cython.final
    @cython.locals(ddir=int, paired=bint, new_offset=bint, is_random=bint, follows_trim=bint, offset=int64_t,
                   length=int64_t)
    cdef bint _fill(self, int file) except -1
    @cython.final
    @cython.locals(ddir=int, other=int64_t)
    cdef int _mixed_ddir(self) noexcept
    @cython.final
    @cython.locals(place=int, start=int64_t, real_size=int64_t, last=int64_t, end=int64_t, offset=int64_t)
    cdef int64_t _sequential_offset(self, int file, int ddir) noexcept
    @cython.final
    @cython.locals(block=int64_t)
    cdef int64_t _random_offset(self, int file, int ddir) except? -1
    @cython.final
    @cython.locals(blocks=int64_t, block=int64_t, found=Axmap, register=Lfsr)
    cdef int64_t _random_block(self, int file, int ddir) except? -1
    @cython.final
    @cython.locals(low=int64_t, high=int64_t, room=int64_t, first=int64_t, last=int64_t, hundredth=uint64_t,
                   length=int64_t, drawn=uint64_t, share=int64_t, i=int64_t, _=int)
    cdef int64_t _length(self, int file, int ddir, int64_t offset, bint is_random) except? -1
    @cython.final
    @cython.locals(found=Axmap, unit=int64_t, block=int64_t, marked=int64_t)
    cdef int64_t _mark(self, int file, int ddir, int64_t offset, int64_t length) except? -1
