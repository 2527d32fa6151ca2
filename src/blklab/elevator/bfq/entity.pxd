cimport cython
from libc.stdint cimport int64_t
from blklab.elevator.bfq.params cimport CLASS_BE, CLASS_RT

cdef class Entity
cdef class EntityTree
cdef class EntityList
cdef class ServiceTree
cdef class SchedData
cdef class Group

cdef class Entity:
    # B-WF2Q+
    cdef public int64_t start, finish, min_start
    cdef public int64_t weight, orig_weight, new_weight, dev_weight
    cdef public int64_t budget, service
    cdef public bint prio_changed, on_st_or_in_serv, in_groups_with_pending_reqs
    cdef public Entity parent
    cdef public SchedData sched_data
    cdef public SchedData my_sched_data
    cdef public bint is_queue
    # Where it hangs
    cdef public EntityTree tree
    cdef public Entity tree_left, tree_right, tree_above
    cdef public bint tree_red
    cdef public EntityList in_list
    cdef public Entity list_before, list_after
    # Of queues, written by the engine
    cdef public int ioprio, ioprio_class, new_ioprio, new_ioprio_class
    cdef public int64_t wr_coeff, service_from_backlogged, service_from_wr, first_io_ns
    cdef public bint busy, non_blocking_wait_rq, wait_request
    cdef public int64_t ref
    # Of queues and groups, written by the policy
    cdef public int64_t allocated, dispatched, max_budget

cdef class EntityTree:
    cdef public Entity root
    cdef public int64_t count, steps
    cdef public bint exact

    @cython.locals(start=int64_t, finish=int64_t, above=Entity, below=Entity)
    cpdef int insert(self, Entity entity) except -1
    @cython.locals(above=Entity, top=Entity, beside=Entity)
    cdef int _part_reds(self, Entity entity) except -1
    @cython.locals(
        left=Entity, right=Entity, lowest=Entity, only=Entity, heir=Entity, above=Entity, lost_black=bint
    )
    cpdef int extract(self, Entity entity) except -1
    @cython.locals(lacking=Entity, is_left=bint, beside=Entity, inner=Entity, outer=Entity)
    cdef int _make_up_black(self, Entity above) except -1
    @cython.locals(above=Entity, top=Entity, middle=Entity)
    cdef int _lift(self, Entity entity) except -1
    cdef int _hang(self, Entity top, Entity before, Entity now) except -1
    @cython.locals(least=int64_t, below=Entity)
    cdef int64_t _least(self, Entity entity)
    @cython.locals(found=Entity, entity=Entity, below=Entity)
    cpdef Entity first_eligible(self, int64_t vtime)
    @cython.locals(entity=Entity)
    cpdef Entity first(self)
    @cython.locals(below=Entity, above=Entity)
    cpdef Entity after(self, Entity entity)
    @cython.locals(below=Entity, above=Entity)
    cpdef Entity before(self, Entity entity)

cdef class EntityList:
    cdef public Entity head
    cdef public int64_t count

    cpdef int add_head(self, Entity entity) except -1
    cpdef int remove(self, Entity entity) except -1

cdef class ServiceTree:
    cdef public EntityTree active, idle
    cdef public Entity first_idle, last_idle
    cdef public int64_t vtime, wsum

cdef class SchedData:
    cdef public list service_tree
    cdef public ServiceTree rt, be, idle
    cdef public Entity in_service_entity, next_in_service
    cdef public int64_t class_idle_last_service_ns
    cdef public Group group

    cpdef ServiceTree tree_of(self, Entity entity)
    cpdef ServiceTree tree_of_class(self, int class_idx)

cdef class Group(Entity):
    cdef public bint is_root
    cdef public int64_t active_entities, num_queues_with_pending_reqs

    cpdef int adopt(self, Entity entity) except -1
    cpdef int init_entity(self, Entity entity) except -1
    cpdef int set_weight(self, int64_t weight, int64_t dev_weight) except -1
