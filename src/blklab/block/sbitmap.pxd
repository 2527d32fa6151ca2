cimport cython
from libc.stdint cimport int64_t, uint64_t
from blklab.core.bits cimport bit64, ffz64, low_mask64, not64
from blklab.core.clock cimport Event
from blklab.block.consts cimport MAX_WAKE_BATCH, NR_WAIT_QUEUES

cdef class Waiter(Event):
    cdef public Waiter next_waiter, prev_waiter
    cdef public WaitQueue wait_queue
    cdef public bint exclusive

    cpdef int wake(self) except -1

@cython.final
cdef class WaitQueue:
    cdef readonly Waiter head, tail
    cdef readonly Py_ssize_t count

    @cython.locals(tail=Waiter)
    cpdef void append(self, Waiter waiter) noexcept
    @cython.locals(head=Waiter)
    cpdef void push(self, Waiter waiter) noexcept
    @cython.locals(before=Waiter, following=Waiter)
    cpdef void remove(self, Waiter waiter) noexcept

@cython.final
cdef class SbitmapQueue:
    cdef readonly int nr_cpus, shift, depth, nr_words, used, waiting, wake_batch, min_shallow_depth
    cdef uint64_t[::1] words
    cdef int64_t[::1] hints
    cdef readonly list queues
    cdef int wake_index
    cdef readonly int64_t completion_count, wakeup_count

    @cython.locals(hint=int64_t, depth=int64_t, index=int64_t, room=int64_t, word=uint64_t, bit=int,
                   number=int64_t, _=int)
    cpdef int get(self, int cpu) noexcept
    @cython.locals(hint=int64_t, depth=int64_t, index=int64_t, room=int64_t, start=int64_t, word=uint64_t,
                   ahead=uint64_t, bit=int, number=int64_t, _=int)
    cpdef int get_shallow(self, int cpu, int shallow_depth) noexcept
    cpdef bint test(self, int number) noexcept
    @cython.locals(bit=uint64_t, index=int64_t)
    cpdef int clear(self, int number, int cpu) except -1
    @cython.locals(queue=WaitQueue)
    cpdef int wait(self, Waiter waiter, int index) except -1
    cpdef void stop_waiting(self, Waiter waiter) noexcept
    @cython.locals(index=int, queue=WaitQueue, _=int)
    cpdef int wake_up(self, int freed) except -1
    @cython.locals(woken=int, last=Waiter, waiter=Waiter, following=Waiter)
    cdef int _wake_queue(self, WaitQueue queue, int nr_exclusive) except -1
    @cython.locals(index=int, queue=WaitQueue, _=int)
    cpdef int wake_all(self) except -1
