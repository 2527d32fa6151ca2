cimport cython
from libc.stdint cimport int64_t
from blklab.block.daemon cimport Daemon
from blklab.block.sbitmap cimport Waiter, WaitQueue
from blklab.stack.stripe_head cimport StripeHead, StripeList

cdef class StripeCache:
    cdef Daemon daemon
    cdef readonly int max_stripes, bypass_threshold
    cdef readonly dict stripes
    cdef readonly StripeList inactive, handle_list, hold_list, delayed_list
    cdef readonly int active_stripes, preread_active_stripes, pending_full_writes, bypass_count
    cdef readonly bint blocked
    cdef StripeHead last_hold
    cdef readonly WaitQueue stripe_waiters, overlap_waiters

    @cython.locals(stripe=StripeHead)
    cdef StripeHead get_active(self, int64_t sector)
    cdef bint _enough_free(self) noexcept
    cdef int release(self, StripeHead stripe) except -1
    cdef int wake_overlap(self) except -1
    @cython.locals(waiter=Waiter)
    cdef int _wake(self, WaitQueue queue) except -1
    cdef int preread_begins(self, StripeHead stripe) noexcept
    cdef int preread_done(self) except -1
    cdef int full_write_begins(self) noexcept
    cdef int full_write_done(self) except -1
    @cython.locals(stripe=StripeHead)
    cdef int activate_delayed(self) except -1
    @cython.locals(stripe=StripeHead)
    cdef StripeHead next_stripe(self)
    cdef int _less_bypassed(self) noexcept
