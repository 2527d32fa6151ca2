cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport MERGE_BACK, MERGE_DISCARD, MERGE_NONE, MERGE_OK, OP_DISCARD, RQF_HASHED
from blklab.block.elevator cimport Elevator
from blklab.block.merge cimport Merger
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request

@cython.final
cdef class ElvMerge:
    cdef readonly RequestQueue queue
    cdef dict by_end
    cdef readonly Request found, freed

    cpdef add(self, Request rq)
    cpdef remove(self, Request rq)
    cdef _hash(self, Request rq)
    @cython.locals(same=list)
    cdef _unhash(self, Request rq)
    cdef _moved(self, Request rq)
    @cython.locals(rq=Request)
    cdef Request _ends_at(self, int64_t sector)
    @cython.locals(queue=RequestQueue, merger=Merger, last=Request, rq=Request, kind=int)
    cpdef int find(self, Bio bio) except -1
    @cython.locals(kind=int, rq=Request, elevator=Elevator, merger=Merger, neighbour=Request)
    cpdef bint try_merge(self, Bio bio, int segments) except -1
    @cython.locals(queue=RequestQueue, last=Request, held=Request)
    cpdef list insert_merge(self, Request rq)
    @cython.locals(queue=RequestQueue, elevator=Elevator)
    cdef bint _join(self, Request rq, Request following) except -1
