cimport cython
from libc.stdint cimport int64_t
from blklab.block.request cimport Request

cdef int64_t MASK_32

@cython.final
cdef class RequestTree:
    cdef readonly Request root
    cdef readonly Py_ssize_t count
    cdef int64_t state

    @cython.locals(state=int64_t, above=Request, below=Request, sector=int64_t)
    cpdef void add(self, Request rq) noexcept
    @cython.locals(above=Request, top=Request, middle=Request)
    cdef void _lift(self, Request rq) noexcept
    cdef void _hang(self, Request top, Request before, Request now) noexcept
    @cython.locals(left=Request, right=Request)
    cpdef void remove(self, Request rq) noexcept
    @cython.locals(found=Request, rq=Request)
    cpdef Request at_or_after(self, int64_t sector)
    @cython.locals(rq=Request)
    cpdef Request find(self, int64_t sector)
    @cython.locals(rq=Request)
    cpdef Request first(self)
    @cython.locals(below=Request, above=Request)
    cpdef Request after(self, Request rq)
    @cython.locals(below=Request, above=Request)
    cpdef Request before(self, Request rq)
