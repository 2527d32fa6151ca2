"""Options of fio 3.33's I/O engines (`fio --enghelp=ENGINE`), and options that later fio versions brought.

An engine option is an option only of the jobs that use its engine. Engines that are not built are refused by name;
their options are here so that an error can say whose they are.
"""

from __future__ import annotations

from blklab.workload.option import Kind, Option, Status

_YES, _NONE, _NO = Status.MODELLED, Status.NO_EFFECT, Status.NOT_BUILT
_URING = ("io_uring", "io_uring_cmd")
_CMDPRIO = ("libaio", *_URING)


def _row(
    name: str,
    kind: Kind,
    default: str,
    status: Status,
    text: str,
    engines: tuple[str, ...],
    harmless: tuple[str, ...] = (),
    why: str = "",
    low: int | None = None,
) -> Option:
    return Option(
        name, kind, default, status, text, "engine", engines=engines, harmless=harmless, why=why, low=low
    )


# fmt: off
_BUILT_ENGINES: tuple[Option, ...] = (
    _row("userspace_reap", Kind.FLAG, "0", _NONE, "reap completions without a system call", ("libaio",),
         why="reaping costs what the cost table says"),
    _row("cmdprio_percentage", Kind.INT, "0", _NO, "share of I/Os with another priority", _CMDPRIO, ("0",)),
    _row("cmdprio_class", Kind.INT, "0", _NO, "priority class of that share", _CMDPRIO),
    _row("cmdprio", Kind.INT, "0", _NO, "priority level of that share", _CMDPRIO),
    _row("cmdprio_bssplit", Kind.TEXT, "", _NO, "share per block size", _CMDPRIO),
    _row("nowait", Kind.BOOL, "0", _NO, "fail an I/O that would sleep", (*_CMDPRIO, "pvsync2"), ("0",)),
    _row("hipri", Kind.FLAG, "0", _NO, "poll for completions", (*_URING, "pvsync2", "sg", "xnvme"), ("0",)),
    _row("hipri_percentage", Kind.INT, "100", _NO, "share of I/Os that poll", ("pvsync2",), ("0",)),
    _row("uncached", Kind.INT, "0", _NO, "leave nothing in the page cache", (*_URING, "pvsync2"), ("0",)),
    _row("fixedbufs", Kind.FLAG, "0", _YES, "map buffers once", _URING),
    _row("registerfiles", Kind.FLAG, "0", _YES, "look files up once", _URING),
    _row("sqthread_poll", Kind.FLAG, "0", _NO, "a kernel thread submits", (*_URING, "xnvme"), ("0",)),
    _row("sqthread_poll_cpu", Kind.INT, "", _NO, "CPU of that thread", _URING),
    _row("nonvectored", Kind.INT, "-1", _NONE, "commands without a vector", _URING,
         why="both kinds of command reach the block layer alike", low=-1),
    _row("force_async", Kind.INT, "0", _NO, "every so many I/Os go through a worker", _URING, ("0",)),
    _row("cmd_type", Kind.TEXT, "nvme", _NO, "kind of passthrough command", _URING, ("nvme",)),
)

# Engines that are not built: their own options, all text.
_FOREIGN: dict[str, str] = {
    "cpuio": "cpuload cpuchunks cpumode exit_on_io_done",
    "mmap": "thp",
    "net": "hostname port protocol proto nodelay listen pingpong interface ttl window_size mss",
    "netsplice": "hostname port protocol proto nodelay listen pingpong interface ttl window_size mss",
    "filestat": "stat_type",
    "exec": "program arguments grace_time std_redirect",
    "e4defrag": "donorname inplace",
    "gfapi": "volume brick single-instance",
    "gfapi_async": "volume brick single-instance",
    "mtd": "skip_bad",
    "sg": "readfua writefua sg_write_mode stream_id",
    "nbd": "uri",
    "rdma": "hostname bindname port verb proto",
    "rados": "clustername pool clientname conf busy_poll touch_objects",
    "rbd": "clustername rbdname pool clientname busy_poll",
    "dfs": "pool cont chunk_size object_class svcl",
    "http": "https http_host http_user http_pass http_s3_key http_s3_keyid http_swift_auth_token http_s3_region "
            "http_s3_sse_customer_key http_s3_sse_customer_algorithm http_s3_storage_class http_mode http_verbose",
    "nfs": "nfs_url",
    "libhdfs": "namenode hostname port hdfsdirectory chunk_size chunck_size single_instance hdfs_use_direct",
    "libiscsi": "initiator",
    "libcufile": "gpu_dev_ids cuda_io",
    "librpma_apm": "serverip port direct_write_to_pmem busy_wait_polling",
    "librpma_gpspm": "serverip port direct_write_to_pmem busy_wait_polling",
    "xnvme": "xnvme_be xnvme_async xnvme_sync xnvme_admin xnvme_dev_nsid xnvme_iovec",
}
# fmt: on


def _foreign() -> tuple[Option, ...]:
    owners: dict[str, tuple[str, ...]] = {}
    for engine, names in _FOREIGN.items():
        for name in names.split():
            owners[name] = (*owners.get(name, ()), engine)
    return tuple(
        _row(name, Kind.TEXT, "", _NO, "option of an engine that is not built", engines)
        for name, engines in owners.items()
    )


ENGINE_OPTIONS: tuple[Option, ...] = (*_BUILT_ENGINES, *_foreign())

# Brought by fio after 3.33 and used in public job files: refused as newer, not as misspelt.
# fmt: off
NEWER_OPTIONS: frozenset[str] = frozenset((
    "apptag", "apptag_mask", "dataplacement", "fdp", "fdp_pli", "fdp_pli_select", "libblkio_driver",
    "libblkio_num_entries", "libblkio_path", "libblkio_pre_connect_props", "libblkio_pre_start_props",
    "libblkio_queue_size", "log_issue_time", "log_window_value", "md_per_io_size", "num_range", "pi_act",
    "pi_chk", "plids", "random_sequence_stride", "rocm_io", "spr_num_regions", "spr_op", "sprandom",
    "steadystate_check_interval", "thinkcycles", "verify_header_seed", "verify_mode", "verify_write_sequence",
    "write_mode",
))
# fmt: on
