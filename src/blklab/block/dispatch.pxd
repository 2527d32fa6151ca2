cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.host cimport Host, Work
from blklab.core.steps cimport (STEP_DISPATCH_ONE, STEP_LOCK_CTX, STEP_LOCK_HCTX, STEP_QUEUE_RQ, STEP_RUN_QUEUE,
                                STEP_SCHED_DISPATCH)
from blklab.block.consts cimport (BUDGET_DELAY_NS, DONE, RESOURCE_DELAY_NS, ROUND_NS, RQ_DISPATCH,
                                  STS_DEV_RESOURCE, STS_OK, STS_RESOURCE, YIELD)
from blklab.block.dispatch_phases cimport (AFTER_CTX, AFTER_FLUSH, AFTER_RESIDUAL, AFTER_SCHED, PHASE_CTX, PHASE_LIST,
                                           PHASE_SCHED, PHASE_SINGLE, PHASE_TRY, PREP_NO_BUDGET, PREP_NO_TAG, PREP_OK,
                                           RESULT_AGAIN, RESULT_NOTHING, RESULT_SOME)
from blklab.block.driver cimport Driver
from blklab.block.elevator cimport Elevator
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.legacy cimport LegacyPath
from blklab.block.legacy_run cimport RequestFn
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList
from blklab.block.swqueue cimport SoftwareQueue

@cython.final
cdef class HctxRun:
    cdef readonly bint active, fresh
    cdef readonly HardwareQueue hctx, list_hctx
    cdef readonly RequestList rqs, taken
    cdef int phase, after, attempt, prep, status, nr_budgets, queued, errors, ctx_index
    cdef bint needs_resource, dispatched, saw_dispatch_list, kick
    cdef int64_t until_ns

    cpdef int start(self, HardwareQueue hctx) except -1
    @cython.locals(phase=int)
    cpdef int step(self) except -1
    @cython.locals(hctx=HardwareQueue, queue=RequestQueue, busy=bint)
    cdef int _try(self) except -1
    @cython.locals(queue=RequestQueue)
    cdef bint _one_by_one(self) except -1
    @cython.locals(hctx=HardwareQueue, host=Host, index=int, ctx=SoftwareQueue, rq=Request)
    cdef int _flush_ctxs(self) except -1
    cdef int _begin_ctx(self) except -1
    @cython.locals(hctx=HardwareQueue, queue=RequestQueue, host=Host, token=int, index=int, ctx=SoftwareQueue,
                   rq=Request)
    cdef int _ctx_one(self) except -1
    cdef int _end_ctx(self, int result) except -1
    cdef int _begin_sched(self) except -1
    @cython.locals(hctx=HardwareQueue, queue=RequestQueue, elevator=Elevator, most=int, count=int, several=bint,
                   token=int, rq=Request)
    cdef int _sched(self) except -1
    @cython.locals(rq=Request)
    cdef int _sort_taken(self) except -1
    @cython.locals(group=HardwareQueue, count=int)
    cdef int _next_group(self) except -1
    cdef int _begin_list(self, int nr_budgets, int after) except -1
    @cython.locals(hctx=HardwareQueue, queue=RequestQueue, rq=Request, last=bint, status=int)
    cdef int _list_one(self) except -1
    @cython.locals(hctx=HardwareQueue, queue=RequestQueue, need_budget=bint, token=int)
    cdef int _prepare(self, Request rq) except -1
    cdef bint _mark_tag_wait(self, HardwareQueue hctx, Request rq) except -1
    @cython.locals(hctx=HardwareQueue, queue=RequestQueue, host=Host, left=bint, no_tag=bint, rq=Request)
    cdef int _end_list(self) except -1
    @cython.locals(after=int, hctx=HardwareQueue)
    cdef int _follow(self, bint more) except -1
    @cython.locals(hctx=HardwareQueue)
    cdef int _end(self, int result) except -1

cdef class RunWork(Work):
    cdef readonly HardwareQueue hctx
    cdef readonly HctxRun run

    cpdef int step(self) except -1
