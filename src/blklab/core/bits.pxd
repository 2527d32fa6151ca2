from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(_MSC_VER)
    #include <intrin.h>
    static __inline int blk_fls64(uint64_t x) { unsigned long i; return _BitScanReverse64(&i, x) ? (int)i + 1 : 0; }
    static __inline int blk_ffs64(uint64_t x) { unsigned long i; _BitScanForward64(&i, x); return (int)i; }
    #else
    #define blk_fls64(x) ((x) ? 64 - __builtin_clzll(x) : 0)
    #define blk_ffs64(x) __builtin_ctzll(x)
    #endif
    #define blk_all_ones_64 UINT64_MAX
    #define blk_all_ones_32 UINT64_C(0xFFFFFFFF)
    #define blk_star_64 UINT64_C(0x2545F4914F6CDD1D)
    #define blk_never_ns INT64_MAX
    """
    int blk_fls64(uint64_t x) noexcept nogil
    int blk_ffs64(uint64_t x) noexcept nogil
    const uint64_t ALL_ONES_64 "blk_all_ones_64"
    const uint64_t ALL_ONES_32 "blk_all_ones_32"
    const uint64_t STAR_64 "blk_star_64"
    const int64_t NEVER_NS "blk_never_ns"

cdef inline int fls64(uint64_t x) noexcept nogil:
    return blk_fls64(x)

cdef inline int ffs64(uint64_t x) noexcept nogil:
    return blk_ffs64(x)

cdef inline int ffz64(uint64_t x) noexcept nogil:
    return blk_ffs64(~x)

cdef inline uint64_t bit64(int n) noexcept nogil:
    return <uint64_t>1 << n

cdef inline uint64_t low_mask64(int n) noexcept nogil:
    return ALL_ONES_64 if n >= 64 else (<uint64_t>1 << n) - 1

cdef inline uint64_t not64(uint64_t x) noexcept nogil:
    return ~x
