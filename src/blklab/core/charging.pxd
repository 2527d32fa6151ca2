from blklab.core.host cimport Host, Lock

cdef inline void charge(Host host, int step) noexcept:
    if host.costs_on:
        host.charge(step)

cdef inline void take_lock(Host host, Lock lock, int step) noexcept:
    if host.costs_on:
        host.lock(lock, step)

cdef inline void give_lock(Host host, Lock lock) noexcept:
    if host.costs_on:
        host.unlock(lock)
