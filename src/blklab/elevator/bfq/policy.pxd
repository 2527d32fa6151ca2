cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport MERGE_FRONT, OP_READ
from blklab.block.elevator cimport Elevator
from blklab.block.elv_merge cimport ElvMerge
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList
from blklab.block.submit cimport Submitter
from blklab.core.charging cimport charge
from blklab.core.host cimport Host, Lock
from blklab.core.steps cimport STEP_BFQ, STEP_LOCK_SCHED
from blklab.elevator.bfq.bfqq cimport BfqQueue, IoContext
from blklab.elevator.bfq.budget cimport Budgets
from blklab.elevator.bfq.bursts cimport Bursts
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.depths cimport Depths
from blklab.elevator.bfq.entity cimport Entity
from blklab.elevator.bfq.group cimport BfqGroup
from blklab.elevator.bfq.idling cimport Idling
from blklab.elevator.bfq.injection cimport Injection
from blklab.elevator.bfq.merging cimport Cooperators
from blklab.elevator.bfq.moving cimport Moves
from blklab.elevator.bfq.order cimport Order
from blklab.elevator.bfq.params cimport (BUDGET_EXHAUSTED, BUDGET_TIMEOUT, IN_DRIVER, NO_MORE_REQUESTS,
                                         PREEMPTED, TOO_IDLE, WR_DEFAULT_WEIGHT)
from blklab.elevator.bfq.processes cimport Processes
from blklab.elevator.bfq.raising cimport Raising
from blklab.block.elv_timer cimport IdleSliceTimer
from blklab.elevator.bfq.turns cimport Turns

cdef class IdlingEnds(IdleSliceTimer):
    cdef readonly Bfq policy

cdef class Bfq(Elevator):
    cdef readonly IdlingEnds timer
    cdef readonly BfqData bfqd
    cdef readonly Budgets budgets
    cdef readonly Raising raising
    cdef readonly Bursts bursts
    cdef readonly Idling idling
    cdef readonly Injection injection
    cdef readonly Cooperators cooperators
    cdef readonly Processes processes
    cdef readonly Turns turns
    cdef readonly Depths depths
    cdef readonly Order order
    cdef readonly Host host
    cdef readonly Lock lock
    cdef readonly RequestList dispatch
    cdef IoContext bio_bic
    cdef BfqQueue bio_bfqq
    cdef readonly Moves moves
    cdef readonly object group_policy
    cdef bint group_stats

    cpdef depth_updated(self, HardwareQueue hctx)
    @cython.locals(bfqd=BfqData)
    cpdef exit(self)
    @cython.locals(bic=IoContext, bfqq=BfqQueue)
    cpdef exit_icq(self, Submitter submitter)
    cpdef int end_raising(self) except -1
    cdef int _lock(self) except -1
    cdef int _unlock(self) except -1
    @cython.locals(bfqd=BfqData, sync=bint, limit=int64_t, depth=int, bic=IoContext, bfqq=BfqQueue)
    cpdef int limit_depth(self, Bio bio) except -1
    @cython.locals(queue=RequestQueue, elv_merge=ElvMerge, merged=bint, emptied=Request)
    cpdef bint bio_merge(self, Bio bio, int segments, Submitter submitter) except -1
    @cython.locals(bfqq=BfqQueue, target=BfqQueue)
    cpdef bint allow_merge(self, Request rq, Bio bio) except -1
    @cython.locals(bfqq=BfqQueue)
    cpdef Request request_merge(self, Bio bio)
    @cython.locals(bfqq=BfqQueue)
    cpdef Request latter_request(self, Request rq)
    @cython.locals(bfqq=BfqQueue)
    cpdef Request former_request(self, Request rq)
    @cython.locals(bfqq=BfqQueue, before=Request, previous=Request)
    cpdef request_merged(self, Request rq, int kind)
    @cython.locals(bfqq=BfqQueue)
    cpdef requests_merged(self, Request rq, Request following)
    cpdef prepare_request(self, Request rq)
    cpdef insert_requests(self, HardwareQueue hctx, RequestList rqs, bint at_head)
    @cython.locals(queue=RequestQueue, bfqq=BfqQueue, emptied=list, one=Request)
    cdef int _insert(self, Request rq, bint at_head) except -1
    @cython.locals(group=BfqGroup)
    cdef int _count(self, Request rq) except -1
    @cython.locals(bfqd=BfqData, bic=IoContext, target=BfqQueue, sync=bint)
    cdef int _insert_into_queue(self, Request rq, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, short=bint)
    cdef int _update_short_ttime(self, BfqQueue bfqq, IoContext bic) except -1
    @cython.locals(bfqd=BfqData, old_wr_coeff=int64_t, sync=bint, interactive=bint, previous=Request, changed=bint)
    cdef int _add_request(self, Request rq, BfqQueue bfqq, IoContext bic) except -1
    @cython.locals(bfqd=BfqData, raising=Raising, long_idle=bint, in_time=bint, in_burst=bint, soft_rt=bint,
                   interactive=bint, deserves=bint, wants_to_preempt=bint, served=BfqQueue)
    cdef bint _become_busy(self, BfqQueue bfqq, IoContext bic, int64_t old_wr_coeff) except -1
    @cython.locals(mine=Entity, other=Entity)
    cdef bint _outranks(self, BfqQueue bfqq, BfqQueue served) except -1
    @cython.locals(timed_out=bint, queued=int64_t)
    cdef int _wait_is_over(self, Request rq, BfqQueue bfqq, bint sync) except -1
    @cython.locals(bfqd=BfqData, bfqq=BfqQueue)
    cdef int _remove_request(self, Request rq) except -1
    cpdef bint has_work(self, HardwareQueue hctx) except -1
    @cython.locals(bfqd=BfqData, rq=Request, bfqq=BfqQueue)
    cpdef Request dispatch_request(self, HardwareQueue hctx)
    @cython.locals(bfqd=BfqData, rq=Request)
    cdef Request _dispatch_from(self, BfqQueue bfqq)
    @cython.locals(bfqd=BfqData, bfqq=BfqQueue)
    cpdef int idle_slice_timer(self) except -1
    @cython.locals(bfqd=BfqData, bfqq=BfqQueue, bic=IoContext)
    cpdef finish_request(self, Request rq)
    cpdef requeue_request(self, Request rq)
    @cython.locals(bfqd=BfqData, now_ns=int64_t)
    cdef int _completed(self, BfqQueue bfqq) except -1
