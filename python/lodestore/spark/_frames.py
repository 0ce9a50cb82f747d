"""DataFrames as they come, as those of requests; and which host each volume is on. It must not know what is made of them."""

from typing import Any, Callable, Dict, Mapping, Union

from pyspark.sql import functions

from lodestore import _lodestore

from ._dataset import DDL

_OPS = {"R": "read", "W": "write", "T": "trim", "D": "trim", "F": "flush"}
#: Files of one trace and rows of one file that a number of requests can tell apart.
_ROW_BITS = 40


def requests_of(frame: Any, columns: Dict[str, str], trace: str) -> Any:
    """The columns of `DDL`, whatever the frame calls them."""
    theirs = {name.lower(): name for name in reversed(frame.columns)}

    def named(field: str, required: bool) -> Any:
        names = dict(dict(_lodestore.fields())[field])
        for name, unit in names.items():
            found = columns.get(name) or theirs.get(name)
            if found is not None:
                if found not in frame.columns:
                    raise ValueError(f"columns= calls {name} '{found}', and there are {', '.join(frame.columns)}")
                return functions.col(f"`{found}`"), unit
        if required:
            raise ValueError(
                f"No column for {field} among {', '.join(frame.columns)}; give columns={{'{next(iter(names))}': ...}}, by one of the "
                f"names {', '.join(names)}"
            )
        return None, 1

    def number(field: str) -> Any:
        column, unit = named(field, True)
        if unit == 0:
            return functions.unix_micros(column.cast("timestamp")) * 1000
        return column.cast("long") * unit

    op, _ = named("op", False)
    volume, _ = named("volume", False)
    seq, frame = _numbers(frame, columns, theirs)
    made = frame.select(
        functions.col(f"`{theirs['trace']}`").cast("string").alias("trace") if "trace" in theirs else functions.lit(trace).alias("trace"),
        (functions.lit(trace) if volume is None else volume.cast("string")).alias("volume"),
        number("time_ns").alias("time_ns"),
        seq.alias("seq"),
        (functions.lit("read") if op is None else _op(op)).alias("op"),
        number("offset_bytes").alias("offset_bytes"),
        number("length_bytes").alias("length_bytes"),
    )
    return made.select(*(_told(field.split(" ")[0]) for field in DDL.split(", ")))


def _told(name: str) -> Any:
    """The column, none of which may be null."""
    where = functions.concat(functions.lit(f"A request of volume "), functions.coalesce("volume", functions.lit("?")), functions.lit(f" has no {name}"))
    return functions.coalesce(functions.col(name), functions.raise_error(where)).alias(name)


def _op(column: Any) -> Any:
    letter = functions.upper(functions.substring(functions.trim(column.cast("string")), 1, 1))
    chosen = functions.when(functions.lit(False), functions.lit("read"))
    for first, name in _OPS.items():
        chosen = chosen.when(letter == first, functions.lit(name))
    wrong = functions.concat(functions.lit("op is '"), column.cast("string"), functions.lit("'; it has to be read, write, trim, discard or flush, or its first letter"))
    return chosen.otherwise(functions.raise_error(wrong))


def _numbers(frame: Any, columns: Dict[str, str], theirs: Dict[str, str]) -> Any:
    """What tells requests of the same time apart: a column, or file and row."""
    found = columns.get("seq") or theirs.get("seq")
    if found is not None:
        return functions.col(f"`{found}`").cast("long"), frame
    why = "the frame does not come from Parquet files alone"
    try:
        with_place = frame.select("*", functions.col("_metadata.file_path").alias("_file"), functions.col("_metadata.row_index").alias("_row"))
        files = sorted(row["_file"] for row in with_place.select("_file").distinct().collect())
    except Exception as error:
        raise ValueError(f"No column seq, and {why}: give columns={{'seq': ...}}, a number for requests of the same time") from error
    if len(files) >= 1 << (63 - _ROW_BITS):
        raise ValueError(f"{len(files)} files are too many to number their rows; give columns={{'seq': ...}}")
    numbers = with_place.sparkSession.createDataFrame(list(zip(files, range(len(files)))) or [("", 0)], "_file string, _number long")
    numbered = with_place.join(functions.broadcast(numbers), "_file")
    return functions.shiftleft("_number", _ROW_BITS) + functions.col("_row"), numbered


def host_rule(hosts: Union[int, str, Mapping[Any, Any]]) -> Callable[[Any], Any]:
    """Adds the column `host` to a frame with `trace` and `volume`."""
    if isinstance(hosts, str):
        if hosts != "trace":
            raise ValueError(f"hosts is {hosts!r}; it is 'trace', a number of hosts, or a mapping of traces or (trace, volume) to hosts")
        return lambda frame: frame.withColumn("host", functions.col("trace"))
    if isinstance(hosts, int):
        if hosts < 1:
            raise ValueError(f"hosts is {hosts}; write 1 or more")
        key = functions.crc32(functions.concat_ws("\0", "trace", "volume"))
        name = functions.concat(functions.lit("host-"), functions.lpad((key % hosts).cast("string"), 5, "0"))
        return lambda frame: frame.withColumn("host", name)
    whole = [(str(key), str(host)) for key, host in hosts.items() if not isinstance(key, tuple)]
    single = [(*map(str, key), str(host)) for key, host in hosts.items() if isinstance(key, tuple)]

    def add(frame: Any) -> Any:
        spark = frame.sparkSession
        names = frame.columns
        by_trace = spark.createDataFrame(whole, "trace string, _of_trace string")
        by_volume = spark.createDataFrame(single, "trace string, volume string, _of_volume string")
        joined = frame.join(functions.broadcast(by_trace), "trace", "left").join(functions.broadcast(by_volume), ["trace", "volume"], "left")
        where = functions.concat(functions.lit("Volume "), "volume", functions.lit(" of trace "), "trace", functions.lit(" has no host; add it to hosts="))
        host = functions.coalesce("_of_volume", "_of_trace", functions.raise_error(where))
        return joined.select(*names, host.alias("host"))

    return add
