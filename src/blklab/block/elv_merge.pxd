cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport (HOOK_ALLOW_MERGE, MERGE_BACK, MERGE_DISCARD, MERGE_NONE, MERGE_OK, OP_DISCARD,
                                  RQF_HASHED, RQF_SORTED)
from blklab.block.elevator cimport Elevator
from blklab.block.merge cimport Merger
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request

@cython.final
cdef class Bucket:
    cdef public Request head

@cython.final
cdef class ElvMerge:
    cdef readonly RequestQueue queue
    cdef list buckets
    cdef int64_t mask, hashed
    cdef list nothing
    cdef readonly Request found, freed

    cpdef add(self, Request rq)
    cpdef remove(self, Request rq)
    cdef Py_ssize_t _index(self, int64_t end) noexcept
    @cython.locals(bucket=Bucket, head=Request)
    cdef _hash(self, Request rq)
    @cython.locals(bucket=Bucket, before=Request, following=Request)
    cdef _unhash(self, Request rq)
    @cython.locals(old=list, bucket=Bucket, rq=Request, before=Request)
    cdef _grow(self)
    cdef _moved(self, Request rq)
    @cython.locals(bucket=Bucket, rq=Request)
    cdef Request _ends_at(self, int64_t sector)
    @cython.locals(queue=RequestQueue, elevator=Elevator)
    cdef bint _merge_ok(self, Request rq, Bio bio) except -1
    @cython.locals(queue=RequestQueue, merger=Merger, last=Request, rq=Request, kind=int)
    cpdef int find(self, Bio bio) except -1
    @cython.locals(kind=int, rq=Request, elevator=Elevator, merger=Merger, neighbour=Request)
    cpdef bint try_merge(self, Bio bio, int segments) except -1
    @cython.locals(queue=RequestQueue, last=Request, held=Request)
    cpdef list insert_merge(self, Request rq)
    @cython.locals(queue=RequestQueue, elevator=Elevator)
    cdef bint _join(self, Request rq, Request following) except -1
