"""What a scheduler is: the base class, its hooks, and the registry.

A scheduler is one class in one file. The smallest one:

    from blklab import Elevator, RequestList, register

    @register("lifo")
    class Lifo(Elevator):
        def __init__(self, queue):
            super().__init__(queue)
            self.rqs = RequestList()

        def insert_requests(self, hctx, rqs, at_head):
            while rqs.count:
                rq = rqs.popleft()
                rq.queue.trace_insert(rq)
                self.rqs.append(rq)

        def dispatch_request(self, hctx):
            return self.rqs.pop()

        def has_work(self, hctx):
            return self.rqs.count > 0

Theory of operation
-------------------
The hooks are those of struct elevator_mq_ops, called at the same places. The three above are needed, all others have
defaults that do nothing. What costs time on every bio is called only where a subclass has defined it: `hooks` says
which (a sum of HOOK_ bits), found once per class when the scheduler is attached.

Built-in schedulers use nothing but this interface: everything they touch is public on `Request`, `HardwareQueue`,
`RequestQueue` and in `block.merge`, so that a copy of a built-in file outside the package works as it stands.

'none' is no scheduler, as in the kernel: `queue.elevator` is None.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from blklab.block.consts import MAY_QUEUE, TR_MSG
from blklab.block.features import SINGLE_QUEUE_SCHEDULERS
from blklab.core.errors import BlklabError, nearest

if TYPE_CHECKING:
    from blklab.block.attributes import Attribute
    from blklab.block.bio import Bio
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request, RequestList
    from blklab.block.submit import Submitter

HOOKS = {
    "limit_depth": 1,
    "bio_merge": 2,
    "allow_merge": 4,
    "prepare_request": 8,
    "finish_request": 16,
    "completed_request": 32,
    "requeue_request": 64,
}


class Elevator:
    """Base of schedulers. `queue` is the queue it schedules; one object a queue, made anew at each switch."""

    # Attributes below queue/iosched, as literal data: see block/attributes.py
    tunables: tuple[Attribute, ...] = ()
    # The kernel feature without which a kernel version lacks this scheduler; None: always there
    feature: str | None = None
    # One order for the whole device (QUEUE_FLAG_SQ_SCHED): running all hardware queues runs one, which serves all
    sq_sched = False
    # For the single queue of kernels before 5.0 (block/legacy.py), not for blk-mq: the hooks at the end are its own
    single_queue = False

    def __init__(self, queue: RequestQueue) -> None:
        self.queue = queue
        self.hooks = 0
        for hook, bit in HOOKS.items():
            if getattr(type(self), hook) is not getattr(Elevator, hook):
                self.hooks |= bit

    # -- life ------------------------------------------------------------------

    def init_hctx(self, hctx: HardwareQueue) -> None:
        """A hardware queue is there (`hctx.sched_data` is yours); called for each, after __init__."""

    def depth_updated(self, hctx: HardwareQueue) -> None:
        """`queue.nr_requests` has been changed (before 6.13 the hook sees the new depth one write later)."""

    def exit(self) -> None:
        """The scheduler is switched off; nothing is in flight."""

    def exit_icq(self, submitter: Submitter) -> None:
        """A task that may have sent requests here has ended: what you keep for it can go."""

    # -- a bio comes -----------------------------------------------------------

    def limit_depth(self, bio: Bio) -> int:
        """How many bits of each word of the scheduler tags a request for `bio` may use; 0: no limit. Not asked for
        bios with preflush or FUA, unless their data passes the scheduler (flush_data_scheduled)."""
        return 0

    def bio_merge(self, bio: Bio, segments: int, submitter: Submitter) -> bool:
        """Merge a bio with a request you hold (block.merge has the helpers): whether you did."""
        return False

    def allow_merge(self, rq: Request, bio: Bio) -> bool:
        """Whether `bio` may be merged into `rq`, which touches it."""
        return True

    def request_merge(self, bio: Bio) -> Request | None:
        """For `queue.elv_merge`: a request you hold that begins where `bio` ends (a front merge), or None."""
        return None

    def latter_request(self, rq: Request) -> Request | None:
        """For `queue.elv_merge`: the request behind `rq` in your order by sector, or None."""
        return None

    def former_request(self, rq: Request) -> Request | None:
        """For `queue.elv_merge`: the request before `rq` in your order by sector, or None."""
        return None

    def request_merged(self, rq: Request, kind: int) -> None:
        """A bio was merged into `rq`, MERGE_BACK or MERGE_FRONT: its place in your order may have changed."""

    def requests_merged(self, rq: Request, following: Request) -> None:
        """All of `following` was merged into `rq`: take `following` out of your lists."""

    # -- a request's life ------------------------------------------------------

    def prepare_request(self, rq: Request) -> None:
        """A request has been allocated for `rq.submitter`; its bio is not known yet."""

    def insert_requests(self, hctx: HardwareQueue, rqs: RequestList, at_head: bool) -> None:
        """Take all of `rqs` out and queue them; call `rq.queue.trace_insert(rq)` for each one queued."""
        raise NotImplementedError

    def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
        """The next request to issue, or None. May be of another hardware queue."""
        raise NotImplementedError

    def has_work(self, hctx: HardwareQueue) -> bool:
        """Whether `dispatch_request` could return one. May be wrong towards True, never towards False."""
        raise NotImplementedError

    def completed_request(self, rq: Request, now_ns: int) -> None:
        """The driver has completed it; called before its bios' submitters can send more. As in the kernel also for
        requests with preflush or FUA, which you may never have got, and twice if they are data of a flush sequence."""

    def requeue_request(self, rq: Request) -> None:
        """It comes back to be inserted again."""

    def finish_request(self, rq: Request) -> None:
        """It is about to be freed: completed, or merged away. Called once for each prepare_request."""

    # -- only on a single queue (`single_queue`) -----------------------------------

    def may_queue(self, submitter: Submitter, op: int, flags: int) -> int:
        """Before a request is allocated: MAY_QUEUE, MUST_QUEUE (even if there are too many), or NO_QUEUE."""
        return MAY_QUEUE

    def set_request(self, rq: Request, bio: Bio) -> None:
        """`rq` has been allocated for `bio`, which `rq.submitter` submits. `finish_request` is its counterpart."""

    def bio_merged(self, rq: Request, bio: Bio) -> None:
        """`bio` was merged into `rq`, after `request_merged`."""

    def add_request(self, rq: Request) -> None:
        """Take a request. The path has traced I."""
        raise NotImplementedError

    def dispatch_requests(self, force: bool) -> int:
        """Move requests to the dispatch list by `queue.legacy.dispatch_sort` or `dispatch_add_tail`: how many. `force`:
        all of them, since the scheduler is to be switched."""
        raise NotImplementedError

    def activate_request(self, rq: Request) -> None:
        """It goes to the driver."""

    def deactivate_request(self, rq: Request) -> None:
        """The driver gave it back: it waits at the head of the dispatch list."""

    # -- what it shows ---------------------------------------------------------

    def attributes(self) -> list[Attribute]:
        """Attributes below queue/iosched: by default the tunables."""
        return list(self.tunables)

    def debug_attributes(self) -> list[Attribute]:
        """Attributes below sched (debugfs); `get` is given this object."""
        return []

    def hctx_attributes(self, hctx: HardwareQueue) -> list[Attribute]:
        """Attributes below hctxN/sched (debugfs); `get` is given the hardware queue."""
        return []

    def log(self, text: str) -> None:
        """A message in the trace ('m N text'). Test `queue.trace_mask & TR_MSG` first where it is hot."""
        queue = self.queue
        if queue.trace_mask & TR_MSG and queue.tracer is not None:
            queue.tracer.message(queue.number, text)


# name -> class, as far as they have been loaded
ELEVATORS: dict[str, Callable[[RequestQueue], Elevator]] = {}

# The folder of the built-in ones: module `mq_deadline` there registers "mq-deadline" when it is loaded
BUILT_IN = "blklab.elevator"


def register(name: str) -> Callable[[type[Elevator]], type[Elevator]]:
    """Class decorator: the scheduler can be chosen as `name`. A compiled class cannot be decorated: call
    `register(name)(Class)` behind it."""

    def add(cls: type[Elevator]) -> type[Elevator]:
        ELEVATORS[name] = cls
        return cls

    return add


def _module_of(name: str) -> str:
    # As the kernel's elevator_get loads the module NAME-iosched
    return f"{BUILT_IN}.{name.replace('-', '_')}"


def built_in_names(single_queue: bool | None = None) -> list[str]:
    """The schedulers of the folder elevator/; of those only the ones of the single queue, or only the others."""
    folder = importlib.import_module(BUILT_IN).__path__
    names = sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(folder))
    if single_queue is None:
        return names
    return [name for name in names if (name in SINGLE_QUEUE_SCHEDULERS) == single_queue]


def _load_entry_points() -> None:
    for point in importlib.metadata.entry_points(group="blklab.elevators"):
        if point.name not in ELEVATORS:
            ELEVATORS[point.name] = point.load()


def _import_file(path: Path) -> ModuleType:
    folder = path.parent
    if (folder / "__init__.py").is_file():
        # A scheduler in several files is a package: they import each other by its name
        if str(folder.parent) not in sys.path:
            sys.path.insert(0, str(folder.parent))
        module = importlib.import_module(f"{folder.name}.{path.stem}")
        if module.__file__ is None or Path(module.__file__).resolve() != path:
            raise ImportError(f"another package is loaded under the name {folder.name}: {module.__file__}")
        return module
    module_spec = importlib.util.spec_from_file_location(f"blklab_user_{path.stem}", path)
    if module_spec is None or module_spec.loader is None:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module
    module_spec.loader.exec_module(module)
    return module


def _load_file(spec: str) -> Callable[[RequestQueue], Elevator]:
    # "path/to/file.py:Class"
    path_text, _, class_name = spec.rpartition(":")
    path = Path(path_text)
    if not path.is_file():
        raise BlklabError(f"no such file: {path_text}", where=f"scheduler {spec}")
    try:
        module = _import_file(path.resolve())
    except Exception as error:
        raise BlklabError(
            f"cannot be loaded: {type(error).__name__}: {error}", where=f"scheduler {spec}"
        ) from error
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, Elevator)):
        classes = [n for n, c in vars(module).items() if isinstance(c, type) and issubclass(c, Elevator)]
        names = ", ".join(n for n in classes if n != "Elevator") or "none"
        raise BlklabError(
            f"no Elevator class {class_name!r} there; it has: {names}", where=f"scheduler {spec}"
        )
    return found


def find_elevator(name: str | type[Elevator]) -> Callable[[RequestQueue], Elevator] | None:
    """The class of a scheduler: by registered name, entry point, 'file.py:Class', or itself. None for 'none'."""
    if not isinstance(name, str):
        return name
    if name == "none":
        return None
    if ".py:" in name:
        return _load_file(name)
    if name.endswith(".py"):
        raise BlklabError(f"name the class as well: {name}:CLASS", where=f"scheduler {name}")
    if name not in ELEVATORS:
        if name in built_in_names():
            importlib.import_module(_module_of(name))
        else:
            _load_entry_points()
    if name not in ELEVATORS:
        known = elevator_names()
        raise BlklabError(
            f"no scheduler {name!r}; there are {', '.join(known)}, and file.py:Class" + nearest(name, known)
        )
    return ELEVATORS[name]


def elevator_names() -> list[str]:
    """All that can be chosen by name, 'none' first."""
    _load_entry_points()
    return ["none", *sorted({*ELEVATORS, *built_in_names()})]
