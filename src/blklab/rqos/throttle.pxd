cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge, give_lock, take_lock
from blklab.core.host cimport Host, Lock
from blklab.core.steps cimport STEP_LOCK, STEP_THROTTLE_QOS
from blklab.block.bio cimport Bio
from blklab.block.cgroup cimport Blkg
from blklab.block.consts cimport F_BPS_THROTTLED, F_CGROUP_ACCT
from blklab.block.qos cimport Throttle
from blklab.block.submit cimport Submitter
from blklab.rqos.throttle_group cimport Side, SliceClock, ThrottleGroup
from blklab.rqos.throttle_queue cimport ServiceQueue, ThrottleWorker

cdef class BlkThrottle(Throttle):
    cdef readonly SliceClock clock
    cdef readonly ThrottleWorker worker
    cdef readonly ServiceQueue top
    cdef readonly Lock lock
    cdef readonly int split_iops, recharge, stats
    cdef readonly int64_t held

    @cython.locals(queue=ServiceQueue, group=ThrottleGroup, side=Side, write=int, charged=int, host=Host, kept=bint)
    cpdef bint hold(self, Bio bio, Submitter submitter) except -1
    @cython.locals(at=ThrottleGroup, side=Side)
    cdef bint _count_split(self, ThrottleGroup group, int write) except -1
    @cython.locals(clock=SliceClock, queue=ServiceQueue, source=ServiceQueue, group=ThrottleGroup, side=Side)
    cdef bint _decide(self, Bio bio, ServiceQueue own, int write) except -1
    @cython.locals(queue=ServiceQueue, group=ThrottleGroup)
    cpdef before_change(self, Blkg blkg)
    @cython.locals(queue=ServiceQueue, group=ThrottleGroup, other=ServiceQueue, below=Blkg)
    cpdef changed(self, Blkg blkg)
