cdef enum:
    MAP_REMAPPED = 0
    MAP_SUBMITTED = 1
    MAP_KILL = 2
    MAP_ENDED = 3
    GO_ON = 4
