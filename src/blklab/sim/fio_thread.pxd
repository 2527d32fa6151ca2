cimport cython
from blklab.core.charging cimport charge
from libc.stdint cimport int64_t
from blklab.core.bits cimport NEVER_NS
from blklab.core.steps cimport (STEP_GETEVENTS, STEP_IO_UNIT, STEP_REAP, STEP_SYSCALL, STEP_THREAD_START,
                                STEP_USER_IO)
from blklab.block.bio cimport Bio
from blklab.block.consts cimport DONE, OP_DISCARD, STS_NOTSUPP, WAIT
from blklab.block.queue cimport RequestQueue
from blklab.metrics.stats cimport JobStats
from blklab.sim.cpu cimport Cpu, MachineHost, Task
from blklab.sim.dio cimport DirectIo
from blklab.sim.events cimport EventQueue
from blklab.sim.fio_phases cimport (AFTER_QUEUE, AFTER_REAP, ENGINE_IO_URING, ENGINE_LIBAIO, ENGINE_NULL, ENGINE_SYNC,
                                    PH_BATCH_PLUG, PH_DRAIN, PH_END, PH_GET, PH_OWN_PLUG, PH_PAUSE, PH_REAP,
                                    PH_REAP_WAIT, PH_SUBMIT, PH_SUBMITTING, PH_SYNC_WAIT, START_SECTIONS)
from blklab.sim.io_unit cimport IoList, IoUnit
from blklab.sim.task_states cimport MOST_SECTIONS, STEP_CONTINUE, STEP_EXIT, STEP_SLEEP
from blklab.workload.stream cimport Stream

cdef class FioThread(Task):
    cdef readonly Stream stream
    cdef readonly JobStats stats
    cdef readonly list queues
    cdef int64_t[::1] starts_sectors
    cdef public list files
    cdef readonly int engine, iodepth, batch_size, complete_min, complete_max, iodepth_low
    cdef public bint disable_slat, disable_clat, disable_lat, ramping, stopping, begun
    cdef readonly DirectIo dio
    cdef public int plug_threshold, error
    cdef public int64_t end_ns, runtime_ns, ramp_ns, ramp_end_ns, epoch_ns, began_ns
    cdef readonly int64_t ended_ns, ios_issued, ios_done, bytes_issued, bytes_done
    cdef public object pace
    cdef int phase, after
    cdef IoList free, queued, done
    cdef IoUnit call_head, call_tail, unit
    cdef int start_left, call_count, io_u_queued, wait_min
    cdef readonly int cur_depth
    cdef bint full, waiting, blocking, busy, own_plug, draining, ending, held, thinking
    cdef int64_t pass_number, pause_ns, pause_until_ns

    cpdef configure(self, int engine, int iodepth, int batch, int low, int complete_min, int complete_max)
    @cython.locals(unit=IoUnit)
    cpdef void place_buffers(self, int64_t start_bytes, int64_t buffer_bytes) noexcept
    @cython.locals(cpu=Cpu, result=int, sections=int)
    cpdef int step(self) except -1
    @cython.locals(clock=EventQueue, start=int64_t, was_kernel=bint, phase=int, result=int)
    cdef int _section(self) except -1
    @cython.locals(host=MachineHost, now=int64_t, stream=Stream, early_ns=int64_t)
    cdef int _get(self) except -1
    @cython.locals(now_ns=int64_t)
    cdef int _begin(self) except -1
    @cython.locals(host=MachineHost, clock=EventQueue, stream=Stream, unit=IoUnit)
    cdef int _queue(self) except -1
    cdef int _commit(self) except -1
    @cython.locals(pause_ns=int64_t)
    cdef int _next(self) except -1
    cdef int _after_queue(self) except -1
    cdef int _wait_for_some(self) except -1
    @cython.locals(unit=IoUnit, host=MachineHost)
    cdef int _enter_submit(self, int after) except -1
    @cython.locals(unit=IoUnit, dio=DirectIo)
    cdef int _submit_next(self) except -1
    cdef int _add_to_call(self, IoUnit unit) except -1
    @cython.locals(result=int)
    cdef int _submitting(self) except -1
    @cython.locals(now=int64_t, stats=JobStats, unit=IoUnit)
    cdef int _leave_submit(self) except -1
    cdef int _submitted_all(self) except -1
    @cython.locals(unit=IoUnit)
    cpdef int bio_done(self, Bio bio) except -1
    @cython.locals(unit=IoUnit, stats=JobStats, now=int64_t)
    cdef int _sync_wait(self) except -1
    cdef int _reap(self) except -1
    cdef int _fetch(self) except -1
    cdef int _reap_wait(self) except -1
    @cython.locals(now=int64_t, most=int, count=int)
    cdef int _fetched(self) except -1
    cdef int _account(self, IoUnit unit, int64_t now_ns) except -1
    cdef int _drain(self, bint held, int64_t pause_ns) except -1
    cdef int _drain_more(self) except -1
    cdef int _drained(self) except -1
    cdef int _pause(self) except -1
    cdef int _go_on(self) except -1
    cdef int _end(self) except -1
