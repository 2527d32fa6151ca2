from libc.stdint cimport int64_t, uint64_t
from blklab.core.bits cimport ALL_ONES_32

cdef inline uint64_t rand32(uint64_t[::1] rng, int first) noexcept nogil:
    cdef uint64_t s1 = rng[first], s2 = rng[first + 1], s3 = rng[first + 2]
    s1 = (((s1 >> 1) << 13) & ALL_ONES_32) ^ ((((s1 << 13) & ALL_ONES_32) ^ s1) >> 19)
    s2 = (((s2 >> 3) << 7) & ALL_ONES_32) ^ ((((s2 << 2) & ALL_ONES_32) ^ s2) >> 25)
    s3 = (((s3 >> 4) << 21) & ALL_ONES_32) ^ ((((s3 << 3) & ALL_ONES_32) ^ s3) >> 11)
    rng[first] = s1
    rng[first + 1] = s2
    rng[first + 2] = s3
    return s1 ^ s2 ^ s3

cdef inline uint64_t rand64(uint64_t[::1] rng, int first) noexcept nogil:
    cdef uint64_t s1 = rng[first], s2 = rng[first + 1], s3 = rng[first + 2], s4 = rng[first + 3], s5 = rng[first + 4]
    s1 = ((s1 >> 1) << 11) ^ (((s1 << 1) ^ s1) >> 53)
    s2 = ((s2 >> 9) << 14) ^ (((s2 << 24) ^ s2) >> 50)
    s3 = ((s3 >> 12) << 41) ^ (((s3 << 3) ^ s3) >> 23)
    s4 = ((s4 >> 17) << 40) ^ (((s4 << 5) ^ s4) >> 24)
    s5 = ((s5 >> 23) << 31) ^ (((s5 << 3) ^ s5) >> 33)
    rng[first] = s1
    rng[first + 1] = s2
    rng[first + 2] = s3
    rng[first + 3] = s4
    rng[first + 4] = s5
    return s1 ^ s2 ^ s3 ^ s4 ^ s5

cdef inline uint64_t rand(uint64_t[::1] rng, int first, bint use64) noexcept nogil:
    return rand64(rng, first) if use64 else rand32(rng, first)

# Products with a power of two are what the division of the .py gives.
cdef inline double fraction(uint64_t[::1] rng, int first, bint use64) noexcept nogil:
    if use64:
        return <double>rand64(rng, first) * (1.0 / 18446744073709551616.0)
    return <double>rand32(rng, first) * (1.0 / 4294967296.0)

cdef inline int percent(uint64_t[::1] rng, int first) noexcept nogil:
    return 1 + <int>(100.0 * (<double>rand32(rng, first) * (1.0 / 4294967296.0)))
