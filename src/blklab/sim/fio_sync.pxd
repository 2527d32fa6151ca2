cimport cython
from blklab.core.charging cimport charge
from blklab.core.steps cimport STEP_REAP, STEP_SUBMIT_IO, STEP_USER_IO
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport F_FUA, F_IDLE, F_PREFLUSH, F_SYNC, OP_WRITE
from blklab.block.queue cimport RequestQueue
from blklab.metrics.stats cimport JobStats
from blklab.sim.filemap cimport FileMap
from blklab.sim.fio_phases cimport (AFTER_QUEUE, ENGINE_IO_URING, ENGINE_LIBAIO, ENGINE_SYNC, PH_END, PH_GET,
                                    PH_SUBMITTING)
from blklab.sim.fio_thread cimport FioThread
from blklab.sim.io_unit cimport IoUnit
from blklab.sim.task_states cimport STEP_CONTINUE

cdef class SyncingThread(FioThread):
    cdef readonly int64_t fsync_blocks, fdatasync_blocks, writes
    cdef readonly bint end_fsync, last_was_sync
    cdef readonly int opened
    cdef int wrote_file, next_final
    cdef bint kept, flushing, syncing, final

    cpdef set_syncs(self, int64_t fsync_blocks, int64_t fdatasync_blocks, bint end_fsync, int opened)
    cdef int _due(self) noexcept
    cdef int _get(self) except -1
    @cython.locals(kind=int)
    cdef int _queue(self) except -1
    @cython.locals(now=int64_t, unit=IoUnit)
    cdef int _queue_sync(self, int kind, int file_index) except -1
    cdef int _next(self) except -1
    cdef int _end(self) except -1
    cdef FileMap _file(self, int index)
    @cython.locals(file=FileMap, queue=RequestQueue, bio=Bio)
    cdef Bio _sync_bio(self, IoUnit unit)
    @cython.locals(unit=IoUnit)
    cdef int _submit_next(self) except -1
    @cython.locals(file=FileMap)
    cdef int _write_flags(self, IoUnit unit) except -1
    @cython.locals(unit=IoUnit, file=FileMap)
    cdef int _sync_wait(self) except -1
    @cython.locals(stats=JobStats)
    cdef int _synced(self, IoUnit unit) except -1
    cdef int _account(self, IoUnit unit, int64_t now_ns) except -1
