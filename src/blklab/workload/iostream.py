"""The sequence of I/Os of one clone of a job: fio 3.33's own directions, files, offsets and lengths, to the byte.

A stream knows no time. It is asked for the next I/O and answers until the job has issued all of it; passes (loops,
io_size, time_based) start over inside. How many I/Os are in flight does not change the sequence, except where fio
itself looks at completions: see `ramp_over`.

Theory of operation
    `advance` is fio's do_io: while neither the bytes of the job nor of the pass nor number_ios are used up, pick the
    file whose turn it is and fill in an I/O. A file that cannot give one is done; when all files are done, or the
    pass is used up, `_next_pass` decides as fio's keep_running does, and starts the generators anew if randrepeat.

    `_fill` decides, in fio's order because each step may draw from a generator: direction, offset (a new one, or
    continuing as rw=randread:8 and percentage_random have it), length, random map. The map is asked for the next
    free block if the block drawn was used. Offsets beyond what the file has end the file's pass.

    Generators: Tausworthe with 3 words of 32 bits (L'Ecuyer 1996) or 5 words of 64 bits (1999), seeded as fio seeds
    them; the LFSR of `lfsr`. Five words of state a generator lie in one array; `G_*` are their first words.

    A synchronous engine and a queueing one end passes differently in fio 3.33 (the first does not count the bytes of
    a pass), which shows with norandommap and loops: `counts_pass`.

Deliberate differences from fio 3.33
    With time_based a pass that can issue nothing ends the stream instead of the program. A file with I/Os in flight
    counts as closed at once when it is done. A bssplit no entry of which fits into the rest of a file ends the file's
    pass (fio draws for ever).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import cython

from blklab.workload.axmap import Axmap
from blklab.workload.filesetup import Layout, Use, lay_out, rand_seeds
from blklab.workload.jobspec import JobSpec
from blklab.workload.lfsr import Lfsr
from blklab.workload.stream import Stream
from blklab.workload.taus import STATE_WORDS, seed_rand

if not cython.compiled:
    from blklab.core.bits import ALL_ONES_32, ALL_ONES_64
    from blklab.workload.arith import next_multiple, truncate
    from blklab.workload.stream_ids import (
        BUSY,
        G_BLOCK,
        G_BS,
        G_FILE,
        G_MIX,
        G_SEQUENTIAL,
        NO_FILE,
        READ,
        SERVICE_RANDOM,
        SERVICE_SEQUENTIAL,
        TRIM,
        WRITE,
    )
    from blklab.workload.taus import fraction, percent, rand

NR_GENERATORS = 9
SERVICES = {"roundrobin": 0, "sequential": 1, "random": 2}  # SERVICE_*
MAX_DRAWS = 100_000  # of a length that fits
LARGEST = 0x7FFFFFFFFFFFFFFF  # "no limit" of a count


class IoStream(Stream):
    """The I/Os of one clone, in the public fields of `Stream`; made by `make_stream`."""

    def __init__(self, spec: JobSpec, layout: Layout, seeds: list[int]) -> None:
        Stream.__init__(self)
        self.seeds = seeds
        self.spec = spec
        self.maps: list[Axmap | None] = []
        self.lfsrs: list[Lfsr] = []
        self._set_shape(spec)
        self._set_limits(spec, layout)
        self._set_files(spec, layout)
        self.use64 = spec.random_generator == "tausworthe64"
        self.rng = self._seeded(self.use64)
        # fio finds that 32 bits are too few only after it has seeded for the first pass
        largest = max(min(f.io_size_bytes, f.real_size_bytes) for f in layout.files)
        most_blocks = largest // min(spec.min_bs_bytes)
        widens = self.random and not spec.random_generator_given and most_blocks > 0xFFFFFFFF
        self.use64_later = self.use64 or widens
        self.rng_start = self._seeded(self.use64_later)

        self.issued = array("q", [0, 0, 0])
        self.mix_ddir = READ
        self.mix_issues = 0
        self.pending_ddir = -1
        self.seq_left = 1
        self.busy_ok = False
        self.next_file = 0
        self.service_file = NO_FILE
        self.service_left = 0
        self.nr_open = 0
        self.nr_done = 0
        self.issue_bytes = 0
        self.pass_bytes = 0
        self.pass_ios = 0
        self.done_ios = 0
        self.done_bytes = 0
        self.loops_left = spec.loops
        self.ended = not self._keep_running()
        self._start_pass()

    def _set_shape(self, spec: JobSpec) -> None:
        """What each I/O looks like."""
        self.random = spec.is_random
        self.mixed = spec.rw in ("rw", "randrw")
        self.trimwrite = spec.rw in ("trimwrite", "randtrimwrite")
        self.randtrimwrite = spec.rw == "randtrimwrite"
        self.fixed_ddir = READ if spec.reads else WRITE if spec.writes else TRIM
        self.rwmix_read = spec.rwmixread
        self.seq_nr = spec.rw_seq_nr
        self.seq_add = spec.rw_seq_add_bytes
        self.seq_identical = spec.rw_sequencer == "identical"
        self.time_based = spec.time_based
        self.min_bs = array("q", spec.min_bs_bytes)
        self.max_bs_of = array("q", spec.max_bs_bytes)
        self.ba = array("q", spec.ba_bytes)
        self.max_bs = max(spec.max_bs_bytes)
        self.bs_is_seq_rand = spec.bs_is_seq_rand
        self.bs_unaligned = spec.bs_unaligned
        self.percent_random = array("q", spec.percentage_random)
        splits = [entry for split in spec.bssplit for entry in split]
        ends = [len(split) for split in spec.bssplit]
        self.split_first = array("q", [0, ends[0], ends[0] + ends[1], sum(ends)])
        self.split_bytes = array("q", [size for size, _ in splits] or [0])
        self.split_percent = array("q", [percent for _, percent in splits] or [0])
        self.lfsr = spec.random_generator == "lfsr"
        self.reseed = spec.randrepeat and not spec.randseed_given
        self.service = SERVICES[spec.file_service_type]
        self.service_nr = spec.file_service_nr
        self.open_files = spec.open_files
        self.reset_done_count = spec.time_based or spec.loops > 1 or spec.do_verify

    def _set_limits(self, spec: JobSpec, layout: Layout) -> None:
        """When a pass, and the job, is over."""
        loops = max(spec.loops, 1)
        self.io_size_given = spec.io_size_bytes > 0
        self.limit_once_bytes = spec.io_size_bytes or layout.size_bytes
        self.limit_bytes = min(self.limit_once_bytes * loops, LARGEST)
        self.pass_limit_bytes = layout.size_bytes
        if spec.writes and self.random and spec.norandommap:
            self.pass_limit_bytes = max(self.pass_limit_bytes, spec.io_size_bytes)
        self.number_ios = min(spec.number_ios * loops, LARGEST)  # 0: no limit
        if self.trimwrite:
            self.pass_limit_bytes += self.limit_once_bytes * spec.loops
        # Which directions count for the job's limit, and which bytes a pass counts (see the module's text)
        self.counts_job = array("q", [spec.reads, spec.writes, spec.trims and not spec.writes])
        if spec.is_sync:
            self.counts_pass = array("q", [0, 0, 0])
        else:
            self.counts_pass = array("q", [1, 1, spec.ioengine == "null"])

    def _set_files(self, spec: JobSpec, layout: Layout) -> None:
        """Ranges, maps and positions of the files."""
        files = layout.files
        self.nr_files = len(files)
        self.file_offset = array("q", [f.offset_bytes for f in files])
        self.io_size = array("q", [f.io_size_bytes for f in files])
        self.real_size = array("q", [f.real_size_bytes for f in files])
        self.last_pos = array("q", [0] * (3 * len(files)))
        self.last_start = array("q", [-1] * (3 * len(files)))
        self.is_open = array("q", [0] * len(files))
        self.is_done = array("q", [0] * len(files))
        last_block = []
        for f in files:
            usable = min(f.io_size_bytes, f.real_size_bytes)
            for low, align in zip(spec.min_bs_bytes, spec.ba_bytes, strict=True):
                last_block.append(max(usable - max(low - align, 0), 0) // align)
            if not self.random:
                continue
            blocks = usable // min(spec.min_bs_bytes)
            if self.lfsr:
                self.lfsrs.append(Lfsr(blocks, self.seeds[Use.BLOCK]))
            self.maps.append(None if spec.norandommap or self.lfsr else Axmap(blocks))
        self.last_block = array("q", last_block)

    def _seeded(self, use64: bool) -> array[int]:
        """The states of all generators at the start of a pass."""
        seeds = self.seeds
        rng = array("Q", bytes(8 * STATE_WORDS * NR_GENERATORS))
        write = seeds[Use.BS_READ] if self.spec.verify else seeds[Use.BS_WRITE]
        trim = write if self.trimwrite else seeds[Use.BS_TRIM]
        for ddir, seed in enumerate((seeds[Use.BS_READ], write, trim)):
            seed_rand(rng, G_BS + STATE_WORDS * ddir, seed, use64)
            seed_rand(rng, G_SEQUENTIAL + STATE_WORDS * ddir, seeds[Use.SEQUENTIAL], False)
        seed_rand(rng, G_MIX, seeds[Use.MIX], False)
        seed_rand(rng, G_FILE, seeds[Use.FILE], use64)
        seed_rand(rng, G_BLOCK, seeds[Use.BLOCK], use64)
        return rng

    # The passes of a job

    def advance(self) -> int:
        """Fill the public fields with the next I/O and return 1, or return 0 if the job has issued all of its."""
        while not self.ended:
            if self.time_based or (
                self.issue_bytes < self.limit_bytes
                and self.pass_bytes < self.pass_limit_bytes
                and (self.done_ios < self.number_ios or not self.number_ios)
            ):
                file = self._get_file()
                if file == BUSY:
                    continue
                if file >= 0:
                    return 1
            self._next_pass()
        return 0

    def ramp_over(self, ios_in_flight: int, bytes_in_flight: int) -> None:
        """fio forgets its counts when ramp_time is over: what is in flight then is all that was issued."""
        for ddir in range(3):
            self.issued[ddir] = 0
        self.mix_issues = 0
        if self.reset_done_count:
            self.nr_done = 0
        self.done_ios = ios_in_flight
        self.done_bytes = bytes_in_flight

    def draw_ddir(self) -> int:
        """Decide the direction of the next I/O now; a rate limit may then want another (`turn_ddir`)."""
        if self.pending_ddir < 0:
            self.pending_ddir = self._mixed_ddir() if self.mixed else self.fixed_ddir
        return self.pending_ddir

    def turn_ddir(self, ddir: int) -> None:
        """Take this direction for the next I/O instead, as fio does when the drawn one is ahead of its rate."""
        self.pending_ddir = ddir
        self.mix_ddir = ddir

    def _keep_running(self) -> bool:
        if self.time_based:
            return True
        if self.loops_left:
            self.loops_left -= 1
            return True
        if self.number_ios and self.done_ios >= self.number_ios:
            return False
        left = self.limit_once_bytes - self.done_bytes
        if left <= 0 or left < self.max_bs:
            return False
        if self.io_size_given:
            return True
        file = 0
        while file < self.nr_files and self.is_done[file]:
            file += 1
        return file < self.nr_files

    def _start_pass(self) -> None:
        self.pass_bytes = 0
        self.pass_ios = 0
        if self.trimwrite:
            self.number_ios = min(2 * self.number_ios, LARGEST)

    def _next_pass(self) -> None:
        """Start over, or end the stream. A pass without any I/O is the last."""
        if not self.pass_ios or not self._keep_running():
            self.ended = True
            return
        self.pass_number += 1
        self.mix_issues = 0
        if self.reset_done_count:
            self.nr_done = 0
        self.nr_open = 0
        for file in range(self.nr_files):
            self.is_open[file] = 0
            self.is_done[file] = 0
        if self.reseed:
            self.use64 = self.use64_later
            for i in range(STATE_WORDS * NR_GENERATORS):
                self.rng[i] = self.rng_start[i]
        self._start_pass()

    # The files

    def _get_file(self) -> int:
        """The next I/O from the first file whose turn it is and which has one; NO_FILE if none has, or BUSY."""
        while True:
            file = self._turn()
            if file < 0:
                return file
            if self._fill(file):
                self.busy_ok = False
                self.file_index = file
                return file
            self.is_open[file] = 0
            self.nr_open -= 1
            self.is_done[file] = 1
            self.nr_done += 1

    def _turn(self) -> int:
        """The file whose turn it is, opened."""
        if self.nr_done >= self.nr_files:
            return NO_FILE
        if self.nr_files == 1 and self.is_open[0]:
            return 0
        file = self.service_file
        if file >= 0 and self.is_open[file]:
            if self.service == SERVICE_SEQUENTIAL:
                return file
            if self.service_left:
                self.service_left -= 1
                return file
        if self.service == SERVICE_RANDOM:
            file = truncate(self.nr_files * fraction(self.rng, G_FILE, self.use64))
            while self.is_done[file]:
                file = truncate(self.nr_files * fraction(self.rng, G_FILE, self.use64))
        else:
            file = self._next_in_turn()
        if file < 0:
            return file
        if not self.is_open[file]:
            if self.nr_open >= self.open_files:
                return BUSY
            self._reset_file(file)
            self.is_open[file] = 1
            self.nr_open += 1
        self.service_file = file
        self.service_left = self.service_nr - 1
        return file

    def _next_in_turn(self) -> int:
        for _ in range(self.nr_files):
            file = self.next_file
            self.next_file += 1
            if self.next_file >= self.nr_files:
                self.next_file = 0
            if not self.is_done[file]:
                return file
        return NO_FILE

    def _reset_file(self, file: int) -> None:
        """Positions to the start of the range, map empty."""
        for ddir in range(3):
            self.last_pos[3 * file + ddir] = self.file_offset[file]
            self.last_start[3 * file + ddir] = -1
        if self.random:
            found = self.maps[file]
            if found is not None:
                found.reset()
            if self.lfsr:
                register = self.lfsrs[file]
                register.reset(self.seeds[Use.BLOCK])

    # One I/O

    def _fill(self, file: int) -> bool:
        """Fill in an I/O to this file; False if the file has none left in this pass."""
        if self.pending_ddir >= 0:
            ddir = self.pending_ddir
            self.pending_ddir = -1
        elif self.mixed:
            ddir = self._mixed_ddir()
        else:
            ddir = self.fixed_ddir
        if self.trimwrite:
            paired = self.last_start[3 * file + WRITE] == self.last_start[3 * file + TRIM]
            ddir = TRIM if paired else WRITE

        new_offset = False
        if self.seq_nr:
            self.seq_left -= 1
            if not self.seq_left:
                self.seq_left = self.seq_nr
                new_offset = True

        is_random = False
        follows_trim = self.randtrimwrite and ddir == WRITE
        if follows_trim:
            self.busy_ok = True
            offset = self.last_start[3 * file + TRIM]
            is_random = True
        elif not new_offset:
            self.busy_ok = True
            if self.seq_identical:
                offset = self.last_start[3 * file + ddir]
                offset = 0 if offset < 0 else offset - self.file_offset[file]
            else:
                offset = self._sequential_offset(file, ddir)
                if offset == -1:
                    offset = self._random_offset(file, ddir)
        elif not self.random:
            offset = self._sequential_offset(file, ddir)
        elif self.percent_random[ddir] == 100 or (
            percent(self.rng, G_SEQUENTIAL + 5 * ddir) <= self.percent_random[ddir]
        ):
            offset = self._random_offset(file, ddir)
            is_random = True
        else:
            self.busy_ok = True
            offset = self._sequential_offset(file, ddir)
            if offset == -1:
                offset = self._random_offset(file, ddir)
        if offset < 0 or offset >= self.io_size[file]:
            return False
        offset += self.file_offset[file]
        if offset >= self.real_size[file]:
            return False
        if self.randtrimwrite and ddir == TRIM and self.last_start[3 * file + TRIM] == offset:
            # The same block twice in a row: still, a write must follow this trim
            self.last_start[3 * file + WRITE] -= 1

        if follows_trim:
            length = self.last_pos[3 * file + TRIM] - self.last_start[3 * file + TRIM]
        elif self.min_bs[ddir] == self.max_bs_of[ddir] and not self.bs_is_seq_rand:
            length = self.min_bs[ddir]
        else:
            length = self._length(file, ddir, offset, is_random)
            if not length:
                return False
        if offset + length > self.real_size[file]:
            return False
        if self.random and not self.busy_ok:
            length = self._mark(file, ddir, offset, length)

        self.last_start[3 * file + ddir] = offset
        self.last_pos[3 * file + ddir] = offset + length
        self.issued[ddir] += 1
        if self.counts_job[ddir]:
            self.issue_bytes += length
        if self.counts_pass[ddir]:
            self.pass_bytes += length
        self.pass_ios += 1
        self.done_ios += 1
        self.done_bytes += length
        self.ddir = ddir
        self.offset_bytes = offset
        self.length_bytes = length
        return True

    def _mixed_ddir(self) -> int:
        """Read or write: drawn anew once the present direction has had its share."""
        if self.issued[self.mix_ddir] >= self.mix_issues:
            ddir = READ if percent(self.rng, G_MIX) <= self.rwmix_read else WRITE
            if ddir != self.mix_ddir:
                # The share is of the direction that is left, as in fio
                other = 100 - self.rwmix_read if self.mix_ddir == READ else self.rwmix_read
                self.mix_issues = self.issued[self.mix_ddir] * other // 100
            self.mix_ddir = ddir
        return self.mix_ddir

    def _sequential_offset(self, file: int, ddir: int) -> int:
        """Where the last I/O of this direction ended, within the range; -1 at the end of the device."""
        place = 3 * file + ddir
        start = self.file_offset[file]
        real_size = self.real_size[file]
        last = self.last_pos[place]
        if self.time_based and self.nr_files == 1 and last >= self.io_size[file] + start:
            last = start
        if last >= real_size:
            self.last_pos[place] = last
            return -1
        end = self.io_size[file] if real_size > self.io_size[file] else real_size
        if last == start and start and self.seq_add < 0:
            last = end
        self.last_pos[place] = last
        offset = last - start
        if offset and self.seq_add:
            offset += self.seq_add
            if offset < 0 or offset >= real_size:
                offset = start if self.seq_add > 0 else end + self.seq_add
                if offset < 0:
                    offset = -2  # fails as in fio, but not for want of a sequential offset
        return offset

    def _random_offset(self, file: int, ddir: int) -> int:
        """A random offset, of a block that is free if there is a map; -1 if all are used."""
        block = self._random_block(file, ddir)
        if block < 0 and self.time_based:
            self._reset_file(file)
            block = self._random_block(file, ddir)
        return block if block < 0 else block * self.ba[ddir]

    def _random_block(self, file: int, ddir: int) -> int:
        blocks = self.last_block[3 * file + ddir]
        if not blocks:
            return -1
        if self.lfsr:
            register = self.lfsrs[file]
            return register.next()
        block = truncate(blocks * fraction(self.rng, G_BLOCK, self.use64))
        found = self.maps[file]
        return block if found is None else found.find(block)

    def _length(self, file: int, ddir: int, offset: int, is_random: bool) -> int:
        """A length of bsrange or bssplit that fits into the range; 0 if not even the smallest does."""
        if self.bs_is_seq_rand:
            ddir = WRITE if is_random else READ
        low = self.min_bs[ddir]
        high = self.max_bs_of[ddir]
        if low == high:
            return low
        room = self.io_size[file] + self.file_offset[file] - offset
        if low > room:
            return 0
        first = self.split_first[ddir]
        last = self.split_first[ddir + 1]
        hundredth = (ALL_ONES_64 if self.use64 else ALL_ONES_32) // 100
        length = 0
        for _ in range(MAX_DRAWS):
            if first == last:
                length = low + truncate(high * fraction(self.rng, G_BS + 5 * ddir, self.use64))
            else:
                drawn = rand(self.rng, G_BS + 5 * ddir, self.use64)
                share = 0
                for i in range(first, last):
                    if not self.split_percent[i]:
                        continue
                    length = self.split_bytes[i]
                    share += self.split_percent[i]
                    if drawn // share <= hundredth and length <= room:
                        break
            if not self.bs_unaligned:
                length -= length % low
            if length > high:
                length = high
            if length <= room:
                return length
        return 0

    def _mark(self, file: int, ddir: int, offset: int, length: int) -> int:
        """Mark the blocks as used; the length shrinks to what was free."""
        found = self.maps[file]
        if found is None:
            return length
        unit = self.min_bs[ddir]
        block = (offset - self.file_offset[file]) // unit
        if length == unit:
            found.set(block)
            return length
        marked = found.set_range(block, next_multiple(length, unit)) * unit
        return marked if marked < length else length


def make_stream(
    spec: JobSpec,
    clone: int,
    job_number: int,
    file_sizes_bytes: Sequence[int],
    run_seed: int = 0,
) -> IoStream:
    """The stream of one clone.

    `clone` 0 .. numjobs-1 is its place among the clones of the job, `job_number` fio's number of it among all threads
    (from 1; `jobspec.expand` gives both), `file_sizes_bytes` the sizes of its devices in the order of
    `spec.filenames`, `run_seed` what randrepeat=0 draws from. Raises BlklabError where the job does not fit them.
    """
    layout = lay_out(spec, clone, file_sizes_bytes)
    return IoStream(spec, layout, rand_seeds(spec, clone, job_number, run_seed))


def start_delay_ns(spec: JobSpec, clone: int, job_number: int, run_seed: int = 0) -> int:
    """When this clone starts after its group does: startdelay, drawn anew for each clone if it is a range."""
    low_us, high_us = spec.startdelay_ns // 1000, spec.startdelay_high_ns // 1000
    if high_us <= low_us:
        return spec.startdelay_ns
    use64 = spec.random_generator == "tausworthe64"
    rng = array("Q", bytes(8 * STATE_WORDS))
    seed_rand(rng, 0, rand_seeds(spec, clone, job_number, run_seed)[Use.START_DELAY], use64)
    return (low_us + truncate((high_us - low_us + 1) * fraction(rng, 0, use64))) * 1000
