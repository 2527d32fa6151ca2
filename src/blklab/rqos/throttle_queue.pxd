cimport cython
from libc.stdint cimport int64_t
from blklab.core.bits cimport NEVER_NS
from blklab.core.clock cimport Event
from blklab.core.host cimport Host
from blklab.block.bio cimport Bio, BioList
from blklab.block.consts cimport DONE, F_BPS_THROTTLED, F_RELEASED, WAIT, YIELD
from blklab.block.daemon cimport Daemon
from blklab.rqos.throttle_group cimport Side, SliceClock, ThrottleGroup

@cython.final
cdef class QNode:
    cdef readonly BioList bios, paid
    cdef public bint listed

cdef class ServiceQueue(Event):
    cdef readonly SliceClock clock
    cdef readonly ThrottleGroup group
    cdef readonly ServiceQueue parent
    cdef readonly ThrottleWorker worker
    cdef readonly str name
    cdef readonly tuple queued, on_self, on_parent
    cdef readonly list nr_queued, nr_paid, pending
    cdef readonly set paid
    cdef readonly bint is_pending, was_empty
    cdef readonly int64_t disptime, due_ns, event_ns
    cdef readonly int cpu

    @cython.locals(nodes=list, node=QNode)
    cpdef Bio peek(self, int write)
    @cython.locals(nodes=list, node=QNode, bio=Bio)
    cpdef Bio pop(self, int write)
    cpdef int push(self, Bio bio, int write, QNode node) except -1
    @cython.locals(node=QNode)
    cpdef int add(self, Bio bio, int write, ServiceQueue source) except -1
    @cython.locals(queued=bint, due=int64_t)
    cpdef bint may_go(self, Bio bio, int write, Side side) except -1
    @cython.locals(queued=bint, due=int64_t, wait=int64_t)
    cpdef int64_t wait_of(self, Bio bio, int write, Side side) except -1
    @cython.locals(pending=list, at=int64_t, before=ServiceQueue)
    cdef int _insert(self) except -1
    cdef int _remove(self) except -1
    @cython.locals(group=ThrottleGroup, side=Side, bio=Bio, write=int, wait=int64_t, its=int64_t)
    cpdef int update_disptime(self) except -1
    @cython.locals(first=ServiceQueue, clock=SliceClock, now=int64_t, expires=int64_t)
    cpdef bint schedule_next(self, bint force) except -1
    cdef int _arm(self) except -1
    @cython.locals(host=Host)
    cpdef int fire(self, int64_t now_ns) except -1
    @cython.locals(queue=ServiceQueue, parent=ServiceQueue, worker=ThrottleWorker)
    cpdef int dispatch(self) except -1
    @cython.locals(clock=SliceClock, taken=bint, count=int)
    cdef bint _dispatch_window(self) except -1
    @cython.locals(child=ServiceQueue, count=int)
    cdef int _select(self) except -1
    @cython.locals(group=ThrottleGroup, side=Side, clock=SliceClock, parent=ServiceQueue, above=ThrottleGroup,
                   over=Side, bio=Bio, count=int)
    cpdef int let_go(self, int write, int most) except -1

cdef class ThrottleWorker(Daemon):
    cdef public ServiceQueue top
    cdef readonly bint requested, in_turn

    cpdef int request(self) except -1
    @cython.locals(top=ServiceQueue, bio=Bio, write=int, result=int)
    cpdef int step(self) except -1
