"""fio's Tausworthe generators: 32 bits with 3 words of state, 64 bits with 5.

Combined Tausworthe generators by L'Ecuyer: "Maximally equidistributed combined Tausworthe generators" (1996; 32
bits) and "Tables of maximally equidistributed combined LFSR generators" (1999; 64 bits), seeded the way fio 3.33
seeds them, so that the numbers are fio's. Compiled modules take the drawing functions from taus.pxd instead.

Theory of operation
    Generators live in one array of 64-bit words; each owns five and is named by its first. A component keeps the
    bits that its mask leaves, shifts them, and adds what its two taps give; here the mask and the left shift are
    one pair of shifts.
"""

from __future__ import annotations

from array import array

MASK_32 = 0xFFFFFFFF
MASK_64 = 0xFFFFFFFFFFFFFFFF
STATE_WORDS = 5
LEAST = (1, 7, 15, 33, 49)  # a word of state below this would make a component stand still


def seed_rand(rng: array[int], first: int, seed: int, use64: bool) -> None:
    """Seed a generator: each word of state is a product of the one before; then six numbers are dropped."""
    mask, multiplier, words = (MASK_64, 6906969069, 5) if use64 else (MASK_32, 69069, 3)
    word = 53  # in fio (2^31)+(2^17)+(2^7), whose ^ is C's exclusive or
    for i in range(words):
        word = (word * multiplier ^ seed) & mask
        if word < LEAST[i]:
            word += LEAST[i]
        rng[first + i] = word
    for _ in range(6):
        if use64:
            rand64(rng, first)
        else:
            rand32(rng, first)


def rand32(rng: array[int], first: int) -> int:
    """The next number, 32 bits."""
    s1, s2, s3 = rng[first], rng[first + 1], rng[first + 2]
    s1 = (((s1 >> 1) << 13) & MASK_32) ^ ((((s1 << 13) & MASK_32) ^ s1) >> 19)
    s2 = (((s2 >> 3) << 7) & MASK_32) ^ ((((s2 << 2) & MASK_32) ^ s2) >> 25)
    s3 = (((s3 >> 4) << 21) & MASK_32) ^ ((((s3 << 3) & MASK_32) ^ s3) >> 11)
    rng[first], rng[first + 1], rng[first + 2] = s1, s2, s3
    return s1 ^ s2 ^ s3


def rand64(rng: array[int], first: int) -> int:
    """The next number, 64 bits."""
    s1, s2, s3, s4, s5 = rng[first : first + 5]
    s1 = (((s1 >> 1) << 11) & MASK_64) ^ ((((s1 << 1) & MASK_64) ^ s1) >> 53)
    s2 = (((s2 >> 9) << 14) & MASK_64) ^ ((((s2 << 24) & MASK_64) ^ s2) >> 50)
    s3 = (((s3 >> 12) << 41) & MASK_64) ^ ((((s3 << 3) & MASK_64) ^ s3) >> 23)
    s4 = (((s4 >> 17) << 40) & MASK_64) ^ ((((s4 << 5) & MASK_64) ^ s4) >> 24)
    s5 = (((s5 >> 23) << 31) & MASK_64) ^ ((((s5 << 3) & MASK_64) ^ s5) >> 33)
    for i, word in enumerate((s1, s2, s3, s4, s5)):
        rng[first + i] = word
    return s1 ^ s2 ^ s3 ^ s4 ^ s5


def rand(rng: array[int], first: int, use64: bool) -> int:
    """The next number of a generator that has 64 bits if `use64`, else 32."""
    return rand64(rng, first) if use64 else rand32(rng, first)


def fraction(rng: array[int], first: int, use64: bool) -> float:
    """The same, divided by its range: 0 <= x <= 1 (64 bits may round up to 1)."""
    return rand(rng, first, use64) / (18446744073709551616.0 if use64 else 4294967296.0)


def percent(rng: array[int], first: int) -> int:
    """1 to 100 from a generator of 32 bits."""
    return 1 + int(100.0 * (rand32(rng, first) / 4294967296.0))
