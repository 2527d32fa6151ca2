cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.clock cimport Event
from blklab.core.host cimport Host, Work
from blklab.core.steps cimport STEP_RUN_QUEUE
from blklab.block.consts cimport TR_P, TR_U, TR_UT
from blklab.block.dispatch cimport HctxRun
from blklab.block.legacy cimport LegacyPath
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter

@cython.final
cdef class QueuePlug:
    cdef readonly LegacyPath path
    cdef readonly RequestQueue queue
    cdef readonly bint plugged
    cdef public int threshold
    cdef readonly int64_t delay_jiffies, due_ns
    cdef readonly UnplugTimer timer
    cdef readonly UnplugWork work

    @cython.locals(queue=RequestQueue, jiffy_ns=int64_t)
    cpdef int plug(self) except -1
    cpdef bint remove(self) noexcept
    cpdef int unplug(self) except -1
    @cython.locals(queue=RequestQueue, count=int)
    cpdef int trace(self, int action) except -1
    @cython.locals(path=LegacyPath)
    cpdef int waited_for(self, Submitter submitter, bint asleep) except -1

cdef class UnplugTimer(Event):
    cdef readonly QueuePlug plug
    cdef readonly int64_t at_ns

    cpdef int start(self, int64_t due_ns) except -1
    @cython.locals(plug=QueuePlug, host=Host)
    cpdef int fire(self, int64_t now_ns) except -1
    @cython.locals(due_ns=int64_t)
    cdef bint _is_due(self, int64_t now_ns) except -1

cdef class UnplugWork(Work):
    cdef readonly QueuePlug plug
    cdef readonly HctxRun run

    @cython.locals(plug=QueuePlug, path=LegacyPath)
    cpdef int step(self) except -1
