cimport cython
from blklab.block.elevator cimport Elevator
from blklab.block.legacy cimport LegacyPath
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList

cdef class Noop(Elevator):
    cdef readonly RequestList rqs

    cpdef Request latter_request(self, Request rq)
    cpdef Request former_request(self, Request rq)
    cpdef requests_merged(self, Request rq, Request following)
    cpdef add_request(self, Request rq)
    @cython.locals(rq=Request)
    cpdef int dispatch_requests(self, bint force) except -1
