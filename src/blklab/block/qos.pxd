cimport cython
from blklab.block.bio cimport Bio
from blklab.block.consts cimport DONE, WAIT
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request
from blklab.block.submit cimport Submitter

cdef class Qos:
    cdef readonly RequestQueue queue

    cpdef int throttle(self, Bio bio, Submitter submitter) except -1
    cpdef track(self, Request rq, Bio bio)
    cpdef merge(self, Request rq, Bio bio)
    cpdef issue(self, Request rq)
    cpdef requeue(self, Request rq)
    cpdef done(self, Request rq)

cdef class Throttle:
    cdef readonly RequestQueue queue

    cpdef bint hold(self, Bio bio, Submitter submitter) except -1

@cython.final
cdef class QosChain:
    cdef readonly list policies

    @cython.locals(start=int, i=int, policy=Qos)
    cpdef int throttle(self, Bio bio, Submitter submitter) except -1
    @cython.locals(policy=Qos)
    cpdef track(self, Request rq, Bio bio)
    @cython.locals(policy=Qos)
    cpdef merge(self, Request rq, Bio bio)
    @cython.locals(policy=Qos)
    cpdef issue(self, Request rq)
    @cython.locals(policy=Qos)
    cpdef requeue(self, Request rq)
    @cython.locals(policy=Qos)
    cpdef done(self, Request rq)
