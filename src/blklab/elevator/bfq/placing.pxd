cimport cython
from libc.stdint cimport int64_t
from blklab.core.clock cimport Clock
from blklab.elevator.bfq.entity cimport Entity, EntityList, Group, ServiceTree, SchedData
from blklab.elevator.bfq.params cimport NR_LEVELS
from blklab.elevator.bfq.weights cimport MAX_WEIGHT, MIN_WEIGHT, SERVICE_SHIFT, WEIGHT_PER_LEVEL

@cython.locals(tens=int64_t)
cpdef int64_t weight_to_ioprio(int64_t weight) noexcept

cdef class Placing:
    cdef public Clock clock
    cdef public int64_t jiffy_ns, num_groups_with_pending_reqs
    cdef public EntityList active_list, idle_list
    cdef public bint logging

    # What a policy may define
    cpdef int weights_tree_add(self, Entity queue) except -1
    cpdef int weights_tree_remove(self, Entity queue) except -1
    cpdef int get_entity(self, Entity queue) except -1
    cpdef int put_queue(self, Entity queue) except -1
    cpdef int stats_update_dequeue(self, Entity queue) except -1
    cpdef int became_busy(self, Entity queue) except -1
    cpdef int cancel_idle_slice_timer(self) except -1
    cpdef int log_queue(self, Entity queue, str text) except -1

    # What a policy may ask for
    cpdef int put_idle_entity(self, ServiceTree st, Entity entity) except -1
    cpdef int flush_idle_tree(self, ServiceTree st) except -1
    cpdef ServiceTree entity_service_tree(self, Entity entity)
    @cython.locals(new_st=ServiceTree, new_weight=int64_t, prev_weight=int64_t)
    cpdef ServiceTree update_weight_prio(self, ServiceTree old_st, Entity entity, bint update_class_too)
    @cython.locals(now_ns=int64_t)
    cpdef int64_t jiffy_now_ns(self) except -1

    # One entity
    @cython.locals(st=ServiceTree, min_vstart=int64_t, backshifted=bint)
    cdef int _activate_entity(self, Entity entity, bint non_blocking_wait_rq) except -1
    @cython.locals(sd=SchedData, st=ServiceTree)
    cdef int _requeue_entity(self, Entity entity) except -1
    @cython.locals(delta=int64_t)
    cdef int _update_fin_time_enqueue(self, Entity entity, ServiceTree st, bint backshifted) except -1
    @cython.locals(sd=SchedData, st=ServiceTree, in_service=bint)
    cpdef bint deactivate_entity(self, Entity entity, bint ins_into_idle_tree) except -1
    @cython.locals(delta=int64_t)
    cdef int _calc_finish(self, Entity entity, int64_t service) except -1
    @cython.locals(group=Group)
    cdef int _active_insert(self, ServiceTree st, Entity entity) except -1
    @cython.locals(group=Group)
    cdef int _active_extract(self, ServiceTree st, Entity entity) except -1
    cdef int _idle_insert(self, ServiceTree st, Entity entity) except -1
    cdef int _idle_extract(self, ServiceTree st, Entity entity) except -1
    cdef int _forget_entity(self, ServiceTree st, Entity entity, bint in_service) except -1
    @cython.locals(first_idle=Entity, last_idle=Entity)
    cdef int _forget_idle(self, ServiceTree st) except -1
