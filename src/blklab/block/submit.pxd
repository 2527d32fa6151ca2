cimport cython
from blklab.core.charging cimport charge
from libc.stdint cimport int64_t
from blklab.core.steps cimport STEP_PLUG_ADD, STEP_SPLIT, STEP_SPLIT_COPY, STEP_SUBMIT_BIO
from blklab.block.bio cimport Bio, BioList
from blklab.block.cgroup cimport Cgroup, QueueGroups
from blklab.block.consts cimport (DONE, F_FUA, F_NOMERGE, F_NOWAIT, F_PREFLUSH, F_RELEASED, F_TRACED, RQ_PLUGGED,
                                  RQF_ELV,
                                  STS_AGAIN, STS_DEV_RESOURCE, STS_OK, STS_RESOURCE, TR_P, TR_Q, TR_U, TR_UT,
                                  TR_X, WAIT, YIELD)
from blklab.block.dispatch cimport HctxRun
from blklab.block.features cimport Features
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.legacy cimport LegacyPath
from blklab.block.legacy_requests cimport IoContext
from blklab.block.merge cimport Merger
from blklab.block.plug cimport Plug
from blklab.block.qos cimport Throttle
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList
from blklab.block.sbitmap cimport Waiter
from blklab.block.submit_stages cimport (STAGE_ENTER, STAGE_ISSUE, STAGE_LEGACY, STAGE_MERGE, STAGE_PLUG,
                                         STAGE_PLUG_FLUSHED, STAGE_QOS, STAGE_REQUEST, STAGE_SPLIT, STAGE_TAG,
                                         STAGE_TAG_AGAIN, STAGE_TAG_WOKEN)
from blklab.block.swqueue cimport SoftwareQueue
from blklab.block.tags cimport Tags

cdef class Submitter(Waiter):
    cdef public int cpu, segments, wait_index
    cdef public int64_t pid
    cdef readonly Plug plug
    cdef readonly HctxRun run
    cdef readonly Bio bio
    cdef readonly Request rq
    cdef Tags tags
    cdef int depth
    cdef bint in_use
    cdef readonly int stage
    cdef public int qos_next
    cdef public Cgroup cgroup
    cdef public IoContext ioc
    cdef RequestQueue level
    cdef readonly BioList fresh, bios, later
    cdef BioList lower, same
    cdef RequestList batch

    cpdef int bio_done(self, Bio bio) except -1
    cpdef int submit(self, Bio bio) except -1
    cpdef void begin(self, Bio bio) noexcept
    cpdef int submit_noacct(self, Bio bio) except -1
    @cython.locals(queue=RequestQueue)
    cdef bint _enter(self, Bio bio) except -1
    @cython.locals(bio=Bio, lower=BioList, same=BioList)
    cdef int _take(self) except -1
    @cython.locals(result=int)
    cpdef int advance(self) except -1
    @cython.locals(queue=RequestQueue, stage=int, rq=Request, result=int)
    cdef int _stages(self, Bio bio) except -1
    cdef int _send_down(self, RequestQueue queue, Bio bio) except -1
    @cython.locals(plug=Plug)
    cdef int _sleep(self) except -1
    @cython.locals(queue=RequestQueue, fits=int64_t, part=Bio)
    cpdef Bio split_to_limits(self, Bio bio)
    @cython.locals(queue=RequestQueue, plug=Plug)
    cdef bint _merge(self, Bio bio) except -1
    @cython.locals(queue=RequestQueue, plug=Plug, wanted=int, hctx=HardwareQueue)
    cdef bint _tag(self, Bio bio, int stage) except -1
    @cython.locals(rq=Request, plug=Plug, queue=RequestQueue, features=Features, last=Request, most=int,
                   limited=int)
    cdef int _add_to_plug(self, int stage) except -1
    @cython.locals(before=Request)
    cdef int _keep_one(self, Request rq) except -1
    @cython.locals(plug=Plug)
    cpdef void flush_plug(self) noexcept
    @cython.locals(result=int)
    cpdef int finish_plug(self) except -1
    @cython.locals(plug=Plug)
    cdef int _flush_step(self) except -1
    @cython.locals(plug=Plug, features=Features, queue=RequestQueue, rq=Request, status=int)
    cdef int _issue_plugged(self) except -1
    @cython.locals(plug=Plug, last=Request, queue=RequestQueue, hctx=HardwareQueue, ctx=SoftwareQueue,
                   batch=RequestList, rq=Request, following=Request, action=int, status=int)
    cdef int _unplug_group(self) except -1
    @cython.locals(plug=Plug, rq=Request)
    cdef int _free_cached(self) except -1
    @cython.locals(queue=RequestQueue, hctx=HardwareQueue)
    cdef int _insert_and_run(self, Request rq, bint from_worker) except -1
    @cython.locals(queue=RequestQueue, hctx=HardwareQueue, status=int)
    cdef int _issue_or_insert(self, Request rq) except -1
