cimport cython
from libc.stdint cimport int64_t
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request
from blklab.elevator.bfq.bfqq cimport BfqQueue
from blklab.elevator.bfq.entity cimport Entity
from blklab.elevator.bfq.group cimport BfqGroup
from blklab.elevator.bfq.params cimport (BACK_SEEK_MAX_KB, BACK_SEEK_PENALTY, FIFO_EXPIRE_ASYNC_MS,
                                         FIFO_EXPIRE_SYNC_MS, MSEC_NS, SECT_THR_NONROT, SEEK_THR_SECTORS,
                                         SLICE_IDLE_MS)
from blklab.block.elv_timer cimport IdleSliceTimer
from blklab.elevator.bfq.wf2q cimport Wf2q

cdef class BfqData(Wf2q):
    cdef readonly RequestQueue queue
    cdef readonly IdleSliceTimer timer
    cdef public int64_t fifo_expire_async_ns, fifo_expire_sync_ns, back_seek_max_kb, back_seek_penalty
    cdef public int64_t slice_idle_ns, user_max_budget, timeout_ns
    cdef public bint strict_guarantees, low_latency
    cdef public int64_t queued, rq_in_driver, max_rq_in_driver
    cdef public int hw_tag
    cdef public bint nonrot_with_queueing
    cdef public int64_t last_position, in_serv_last_pos, last_completion_ns
    cdef public BfqQueue last_completed_rq_bfqq
    cdef public int64_t last_budget_start_ns, last_idling_start_ns, last_idling_start_jiffy_ns
    cdef public int64_t last_empty_occupied_ns
    cdef public bint wait_dispatch, rqs_injected
    cdef public Request waited_rq
    cdef readonly dict weights
    cdef readonly list burst_list
    cdef public int64_t burst_size

    @cython.locals(jiffy_ns=int64_t)
    cpdef int64_t jiffies_ns(self, int64_t milliseconds) noexcept
    cpdef void look_for_tracer(self) noexcept
    cpdef log(self, str text)
    cpdef int schedule_dispatch(self) except -1
    cpdef BfqGroup group_of(self, BfqQueue bfqq)
    @cython.locals(bfqq=BfqQueue, woken=BfqQueue)
    cpdef int put_queue(self, Entity queue) except -1
    cpdef int cancel_idle_slice_timer(self) except -1
    @cython.locals(waker=BfqQueue)
    cpdef forget_waker(self, BfqQueue bfqq)
    @cython.locals(bfqq=BfqQueue, waker=BfqQueue)
    cpdef int became_busy(self, Entity queue) except -1
    @cython.locals(bfqq=BfqQueue)
    cpdef int weights_tree_add(self, Entity queue) except -1
    @cython.locals(bfqq=BfqQueue)
    cpdef int weights_tree_remove(self, Entity queue) except -1
    @cython.locals(busy=list)
    cpdef bint is_asymmetric(self, BfqQueue bfqq) except -1
    @cython.locals(distance=int64_t)
    cpdef bint is_seek(self, int64_t last_position, Request rq) noexcept
