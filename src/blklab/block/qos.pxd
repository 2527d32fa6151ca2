from blklab.block.bio cimport Bio
from blklab.block.consts cimport DONE
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request
from blklab.block.submit cimport Submitter

cdef class Qos:
    cdef readonly RequestQueue queue
    cdef public Qos following

    cpdef int throttle(self, Bio bio, Submitter submitter) except -1
    cpdef track(self, Request rq, Bio bio)
    cpdef merge(self, Request rq, Bio bio)
    cpdef issue(self, Request rq)
    cpdef requeue(self, Request rq)
    cpdef done(self, Request rq)
