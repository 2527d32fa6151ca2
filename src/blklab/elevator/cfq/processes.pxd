cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.cgroup cimport Blkg
from blklab.block.consts cimport F_META
from blklab.block.request cimport Request
from blklab.block.submit cimport Submitter
from blklab.elevator.cfq.cfqq cimport CfqContext, CfqGroup, CfqQueue
from blklab.elevator.cfq.cooperators cimport Cooperators
from blklab.elevator.cfq.data cimport CfqData
from blklab.elevator.cfq.params cimport CLASS_BE, CLASS_IDLE, CLASS_RT, CLASS_SHIFT, NORMAL_LEVEL, NR_LEVELS
from blklab.elevator.cfq.seeks cimport Seeks
from blklab.elevator.cfq.turns cimport Turns

@cython.final
cdef class Processes:
    cdef readonly CfqData cfqd
    cdef readonly Seeks seeks
    cdef readonly Cooperators cooperators
    cdef readonly Turns turns
    cdef readonly dict contexts

    @cython.locals(cic=CfqContext)
    cpdef CfqContext find(self, Submitter submitter)
    @cython.locals(cic=CfqContext)
    cdef CfqContext _get(self, Submitter submitter)
    cpdef CfqGroup group_of(self, Bio bio)
    cpdef CfqGroup group_of_blkg(self, Blkg blkg)
    @cython.locals(cic=CfqContext, sync=bint, cfqq=CfqQueue, old=CfqQueue)
    cpdef CfqQueue queue_for(self, Request rq, Bio bio)
    cdef CfqQueue _split(self, CfqContext cic, CfqQueue cfqq)
    @cython.locals(cfqd=CfqData, group=CfqGroup, at=int, cfqq=CfqQueue)
    cdef CfqQueue _get_queue(self, CfqContext cic, bint sync, Bio bio)
    @cython.locals(ioprio_class=int)
    cdef int _class_of(self, CfqContext cic) noexcept
    @cython.locals(ioprio_class=int)
    cdef int _level_of(self, CfqContext cic) noexcept
    cpdef int init_prio(self, CfqQueue cfqq, CfqContext cic) except -1
    cpdef int boost(self, CfqQueue cfqq, int flags) except -1
    @cython.locals(cfqq=CfqQueue)
    cdef int _ioprio_changed(self, CfqContext cic, Request rq, Bio bio) except -1
    @cython.locals(group=CfqGroup, first=bint, cfqq=CfqQueue, sync=bint)
    cdef int _group_changed(self, CfqContext cic, Bio bio) except -1
    @cython.locals(cfqd=CfqData)
    cpdef int put_queue(self, CfqQueue cfqq) except -1
    @cython.locals(target=CfqQueue, following=CfqQueue)
    cdef int _put_cooperators(self, CfqQueue cfqq) except -1
    @cython.locals(cic=CfqContext, cfqq=CfqQueue, sync=bint)
    cpdef int exit(self, Submitter submitter) except -1
