"""ADIOS, the Adaptive Deadline I/O Scheduler (Masahito Suzuki, github.com/firelzrd/adios), as version 3.3.0 works.

- Learning: for each type a model says base + slope * KiB above 4. Requests up to 4 KiB teach the base, larger ones the
  slope. A sample is the time since the CPU's last completion, or since issue if nothing else was in flight then.
- Until a read and a write of up to 4 KiB have completed, everything is one FIFO without merging.
- Then deadline = start + target + predicted latency, or only start with REQ_SYNC (direct writes have it, direct reads
  not); requests wait in two trees, reads and others, in steps of 1 ms.
- Batches: from the trees to the back one of two pages until the latency window or a type's limit is full; the front
  page is dispatched, reads first. Reads are taken first, too, but overtaking earlier deadlines puts them in debt.

Simplified: one lock, for which bios wait; samples are sorted, not put into 64 buckets, and never mix types; no timer:
completions look every 100 ms; priorities are powers of 1.25; a merged request keeps its place; other operations count
as discards; I is traced; the CPU cost is mq-deadline's. Left out: other attributes, and that far seeks teach more.
"""

from heapq import heapify, heappop, heappush

from blklab import Attribute, Elevator, RequestList
from blklab.block.attributes import number
from blklab.block.consts import F_SYNC, OP_DISCARD, OP_READ, OP_WRITE
from blklab.core.host import Lock
from blklab.core.steps import STEP_LOCK_SCHED, STEP_MQ_DEADLINE

MS, MOST = 1_000_000, 2**64 - 1
KIND = {OP_READ: 0, OP_WRITE: 1, OP_DISCARD: 2}
TARGET = ("lat_target_read", "lat_target_write", "lat_target_discard")
LIMIT = ("batch_limit_read", "batch_limit_write", "batch_limit_discard")
SHRINK_AT = (5_000_000, 50 << 20)  # requests in a base, KiB in a slope, at which a quarter is forgotten
TUNABLES = {  # default, least, most, help; times are in ns
    "global_latency_window": (16 * MS, 0, MOST, "most time in flight, as predicted; rotational: 22 ms"),
    "bq_refill_below_ratio": (20, 0, 100, "percentage of it below which the back page is filled early"),
    "lat_model_latency_limit": (500 * MS, 0, 2000 * MS, "longer latencies are neither learnt nor predicted"),
    "batch_limit_read": (36, 1, MOST, "most reads of a batch"),
    "batch_limit_write": (72, 1, MOST, "most writes of a batch"),
    "batch_limit_discard": (1, 1, MOST, "most discards of a batch"),
    "lat_target_read": (2 * MS, 0, MOST, "what a read may take beyond its prediction"),
    "lat_target_write": (2000 * MS, 0, MOST, "the same of a write"),
    "lat_target_discard": (8000 * MS, 0, MOST, "the same of a discard"),
    "read_priority": (8, -20, 19, "the higher, the smaller the debt of reads"),
}


def tunable(name):
    """One of TUNABLES as an attribute."""
    _, *span, text = TUNABLES[name]
    return Attribute(name, text, lambda e: e.tune[name], lambda e, s: e.tune.update({name: number(s, *span)}))


class Model:
    """The latency of one type. `rates`: the base, ns a request, and the slope, ns a KiB."""

    def __init__(self):
        self.rates, self.updated_ns = [0, 0], 0
        self.sums = [(0, 0), (0, 0)]  # of small requests ns and their number, of large ones ns and KiB
        self.samples = ([], [])  # small, large: (how slow, ns, bytes)

    def __str__(self):
        return "base : {} ns\nslope: {} ns/KiB".format(*self.rates)

    def predict(self, size):
        """The latency of a request of `size` bytes."""
        return self.rates[0] + self.rates[1] * (max(size - 4096, 0) + 1023 >> 10)

    def update(self, now_ns):
        """Take the usual 99 % of the samples, when there are 1024 or after 1.5 s."""
        late = not self.rates[0] or now_ns - self.updated_ns >= 1500 * MS
        for large, known in enumerate(self.rates):
            samples = sorted(self.samples[large])
            if samples and (late or len(samples) >= 1024 or not known):
                self.samples[large].clear()
                usual = samples[: len(samples) * (99 if known else 100) // 100]
                ns = sum(sample[1] for sample in usual)
                if large and ns > self.rates[0]:
                    ns -= self.rates[0]  # once, not for each: 3.3.0's slope is nearly the whole latency a KiB
                amount = sum(sample[2] for sample in usual) + 1023 >> 10 if large else len(usual)
                old_ns, old = self.sums[large]
                keep = 3 if old >= SHRINK_AT[large] else 4
                self.sums[large] = ns, amount = old_ns * keep // 4 + ns, old * keep // 4 + amount
                self.rates[large] = ns // max(amount, 1)
                self.updated_ns = now_ns
        self.updated_ns = now_ns if late else self.updated_ns


class Adios(Elevator):
    """Of a request, `elv_ns` is its deadline, `elv0` its predicted latency and size, `elv1` its entry in a tree."""

    tunables = (
        *map(tunable, TUNABLES),
        Attribute("lat_model_read", "what was learnt of reads", lambda e: str(e.models[0])),
        Attribute("lat_model_write", "the same of writes", lambda e: str(e.models[1])),
        Attribute("lat_model_discard", "the same of discards", lambda e: str(e.models[2])),
    )

    def __init__(self, queue):
        super().__init__(queue)
        self.lock, self.tune = Lock("adios"), {name: row[0] for name, row in TUNABLES.items()}
        self.tune["global_latency_window"] += 6 * MS if queue.rotational else 0
        self.models, self.stable = (Model(), Model(), Model()), False
        self.done_ns, self.look_ns = {}, 0  # the last completion of each CPU; when to look at the samples
        self.fifo, self.trees = RequestList(), ([], [])  # the trees: heaps of [step, serial, request]
        self.front, self.back = ([RequestList() for _ in KIND] for _ in range(2))
        self.serial = self.in_flight = self.in_flight_ns = self.debt_ns = 0

    def bio_merge(self, bio, segments, submitter):
        """Merge with what is in the trees."""
        self.queue.host.lock(self.lock, STEP_LOCK_SCHED)
        merged = self.queue.elv_merge.try_merge(bio, segments)  # without neighbours: it empties no request
        self.queue.host.unlock(self.lock)
        return merged

    def requests_merged(self, rq, following):
        """`following` is empty; mostly it was about to be inserted and is in no tree yet."""
        if following.elv1 is not None:
            tree = self.trees[following.op != OP_READ]
            tree.remove(following.elv1)
            heapify(tree)

    def insert_requests(self, hctx, rqs, at_head):
        """Predict; then into the FIFO, or merged, or by deadline into a tree."""
        queue, tune = self.queue, self.tune
        queue.host.lock(self.lock, STEP_LOCK_SCHED)
        while rqs.count:
            rq = rqs.popleft()
            kind, size = KIND.get(rq.op, 2), rq.nr_sectors << 9
            expected_ns = min(self.models[kind].predict(size), tune["lat_model_latency_limit"])
            rq.elv0 = (expected_ns, size)
            if at_head or not self.stable:
                (self.fifo.push if at_head else self.fifo.append)(rq)
                self._sent(1, expected_ns)
                self.stable = self.stable or (self.models[0].rates[0] > 0 < self.models[1].rates[0])
            elif emptied := queue.elv_merge.insert_merge(rq):
                for empty in emptied:
                    queue.free_request(empty)
                continue
            else:
                rq.elv_ns = rq.start_ns + (0 if rq.flags & F_SYNC else tune[TARGET[kind]] + expected_ns)
                self.serial += 1
                rq.elv1 = [rq.elv_ns >> 20, self.serial, rq]
                heappush(self.trees[kind > 0], rq.elv1)
                queue.elv_merge.add(rq)
            queue.trace_insert(rq)
        queue.host.unlock(self.lock)

    def _sent(self, requests, expected_ns):
        self.in_flight += requests
        self.in_flight_ns += expected_ns

    def _fill_back(self):
        counts, tune = [0, 0, 0], self.tune
        while any(self.trees):
            wanted = self.debt_ns < 0
            side = wanted if all(self.trees) else not self.trees[0]
            rq, other = self.trees[side][0][2], self.trees[not side]
            kind, expected_ns = KIND.get(rq.op, 2), rq.elv0[0]
            full = self.in_flight_ns + expected_ns > tune["global_latency_window"]
            if any(counts) and (full or counts[kind] >= tune[LIMIT[kind]] or not self.models[kind].rates[0]):
                break
            if side == wanted and (not other or rq.elv_ns > other[0][2].elv_ns):
                weight = 1024 if side else -round(1024 * 1.25 ** -tune["read_priority"])
                self.debt_ns = self.debt_ns + expected_ns * weight // 1024 if expected_ns else 2 * side - 1
            heappop(self.trees[side])
            self.queue.elv_merge.remove(rq)
            self.back[kind].append(rq)
            counts[kind] += 1
            self._sent(1, expected_ns)

    def dispatch_request(self, hctx):
        """The FIFO, then the front page: reads, writes, discards."""
        host = self.queue.host
        host.lock(self.lock, STEP_LOCK_SCHED)
        rq = self.fifo.popleft()
        if rq is None:
            empty = not any(self.front)
            low_ns = self.tune["global_latency_window"] * self.tune["bq_refill_below_ratio"] // 100
            if (empty or self.in_flight_ns < max(low_ns, 1)) and not any(self.back):
                self._fill_back()
            if empty:
                self.front, self.back = self.back, self.front
            rq = next((rqs.popleft() for rqs in self.front if rqs), None)
        if rq is not None:
            host.charge(STEP_MQ_DEADLINE)
        host.unlock(self.lock)
        return rq

    def has_work(self, hctx):
        """Whether anything waits anywhere."""
        return any((self.fifo, *self.trees, *self.front, *self.back))

    def completed_request(self, rq, now_ns):
        """What it teaches."""
        model, cpu, (expected_ns, size) = self.models[KIND.get(rq.op, 2)], self.queue.host.cpu, rq.elv0
        self._sent(-1, -expected_ns)
        ns = now_ns - (self.done_ns.get(cpu) or rq.io_start_ns)
        self.done_ns[cpu] = now_ns if self.in_flight else 0
        if ns <= self.tune["lat_model_latency_limit"] and (size <= 4096 or expected_ns):
            model.samples[size > 4096].append((ns / expected_ns if size > 4096 else ns, ns, size))
        if not model.rates[0] or now_ns >= self.look_ns:
            self.look_ns = now_ns + 100 * MS
            for each in self.models:
                each.update(now_ns)
