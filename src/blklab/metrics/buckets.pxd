from libc.stdint cimport int64_t
from blklab.core.bits cimport fls64

cdef enum:
    PLAT_BUCKETS = 1856
    DEPTH_BUCKETS = 7
    LATENCY_BUCKETS = 32
    NS_PER_MS = 1000000

cdef inline int plat_index(int64_t ns) noexcept nogil:
    cdef int shift
    cdef int64_t index
    if ns < 128:
        return <int>ns if ns > 0 else 0
    shift = fls64(ns) - 7
    index = (<int64_t>shift << 6) + (ns >> shift)
    return <int>index if index < PLAT_BUCKETS else PLAT_BUCKETS - 1
