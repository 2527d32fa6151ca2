cimport cython
from libc.stdint cimport int64_t
from blklab.elevator.bfq.entity cimport Entity, Group, SchedData, ServiceTree
from blklab.elevator.bfq.params cimport DEFAULT_MAX_BUDGET, NR_LEVELS
from blklab.elevator.bfq.placing cimport Placing
from blklab.elevator.bfq.weights cimport NR_CLASSES, SERVICE_SHIFT, WEIGHT_PER_LEVEL

cpdef int64_t ioprio_to_weight(int64_t ioprio) noexcept

cdef class Wf2q(Placing):
    cdef public int64_t class_idle_timeout_ns, timeout_ms
    cdef public Group root_group
    cdef public Entity in_service_queue
    cdef public list busy_queues
    cdef public int64_t tot_busy_queues, wr_busy_queues, max_budget

    # What a policy calls, in the order in which a queue meets it
    cpdef int add_bfqq_busy(self, Entity queue) except -1
    cpdef int activate_bfqq(self, Entity queue) except -1
    cpdef int requeue_bfqq(self, Entity queue, bint expiration) except -1
    @cython.locals(entity=Entity, queue=Entity, sd=SchedData)
    cpdef Entity get_next_queue(self)
    @cython.locals(sd=SchedData)
    cpdef bint next_queue_may_preempt(self) except -1
    @cython.locals(entity=Entity, st=ServiceTree)
    cpdef int bfqq_served(self, Entity queue, int64_t served_sectors) except -1
    @cython.locals(charge=int64_t)
    cpdef int bfqq_charge_time(self, Entity queue, int64_t time_ms) except -1
    @cython.locals(entity=Entity)
    cpdef int reset_service(self, Entity queue, bint of_queue_too) except -1
    @cython.locals(queue=Entity, entity=Entity, ref=int64_t)
    cpdef bint reset_in_service(self) except -1
    cpdef int del_bfqq_busy(self, Entity queue, bint expiration) except -1
    cpdef int deactivate_bfqq(self, Entity queue, bint ins_into_idle_tree, bint expiration) except -1
    @cython.locals(entity=Entity, sd=SchedData)
    cpdef int pending_reqs_done(self, Entity queue) except -1

    # Levels above the queue
    @cython.locals(sd=SchedData)
    cdef int _activate_requeue_entity(
        self, Entity entity, bint non_blocking_wait_rq, bint requeue, bint expiration
    ) except -1
    @cython.locals(sd=SchedData, above=Entity)
    cdef int _deactivate_entity(self, Entity entity, bint ins_into_idle_tree, bint expiration) except -1
    @cython.locals(next_entity=Entity, without_lookup=bint, may_change=bint, st=ServiceTree)
    cdef bint _update_next_in_service(self, SchedData sd, Entity new_entity, bint expiration) except -1
    @cython.locals(group=Group, shrinks=bint)
    cdef bint _update_parent_budget(self, Entity next_in_service) except -1
    @cython.locals(group=Group)
    cdef bint _is_only_one(self, Entity entity) except -1
    @cython.locals(entity=Entity, class_idx=int, now_ns=int64_t)
    cdef Entity _lookup_next_entity(self, SchedData sd, bint expiration)
    @cython.locals(vtime=int64_t, root=Entity)
    cdef Entity _lookup_in_class(self, ServiceTree st, bint in_service)
