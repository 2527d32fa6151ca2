from blklab.core.host cimport Host

cdef inline void charge(Host host, int step) noexcept:
    if host.costs_on:
        host.charge(step)
