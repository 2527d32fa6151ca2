"""From option texts to a `JobSpec`: the settings of a section, what options do to each other, contradictions.

Theory of operation
    A section of a job file, or a stretch of a command line, collects `Settings`: values by option name, starting
    from the defaults of the option table, and the words the user gave. [global] settings are copied into each
    later job. `build_spec` then resolves them as fio does after parsing a job (sizes of I/Os from bs, bsrange
    and bssplit; depths that bound each other; alignment that turns the random map off) and refuses
    contradictions.

Deliberate differences from fio 3.33
    Errors here, silent or a line of log there: `size=0` (there: as if not given), `time_based` without `runtime`
    (there: dropped), `numjobs=0` (there: never ends). An engine's option in [global] that does not fit a job's
    own engine is dropped in fio without a word; here a note names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from blklab.core.errors import BlklabError
from blklab.workload.jobspec import MAX_JOBS, SYNC_ENGINES, JobSpec, Triple
from blklab.workload.option import Option, Status
from blklab.workload.options import (
    OPTIONS,
    Value,
    check_engine,
    find_option,
    no_effect_note,
    read_value,
)
from blklab.workload.units import Percent, parse_integer, parse_size

US = 1000  # nanoseconds


def _defaults() -> dict[str, Any]:
    values: dict[str, Any] = {
        "min_bs": (0, 0, 0),
        "max_bs": (0, 0, 0),
        "bssplit": ((), (), ()),
        "filename": (),
        "registerfiles": False,
        "fixedbufs": False,
        "ba": (0, 0, 0),
        "size": 0,
        "io_size": 0,
        "filesize": (0, 0),
        "prio": 0,
        "prioclass": 0,
        "cpus_allowed": (),
    }
    for option in OPTIONS:
        if (
            option.status is Status.MODELLED
            and option.default
            and option.name not in ("buffered", "rwmixwrite")
        ):
            _store(values, option, read_value(option, option.default))
    return values


def _spread(values: Sequence[Any], before: Sequence[Any]) -> tuple[Any, ...]:
    """Values of all directions: one given is for all, of two the second is for writes and trims, None keeps."""
    full = (list(values) + [values[-1]] * len(before))[: len(before)]
    return tuple(old if new is None else new for new, old in zip(full, before, strict=True))


def _store(values: dict[str, Any], option: Option, value: Value) -> None:
    """Put a value into `values`, with what fio does at once when it reads the option."""
    name = option.name
    data: Any = value
    if name == "filename":
        # Names add up over [global] and job; their number replaces an nrfiles before the first.
        names = split_filenames(data)
        values["nrfiles"] = (values["nrfiles"] if values["filename"] else 0) + len(names)
        values["filename"] += names
    elif name == "buffered":
        values["direct"] = not data
    elif name == "rwmixwrite":
        values["rwmixread"] = 100 - data
    elif name == "cpumask":
        values["cpus_allowed"] = data
    elif name == "bsrange":
        ranges = [(None, None) if found is None else found for found in data]
        values["min_bs"] = _spread([low for low, _ in ranges], values["min_bs"])
        values["max_bs"] = _spread([high for _, high in ranges], values["max_bs"])
    elif name == "bssplit":
        sizes = [[size for size, _ in split] for split in data]
        values["min_bs"] = _spread([min(found) if found else None for found in sizes], values["min_bs"])
        values["max_bs"] = _spread([max(found) if found else None for found in sizes], values["max_bs"])
        values["bssplit"] = _spread([split or None for split in data], values["bssplit"])
    elif name == "gtod_reduce":
        if data:
            for reduced in ("disable_lat", "disable_clat", "disable_slat", "disable_bw_measurement"):
                values[reduced] = True
            for reduced in ("clat_percentiles", "lat_percentiles", "slat_percentiles"):
                values[reduced] = False
    elif option.slots > 1:
        values[name] = _spread(data, values.get(name, (0,) * option.slots))
    else:
        values[name] = data


def _is_default(option: Option, value: Value) -> bool:
    return option.default != "" and read_value(option, option.default) == value


def split_filenames(text: str) -> tuple[str, ...]:
    """Names separated by ':' ('\\\\:' is a colon of the name), without the /dev/ in front of a device."""
    names: list[str] = []
    current = ""
    position = 0
    while position < len(text):
        if text.startswith("\\:", position):
            current += ":"
            position += 2
            continue
        if text[position] == ":":
            names.append(current)
            current = ""
        else:
            current += text[position]
        position += 1
    names.append(current)
    return tuple(name.strip().removeprefix("/dev/") for name in names if name.strip())


@dataclass(slots=True)
class Settings:
    """Options read so far for one section, a [global] or a job."""

    values: dict[str, Any] = field(default_factory=_defaults)
    engine_options: list[tuple[Option, Value, str, bool]] = field(default_factory=list)
    given: list[tuple[str, str]] = field(default_factory=list)
    global_given: tuple[tuple[str, str], ...] = ()
    notes: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)

    def copy_for_job(self) -> Settings:
        """A job's settings that start from these [global] ones."""
        return Settings(
            values={name: value for name, value in self.values.items() if name != "name"},
            engine_options=[(option, value, where, True) for option, value, where, _ in self.engine_options],
            global_given=tuple(self.given),
            notes=list(self.notes),
            places=dict(self.places),
        )

    @property
    def kb_base(self) -> int:
        """1000 or 1024, as set so far."""
        return int(self.values.get("kb_base", ("1024", ""))[0])

    def set(self, name: str, text: str | None, where: str, extra_names: Sequence[str] = ()) -> None:
        """Read one option at the place `where`; `extra_names` are more names to suggest. Raises BlklabError."""
        try:
            option = find_option(name, extra_names)
            value = read_value(option, text, self.kb_base)
        except BlklabError as error:
            raise BlklabError(error.message, where=error.where or where) from None
        self.given.append((option.name, "" if text is None else text))
        self.places[option.name] = where
        if option.status is Status.NO_EFFECT and not _is_default(option, value):
            self.notes.append(f"{where}: {no_effect_note(option)}")
        if option.engines:
            self.engine_options.append((option, value, where, False))
        else:
            _store(self.values, option, value)

    def is_given(self, name: str) -> bool:
        """The user gave this option, in this section or in a [global] one before it."""
        return name in self.places


def build_spec(settings: Settings, name: str, where: str) -> JobSpec:
    """Resolve a section's settings. `where` is the section's place. Raises BlklabError for contradictions."""
    return _Resolver(settings, name, where).spec()


class _Resolver:
    """One section's way to a spec; a class so that checks can share the place to blame and the notes."""

    def __init__(self, settings: Settings, name: str, where: str) -> None:
        self.settings = settings
        self.values = settings.values
        self.name = str(settings.values.get("name", name))
        self.where = where
        self.notes = list(settings.notes)

    def error(self, message: str, option: str = "") -> BlklabError:
        return BlklabError(message, where=self.settings.places.get(option, self.where))

    def note(self, text: str, option: str = "") -> None:
        self.notes.append(f"{self.settings.places.get(option, self.where)}: {text}")

    def word(self, name: str) -> str:
        return str(self.values[name][0])

    def extent(self, name: str) -> tuple[int, int]:
        """(bytes, percent) of an option that takes either."""
        value = self.values[name]
        return (0, value.value) if isinstance(value, Percent) else (value, 0)

    def spec(self) -> JobSpec:
        values = self.values
        rw = {"readwrite": "rw"}.get(self.word("rw"), self.word("rw"))
        seq_nr, seq_add = self.sequence_modifier(rw)
        min_bs, max_bs, ba, norandommap = self.block_sizes(rw.startswith("rand"))
        depth, batch, complete_min, complete_max, low = self.depths()
        files, nr_files, open_files = self.files()
        size, size_percent = self.sizes(min_bs)
        io_size, io_size_percent = self.extent("io_size")
        offset, offset_percent = self.extent("offset")
        increment, increment_percent = self.extent("offset_increment")
        self.times()
        self.rates()
        registerfiles, fixedbufs = self.engine_flags()
        disable_lat, disable_clat = values["disable_lat"], values["disable_clat"]
        disable_slat = values["disable_slat"]
        randseed_given = self.settings.is_given("randseed")
        return JobSpec(
            name=self.name,
            where=self.where,
            description=str(values.get("description", "")),
            ioengine=self.word("ioengine"),
            rw=rw,
            rw_seq_nr=seq_nr,
            rw_seq_add_bytes=seq_add,
            rw_sequencer=self.word("rw_sequencer"),
            rwmixread=values["rwmixread"],
            direct=values["direct"],
            filenames=files,
            directories=self.directories(),
            filename_format=str(values["filename_format"]),
            nr_files=nr_files,
            open_files=open_files,
            file_service_type=self.word("file_service_type"),
            file_service_nr=self.service_nr(),
            size_bytes=size,
            size_percent=size_percent,
            io_size_bytes=io_size,
            io_size_percent=io_size_percent,
            filesize_low_bytes=values["filesize"][0],
            filesize_high_bytes=values["filesize"][1],
            offset_bytes=offset,
            offset_percent=offset_percent,
            offset_increment_bytes=increment,
            offset_increment_percent=increment_percent,
            offset_align_bytes=values["offset_align"],
            min_bs_bytes=min_bs,
            max_bs_bytes=max_bs,
            ba_bytes=ba,
            bssplit=values["bssplit"],
            bs_unaligned=values["bs_unaligned"],
            bs_is_seq_rand=values["bs_is_seq_rand"],
            randrepeat=values["randrepeat"],
            allrandrepeat=values["allrandrepeat"],
            randseed=values["randseed"],
            randseed_given=randseed_given,
            norandommap=norandommap,
            softrandommap=values["softrandommap"],
            random_generator=self.word("random_generator"),
            random_generator_given=self.settings.is_given("random_generator"),
            percentage_random=values["percentage_random"],
            do_verify=values.get("do_verify", True),
            verify=values.get("verify", ("0", ""))[0] != "0",
            iodepth=depth,
            iodepth_batch=batch,
            iodepth_batch_complete_min=complete_min,
            iodepth_batch_complete_max=complete_max,
            iodepth_low=low,
            registerfiles=registerfiles,
            fixedbufs=fixedbufs,
            number_ios=values["number_ios"],
            loops=values["loops"],
            numjobs=values["numjobs"],
            runtime_ns=values["runtime"] * US,
            time_based=values["time_based"],
            ramp_time_ns=values["ramp_time"] * US,
            startdelay_ns=values["startdelay"][0] * US,
            startdelay_high_ns=values["startdelay"][1] * US,
            stonewall=values["stonewall"],
            wait_for=str(values.get("wait_for", "")),
            exitall=values["exitall"],
            exit_what=self.word("exit_what"),
            exitall_on_error=values["exitall_on_error"],
            thinktime_ns=values["thinktime"] * US,
            thinktime_spin_ns=min(values["thinktime_spin"], values["thinktime"]) * US,
            thinktime_blocks=values["thinktime_blocks"],
            thinktime_blocks_type=self.word("thinktime_blocks_type"),
            thinktime_iotime_ns=values["thinktime_iotime"] * US,
            rate_bytes_per_s=values["rate"],
            rate_iops=values["rate_iops"],
            rate_process=self.word("rate_process"),
            rate_ignore_thinktime=values["rate_ignore_thinktime"],
            mem=self.word("mem"),
            fsync_blocks=values["fsync"],
            fdatasync_blocks=values["fdatasync"],
            end_fsync=bool(values["end_fsync"] or values["fsync_on_close"]),
            sync={"0": "none", "1": "sync"}.get(self.word("sync"), self.word("sync")),
            thread=values["thread"],
            cpus_allowed=values["cpus_allowed"],
            cpus_allowed_policy=self.word("cpus_allowed_policy"),
            prio=values["prio"],
            prioclass=values["prioclass"],
            cgroup=str(values.get("cgroup") or ""),
            cgroup_weight=int(values.get("cgroup_weight") or 0),
            prio_given=self.settings.is_given("prio") or self.settings.is_given("prioclass"),
            group_reporting=values["group_reporting"],
            new_group=values["new_group"],
            stats=values["stats"],
            clat_percentiles=values["clat_percentiles"] and not disable_clat,
            lat_percentiles=values["lat_percentiles"] and not disable_lat,
            slat_percentiles=values["slat_percentiles"] and not disable_slat,
            percentile_list=values["percentile_list"],
            percentile_precision=self.percentile_precision(),
            disable_lat=disable_lat,
            disable_clat=disable_clat,
            disable_slat=disable_slat,
            disable_bw=values["disable_bw_measurement"],
            bwavgtime_ms=values["bwavgtime"],
            iopsavgtime_ms=values["iopsavgtime"],
            significant_figures=values["significant_figures"],
            disk_util=values["disk_util"],
            kb_base=self.settings.kb_base,
            unit_base=int(self.word("unit_base")) or 8,
            options=_last_of_each(self.settings.given),
            global_options=_last_of_each(self.settings.global_given),
            notes=tuple(self.notes),
        )

    def sequence_modifier(self, rw: str) -> tuple[int, int]:
        """(rw_seq_nr, rw_seq_add_bytes): rw=randread:8 keeps each offset for 8 I/Os, rw=write:-8k skips bytes."""
        postfix = self.values["rw"][1]
        if not postfix:
            return 1, 0
        try:
            if not rw.startswith("rand"):
                return 1, parse_size(postfix, self.settings.kb_base)
            number = parse_integer(postfix)
        except BlklabError as error:
            raise self.error(f"rw={rw}:{postfix}: {error.message}", "rw") from None
        if not 0 <= number < 1 << 31:
            raise self.error(f"rw={rw}:{postfix}: {number} I/Os per offset; accepted: 0 or more", "rw")
        return number, 0

    def service_nr(self) -> int:
        """I/Os to stay on a file."""
        postfix = self.values["file_service_type"][1]
        if not postfix:
            return 1
        try:
            number = parse_integer(postfix)
        except BlklabError as error:
            raise self.error(f"file_service_type: {error.message}", "file_service_type") from None
        if not 1 <= number < 1 << 31:
            raise self.error(
                f"file_service_type: {number} I/Os per file; accepted: 1 or more", "file_service_type"
            )
        return number

    def block_sizes(self, random: bool) -> tuple[Triple, Triple, Triple, bool]:
        """(smallest, largest, alignment, norandommap)."""
        values = self.values
        low: list[int] = [values["min_bs"][i] or values["bs"][i] for i in range(3)]
        high: list[int] = [values["max_bs"][i] or values["bs"][i] for i in range(3)]
        ba: list[int] = [values["ba"][i] if values["ba"][i] and random else low[i] for i in range(3)]
        norandommap = bool(values["norandommap"])
        if ba != low and not norandommap:
            self.note("blockalign turns the random map off, as in fio", "ba")
            norandommap = True
        return (low[0], low[1], low[2]), (high[0], high[1], high[2]), (ba[0], ba[1], ba[2]), norandommap

    def depths(self) -> tuple[int, int, int, int, int]:
        """iodepth and what it bounds, as fio's fix-up leaves them."""
        values = self.values
        depth = values["iodepth"]
        if depth > 1 and self.word("ioengine") in SYNC_ENGINES:
            self.note(
                f"ioengine={self.word('ioengine')} is synchronous: queue depth is 1, not {depth}", "iodepth"
            )
        batch = values["iodepth_batch"]
        if batch > depth or not batch:
            batch = depth
        complete_min = values["iodepth_batch_complete_min"]
        complete_max = max(complete_min, values["iodepth_batch_complete_max"])
        low = values["iodepth_low"]
        if low > depth or not low:
            low = depth
        return depth, batch, complete_min, complete_max, low

    def files(self) -> tuple[tuple[str, ...], int, int]:
        """(names, files used, files open at a time)."""
        values = self.values
        names: tuple[str, ...] = values["filename"]
        count = values["nrfiles"]
        if not names and values.get("directory"):
            openfiles = values["openfiles"]
            return (), count, min(openfiles, count) or count
        if not names:
            if count > 1:
                raise self.error(
                    f"nrfiles={count} without filename is not built yet; name {count} devices: filename=A:B",
                    "nrfiles",
                )
            if self.name.startswith("/dev/"):
                names = (self.name.removeprefix("/dev/"),)
        count = min(count, len(names)) if names else 1
        openfiles = values["openfiles"]
        return names[:count], count, min(openfiles, count) or count

    def directories(self) -> tuple[str, ...]:
        """The directories that the job's files are in, without a slash at their ends."""
        return tuple(name.rstrip("/") for name in split_filenames(str(self.values.get("directory", ""))))

    def sizes(self, min_bs: Triple) -> tuple[int, int]:
        """(size_bytes, size_percent), refusing sizes that leave nothing to do."""
        size, percent = self.extent("size")
        if self.settings.is_given("size") and not size and not percent:
            raise self.error("size=0 leaves nothing to do; without size the whole device is used", "size")
        smallest = min(min_bs)
        if size and size < smallest:
            blame = "size" if self.settings.is_given("size") else "bs"
            raise self.error(f"bs is larger than size: {smallest} > {size} bytes", blame)
        return size, percent

    def times(self) -> None:
        values = self.values
        if values["time_based"] and not values["runtime"]:
            raise self.error("time_based without a runtime has no end; add runtime=SECONDS", "time_based")
        if not 0 < values["numjobs"] <= MAX_JOBS:
            raise self.error(f"numjobs={values['numjobs']}: accepted are 1 to {MAX_JOBS}", "numjobs")
        low, high = values["startdelay"]
        if high < low:
            raise self.error(f"startdelay: {high / 1e6:g} s is less than {low / 1e6:g} s", "startdelay")
        if values.get("wait_for") == self.name:
            raise self.error(f"wait_for={self.name}: a job cannot wait for itself", "wait_for")

    def rates(self) -> None:
        if any(self.values["rate"]) and any(self.values["rate_iops"]):
            raise self.error("rate and rate_iops exclude each other; give one of them", "rate_iops")

    def engine_flags(self) -> tuple[bool, bool]:
        """registerfiles and fixedbufs, after checking that each engine option belongs to the job's engine."""
        engine = self.word("ioengine")
        flags: dict[str, Any] = {"registerfiles": False, "fixedbufs": False}
        for option, value, where, inherited in self.settings.engine_options:
            if inherited and engine not in option.engines:
                self.notes.append(f"{where}: {option.name} is ignored: this job has ioengine={engine}")
                continue
            try:
                check_engine(option, engine)
            except BlklabError as error:
                raise BlklabError(error.message, where=where) from None
            flags[option.name] = value
        return bool(flags["registerfiles"]), bool(flags["fixedbufs"])

    def percentile_precision(self) -> int:
        """Decimal places of percentiles in reports: the most that the list has."""
        default = next(option.default for option in OPTIONS if option.name == "percentile_list")
        given = dict((*self.settings.global_given, *self.settings.given))
        pieces = given.get("percentile_list", default).split(":")
        return max(len(piece.strip().partition(".")[2]) for piece in pieces)


def _last_of_each(given: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The options as given, each once with its last value, where it first stood."""
    return tuple(dict(given).items())


def check_jobs(jobs: Sequence[JobSpec]) -> None:
    """Contradictions between jobs: too many of them, and wait_for names that are not exactly one earlier job."""
    total = sum(spec.numjobs for spec in jobs)
    if total > MAX_JOBS:
        raise BlklabError(
            f"{total} jobs with their clones; at most {MAX_JOBS} are accepted", where=jobs[-1].where
        )
    for index, spec in enumerate(jobs):
        if not spec.wait_for:
            continue
        found = sum(other.name == spec.wait_for for other in jobs[:index])
        if found != 1:
            names = ", ".join(dict.fromkeys(other.name for other in jobs[:index])) or "none"
            what = f"{found or 'no'} earlier jobs have this name, not one"
            raise BlklabError(f"wait_for={spec.wait_for}: {what}; earlier jobs: {names}", where=spec.where)
