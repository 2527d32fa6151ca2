cimport cython
from libc.stdint cimport int64_t
from blklab.core.clock cimport Clock, Event
from blklab.core.host cimport Host
from blklab.block.bio cimport Bio
from blklab.block.consts cimport DONE, F_PREFLUSH, WAIT, YIELD
from blklab.block.daemon cimport Daemon
from blklab.block.queue cimport RequestQueue
from blklab.stack.answers cimport MAP_REMAPPED, MAP_SUBMITTED
from blklab.stack.mapper cimport Target

cdef class Delay(Target):
    cdef Host host
    cdef readonly RequestQueue read_lower, write_lower
    cdef readonly int64_t start, read_jiffies, write_jiffies, flush_jiffies
    cdef list held
    cdef DelayTimer timer
    cdef Kdelayd kdelayd

    @cython.locals(wait=int64_t, sector=int64_t, jiffies=int64_t)
    cpdef int map(self, Bio clone, int number) except -1
    @cython.locals(clock=Clock, jiffy_ns=int64_t)
    cdef int _start_timer(self, int64_t expires) except -1
    cdef int expired(self, DelayTimer timer) except -1
    @cython.locals(jiffies=int64_t, waiting=list, held=Held)
    cdef int take_expired(self, list due) except -1
    @cython.locals(clone=Bio)
    cdef int send_on(self, Held held) except -1

cdef class Held:
    cdef readonly Bio clone
    cdef readonly int64_t sector, expires

cdef class DelayTimer(Event):
    cdef Delay target
    cdef readonly int64_t expires

    cpdef int fire(self, int64_t now_ns) except -1

cdef class Kdelayd(Daemon):
    cdef Delay target
    cdef bint flush_expired
    cdef list due
    cdef Py_ssize_t next_due

    @cython.locals(result=int, held=Held)
    cpdef int step(self) except -1
