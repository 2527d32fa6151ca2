"""Where the pages of a buffer lie: which of them are side by side, which decides the segments of a bio.

What: `MemoryLayout` says for each byte of the programs' memory at which physical address it is, as far as anybody asks:
for bios that have no fixed `run_bytes`. Why: no trace records it, and it decides how large requests get; so it is
one seeded parameter, the share of pages that lie behind the one before them.

Theory of operation
-------------------
The layout is made once, for 64 MiB, and repeats behind that. A page is behind the one before with the probability
`contiguous`, else anywhere: 0 has every page elsewhere, 1 runs of 4 MiB, the kernel's largest piece, where a run begins
at the latest. So runs are 4096 / (1 - contiguous) bytes long in the mean.

Buffers are numbered through (`Bio.buffer_offset_bytes` counts from the beginning of this memory): buffers of
different I/Os differ, and the same buffer used again is the same. Which of two runs has the lower address
is random, so two runs may touch by accident: the kernel would join them in a bio, this does too.

Deliberate differences: real memory has longer runs where it is less fragmented, and huge pages (`run_bytes`).
"""

from __future__ import annotations

from array import array

import cython

from blklab.core.rand import RandomStream

if not cython.compiled:
    from blklab.block.consts import PAGE_BYTES

NR_PAGES = 16384  # pages of the layout, 64 MiB
RUN_PAGES = 1024  # no piece of memory is longer: 4 MiB
NR_RUNS = 262144  # such pieces in 1 TiB


class MemoryLayout:
    """Memory in which a page lies behind the one before with probability `contiguous`, from 0 to 1."""

    def __init__(self, seed: int, contiguous: float) -> None:
        stream = RandomStream(seed, "memory")
        frames = array("q")
        frame = 0
        for page in range(NR_PAGES):
            if page % RUN_PAGES and stream.uniform() < contiguous:
                frame += 1
            else:
                # The largest pieces begin on their own size, as the kernel's free pieces do; others anywhere
                frame = stream.below(NR_RUNS) * RUN_PAGES
                if contiguous < 1.0:
                    frame += stream.below(RUN_PAGES)
            frames.append(frame)
        self.contiguous = contiguous
        self.frames = frames
        self.mask = NR_PAGES - 1

    def address(self, position: int) -> int:
        """The physical address of a byte of the buffers."""
        return self.frames[(position // PAGE_BYTES) & self.mask] * PAGE_BYTES + position % PAGE_BYTES

    def side_by_side(self, position: int, most: int) -> int:
        """How many bytes from `position` on lie side by side, as far as that is within `most`."""
        page = position // PAGE_BYTES
        nbytes = PAGE_BYTES - position % PAGE_BYTES
        frame = self.frames[page & self.mask]
        while nbytes < most:
            page += 1
            frame += 1
            if self.frames[page & self.mask] != frame:
                break
            nbytes += PAGE_BYTES
        return nbytes if nbytes < most else most

    def runs(self, position: int, most: int, nr_runs: int) -> int:
        """How many bytes from `position` on, at most `most`, are in `nr_runs` runs: what a bio of that many bio_vecs
        takes."""
        taken = 0
        while taken < most and nr_runs:
            taken += self.side_by_side(position + taken, most - taken)
            nr_runs -= 1
        return taken
