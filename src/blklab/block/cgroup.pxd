cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport F_CGROUP_ACCT, OP_DISCARD, OP_READ
from blklab.block.queue cimport RequestQueue

@cython.final
cdef class BlkgStat:
    cdef public int64_t rbytes, wbytes, dbytes, rios, wios, dios

    @cython.locals(nr_bytes=int64_t)
    cpdef void account(self, Bio bio) noexcept

@cython.final
cdef class Cgroup:
    cdef readonly str name
    cdef readonly Cgroup parent
    cdef readonly int ident, level
    cdef readonly list children
    cdef readonly list cpd
    cdef readonly dict blkgs

@cython.final
cdef class Blkg:
    cdef readonly Cgroup cgroup
    cdef readonly RequestQueue queue
    cdef readonly Blkg parent
    cdef readonly int level
    cdef readonly bint is_root
    cdef readonly list children, pd
    cdef readonly BlkgStat stat

cdef class BlkcgPolicy:
    cpdef object pd_alloc(self, Blkg blkg)
    cpdef pd_online(self, Blkg blkg)
    cpdef pd_offline(self, Blkg blkg)

@cython.final
cdef class QueueGroups:
    cdef readonly RequestQueue queue
    cdef readonly object tree
    cdef readonly list policies
    cdef readonly Blkg root

    @cython.locals(blkg=Blkg, parent=Blkg)
    cpdef Blkg lookup_create(self, Cgroup cgroup)
    cdef _begin(self, BlkcgPolicy policy, Blkg blkg)
    @cython.locals(blkg=Blkg, cgroup=Cgroup)
    cpdef int associate(self, Bio bio) except -1
