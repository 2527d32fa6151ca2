cimport cython
from libc.stdint cimport int64_t
from blklab.core.clock cimport Event
from blklab.core.charging cimport charge
from blklab.core.host cimport Host, Work
from blklab.core.steps cimport STEP_IRQ, STEP_SWITCH, STEP_WAKE_TASK, STEP_WAKE_WORKER
from blklab.block.submit cimport Submitter
from blklab.sim.events cimport EventQueue
from blklab.sim.task_states cimport (KWORKER_PID, LATENCY_NS, MIN_GRANULARITY_NS, STILL_SECTIONS,
                                     STEP_CONTINUE, STEP_EXIT, STEP_SLEEP, TASK_EXITED, TASK_RUNNABLE,
                                     TASK_RUNNING, TASK_SLEEPING, WAKEUP_GRANULARITY_NS)

@cython.final
cdef class Ring:
    cdef Py_ssize_t room, first
    cdef readonly Py_ssize_t count
    cdef list items

    cpdef void push(self, object item) noexcept
    cpdef object pop(self)

@cython.final
cdef class FairQueue:
    cdef readonly Task head, tail
    cdef readonly Py_ssize_t count

    @cython.locals(before=Task, after=Task)
    cpdef void push(self, Task task) noexcept
    @cython.locals(task=Task)
    cpdef Task pop(self)

cdef class Task(Submitter):
    cdef Task next_task
    cdef readonly MachineHost host
    cdef public int state
    cdef public bint in_kernel
    cdef Task following
    cdef public int64_t vruntime_ns, ran_since_ns, usr_ns, sys_ns, switches, preempted

    cpdef int step(self) except -1
    cpdef int wake(self) except -1
    cpdef int fire(self, int64_t now_ns) except -1

cdef class Cpu(Event):
    cdef readonly MachineHost host
    cdef readonly int index
    cdef readonly int64_t busy_until_ns, busy_ns, irq_ns, worker_ns
    cdef readonly bint scheduled, running, in_irq
    cdef readonly Ring irqs, works
    cdef readonly FairQueue tasks
    cdef int64_t least_vruntime_ns
    cdef bint resched, gives_way
    cdef readonly Task current
    cdef readonly Work work

    @cython.locals(clock=EventQueue, at=int64_t)
    cpdef int kick(self, bint inline) except -1
    cpdef int fire(self, int64_t now_ns) except -1
    @cython.locals(host=MachineHost, clock=EventQueue, start=int64_t, task=Task)
    cpdef int loop(self, Event first) except -1
    @cython.locals(clock=EventQueue)
    cpdef bint may_go_on(self, Task task) noexcept
    @cython.locals(host=MachineHost, clock=EventQueue, start=int64_t)
    cdef int _interrupt(self, Event event) except -1
    @cython.locals(host=MachineHost, start=int64_t, work=Work, task=Task)
    cdef int _run_work(self) except -1
    @cython.locals(host=MachineHost, task=Task)
    cdef int _switch_in(self) except -1
    @cython.locals(host=MachineHost, clock=EventQueue, result=int, start=int64_t)
    cdef int _run_task(self, Task task) except -1
    @cython.locals(host=MachineHost, slice_ns=int64_t)
    cdef bint _slice_is_over(self, Task task) noexcept
    cdef int _put_back(self, Task task) except -1
    @cython.locals(host=MachineHost, current=Task, least=int64_t)
    cdef int woken(self, Task task) except -1

cdef class MachineHost(Host):
    cdef readonly EventQueue events
    cdef readonly bint preempt_full
    cdef public int llc_cpus
    cdef readonly list cpus
    cdef readonly int live_tasks
    cdef readonly int64_t latency_ns, min_granularity_ns, wakeup_granularity_ns
    cdef readonly int64_t turns
    cdef int64_t still, still_ns
    cdef dict work_timers
    cdef readonly bint stuck
    cdef public object when_exited

    @cython.locals(cpu=Cpu)
    cpdef bint yield_due(self) noexcept
    @cython.locals(cpu=Cpu)
    cpdef bint cond_resched(self) noexcept
    @cython.locals(target=Cpu)
    cpdef int interrupt(self, int cpu, Event event, bint remote) except -1
    @cython.locals(target=Cpu, timer=WorkTimer)
    cpdef int queue_work(self, Work work, int cpu, int64_t delay_ns) except -1
    cpdef bint share_cache(self, int cpu, int other) noexcept
    cpdef int start(self, Task task, int64_t at_ns) except -1
    @cython.locals(cpu=Cpu)
    cpdef int wake(self, Task task) except -1
    cpdef int exited(self, Task task) except -1

cdef class WorkTimer(Event):
    cdef MachineHost host
    cdef Work work
    cdef int64_t at_ns

    @cython.locals(work=Work, cpu=Cpu)
    cpdef int fire(self, int64_t now_ns) except -1
