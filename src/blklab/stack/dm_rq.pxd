cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.clock cimport Event
from blklab.core.host cimport Host
from blklab.core.steps cimport STEP_BIO_ALLOC, STEP_DM_MAP
from blklab.block.bio cimport Bio, BioEnd
from blklab.block.consts cimport (F_NOMERGE, HOOK_REQUEUE, RQ_COMPLETE, RQF_ELVPRIV, RQF_FLUSH_SEQ, RQF_IO_STAT,
                                  STS_DEV_RESOURCE, STS_IOERR, STS_OK, STS_RESOURCE, TR_A)
from blklab.block.driver cimport Driver
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request
from blklab.stack.paths cimport Paths

cdef class RqMultipath(Driver):
    cdef readonly Host host
    cdef readonly Paths paths
    cdef readonly list slaves
    cdef CloneEnd clone_end

    @cython.locals(queue=RequestQueue, path=int, lower=RequestQueue, bio=Bio, cpu=int, lower_hctx=HardwareQueue,
                   clone=Request)
    cpdef int queue_rq(self, HardwareQueue hctx, Request rq, bint last) except -1
    @cython.locals(bio=Bio)
    cdef Bio _clone_bio(self, RequestQueue queue, Request rq)
    @cython.locals(status=int)
    cdef int _insert_cloned(self, RequestQueue queue, Request rq, RequestQueue lower, Request clone, Bio bio) except -1
    cdef int _complete(self, Request rq, int status) except -1
    @cython.locals(queue=RequestQueue)
    cdef int _try_later(self, Request rq) except -1
    @cython.locals(queue=RequestQueue, paths=Paths)
    cpdef int end(self, Request rq) except -1
    cpdef int timeout(self, Request rq) except -1

cdef class CloneEnd(BioEnd):
    cdef RqMultipath device

    @cython.locals(rq=Request, status=int)
    cpdef int bio_end_io(self, Bio bio) except -1

cdef class TryAgain(Event):
    cdef Request rq

    @cython.locals(rq=Request, queue=RequestQueue)
    cpdef int fire(self, int64_t now_ns) except -1
