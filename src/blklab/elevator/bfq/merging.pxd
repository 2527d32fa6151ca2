cimport cython
from libc.stdint cimport int64_t
from blklab.elevator.bfq.bfqq cimport BfqQueue, IoContext
from blklab.elevator.bfq.bursts cimport Bursts
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.group cimport BfqGroup
from blklab.elevator.bfq.idling cimport Idling
from blklab.elevator.bfq.injection cimport Injection
from blklab.elevator.bfq.params cimport (ACTIVATION_STABLE_MERGING_MS, CLOSE_THR_SECTORS,
                                         LATE_STABLE_MERGING_MS, MERGE_TIME_LIMIT_MS, SHARED_PID)
from blklab.elevator.bfq.raising cimport Raising

@cython.final
cdef class Cooperators:
    cdef readonly BfqData bfqd
    cdef readonly Raising raising
    cdef readonly Bursts bursts
    cdef readonly Idling idling
    cdef readonly Injection injection
    cdef readonly int64_t merge_limit_ns, late_ns, activation_ns

    @cython.locals(group=BfqGroup)
    cpdef int pos_add_move(self, BfqQueue bfqq) except -1
    cpdef int pos_remove(self, BfqQueue bfqq) except -1
    cpdef bint too_late(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, new_bfqq=BfqQueue, other=BfqQueue)
    cpdef BfqQueue setup(self, BfqQueue bfqq, int64_t sector, IoContext bic)
    @cython.locals(now=int64_t)
    cdef bint _may_merge_stably(self, BfqQueue bfqq) except -1
    @cython.locals(other=BfqQueue, new_bfqq=BfqQueue, refs=int64_t)
    cdef BfqQueue _setup_stable(self, BfqQueue bfqq, IoContext bic)
    @cython.locals(other=BfqQueue)
    cpdef int put_stable(self, IoContext bic) except -1
    cdef bint _may_cooperate(self, BfqQueue bfqq, BfqQueue other) except -1
    @cython.locals(bfqd=BfqData, refs=int64_t)
    cpdef BfqQueue decide(self, BfqQueue bfqq, BfqQueue other)
    cpdef int merge(self, IoContext bic, BfqQueue bfqq, BfqQueue target) except -1
    @cython.locals(bfqd=BfqData, new_bfqq=BfqQueue, waker=BfqQueue)
    cdef BfqQueue _merge_one(self, IoContext bic, BfqQueue bfqq)
    @cython.locals(bic=IoContext)
    cdef int _save(self, BfqQueue bfqq) except -1
    cpdef int attach(self, IoContext bic, BfqQueue bfqq, bint sync) except -1
    @cython.locals(group=BfqGroup)
    cdef int _reassign_last_created(self, BfqQueue bfqq, BfqQueue new_bfqq) except -1
    @cython.locals(bfqd=BfqData)
    cpdef int release(self, BfqQueue bfqq) except -1
    @cython.locals(other=BfqQueue, following=BfqQueue)
    cpdef int put_decided(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, group=BfqGroup, last=BfqQueue)
    cpdef BfqQueue on_new(self, BfqQueue bfqq, IoContext bic)
    @cython.locals(new_bfqq=BfqQueue)
    cdef BfqQueue _merge_new(self, BfqQueue bfqq, IoContext bic, BfqQueue last)
    cpdef bint wants_split(self, BfqQueue bfqq, IoContext bic) noexcept
    @cython.locals(bfqd=BfqData)
    cpdef bint split(self, BfqQueue bfqq, IoContext bic) except -1
    @cython.locals(waker=BfqQueue, following=BfqQueue)
    cpdef BfqQueue waker_after_split(self, BfqQueue bfqq)
    cpdef int resume(self, BfqQueue bfqq, IoContext bic, bint kept) except -1
