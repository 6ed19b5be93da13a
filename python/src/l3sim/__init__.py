"""Simulate LLM serving on GPUs with processing-in-memory DIMMs.

Each function runs a command of the program l3sim, which this package carries. Named arguments are the command's flags and keys, with
underscores for dashes and dots: ``run(model="llama-3-8b", node_gpus=2)``. ``l3sim config keys`` lists the keys; a key that a named
table sets, such as a GPU's kernels, goes into ``set={"gpu.gemm.overhead": "2us"}``. Lists become several values.

Nothing is computed here: numbers are the program's. Columns of frames are those of results.csv, with underscores for dots.
"""
from __future__ import annotations

import contextlib
import json
import os
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pandas

from . import _schema
from ._program import Error, arguments, call, program, text
from ._schema import Metrics

__version__ = _schema.VERSION
__all__ = ["Capacity", "Error", "Metrics", "PIMAttention", "Plan", "Replay", "Run", "Sweep", "capacity", "dram_replay", "pim_attention",
           "plan", "program", "read", "run", "sweep"]


@dataclass
class Run:
    """A run: metrics are its row of results.csv, None where a value does not exist; frame has the same, a row for each of several
    runs (``run(gpu=["h100-sxm", "h200-sxm"])``), of which metrics is the first; requests has a row for each request; summary is
    the program's JSON; config is the whole configuration; notes are its warnings."""

    metrics: Metrics
    frame: pandas.DataFrame
    requests: pandas.DataFrame | None
    iterations: pandas.DataFrame | None
    summary: dict
    config: dict | None
    notes: list


@dataclass
class Sweep:
    """A sweep: frame has a row for each point, draws one for each draw of bands; summary counts finished and failed points."""

    frame: pandas.DataFrame
    draws: pandas.DataFrame | None
    summary: dict
    notes: list = field(default_factory=list)


@dataclass
class Capacity:
    """The highest rates: frame has a row for each system, model, GPU or policy; summary is the program's JSON."""

    frame: pandas.DataFrame
    summary: dict
    notes: list


@dataclass
class Plan(Capacity):
    """A plan: frame has a row for each node, the first by cost."""


@dataclass
class PIMAttention:
    """Attention of one decode step on one rank. summary is the program's JSON."""

    clocks: int
    total_clocks: int
    total_ms: float
    commands: dict
    summary: dict


@dataclass
class Replay:
    """Requests on DRAM. summary is the program's JSON; by_rank has a row for each rank."""

    end_clock: int
    gb_per_s: float
    bus_utilization: float
    by_rank: pandas.DataFrame
    summary: dict


def run(*, out=None, set=None, config=None, progress=True, **keys) -> Run:
    """Simulates a trace of requests: 'l3sim run'. Results stay in the folder out, if it is given."""
    with _folder(out) as folder, _config(config) as files:
        args = ["--json", f"--out={folder}", *files, *_sets(set), *arguments("run", keys)]
        printed, notes = call("run", args, progress)
        frame = read(folder)
        return Run(_metrics(frame), frame, _read(folder / "requests.csv"), _read(folder / "iterations.csv"), json.loads(printed),
                   _toml(folder / "config.toml"), notes)


def sweep(source, *, out=None, progress=True, **flags) -> Sweep:
    """Runs many configurations: 'l3sim sweep' of a file, or of a dict with a file's sections: set, grid, zip, points, repeats. With
    out, the same call resumes after an interruption."""
    with _folder(out) as folder, _file(source) as file:
        printed, notes = call("sweep", ["--json", f"--out={folder}", *arguments("sweep", flags), file], progress)
        return Sweep(read(folder), _read(folder / "draws.csv"), json.loads(printed), notes)


def capacity(*, set=None, config=None, progress=True, **keys) -> Capacity:
    """Finds the highest rate of requests within targets of latency: 'l3sim capacity'."""
    return Capacity(*_rows("capacity", set, config, progress, keys))


def plan(*, set=None, config=None, progress=True, **keys) -> Plan:
    """Ranks nodes that serve a model within targets of latency, by cost: 'l3sim plan'."""
    return Plan(*_rows("plan", set, config, progress, keys))


def pim_attention(context: int, *, set=None, config=None, **keys) -> PIMAttention:
    """Times attention of one decode step on one rank: 'l3sim pim attention'."""
    with _config(config) as files:
        args = ["--json", *files, *_sets(set), *arguments("pim attention", {"context": context, **keys})]
        found = json.loads(call("pim attention", args)[0])
    return PIMAttention(found["clocks"], found["total_clocks"], found["total_ms"], found["commands"], found)


def dram_replay(trace, *, set=None, **flags) -> Replay:
    """Runs a trace of memory requests through a memory system: 'l3sim dram replay'."""
    args = ["--json", *_sets(set), *arguments("dram replay", flags), os.fspath(trace)]
    found = json.loads(call("dram replay", args)[0])
    return Replay(found["end_clock"], found["gb_per_s"], found["bus_utilization"], pandas.json_normalize(found["by_rank"], sep="_"), found)


def read(folder) -> pandas.DataFrame:
    """Reads the results of a folder of --out, or a results.csv: a row for each point, columns with underscores for dots."""
    path = Path(folder)
    printed, _ = call("table", ["--format=csv", os.fspath(path)])
    return _frame(printed)


def _frame(csv: str) -> pandas.DataFrame:
    import io

    frame = pandas.read_csv(io.StringIO(csv), keep_default_na=False, na_values=[""], low_memory=False, float_precision="round_trip")
    return frame.rename(columns=lambda c: c.replace(".", "_"))


def _read(path: Path):
    return _frame(path.read_text(encoding="utf-8")) if path.exists() else None


def _toml(path: Path):
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _metrics(frame: pandas.DataFrame) -> Metrics:
    row = frame.iloc[0]
    return Metrics(**{name: None if name not in row or pandas.isna(row[name]) else kind(row[name]) for name, kind in _schema.COLUMNS.items()})


def _rows(command, set, config, progress, keys):
    with _config(config) as files:
        printed, notes = call(command, ["--json", *files, *_sets(set), *arguments(command, keys)], progress)
    found = json.loads(printed)
    return pandas.json_normalize(found["rows"], sep="_"), found, notes


def _sets(values) -> list:
    if values is not None and not isinstance(values, dict):
        raise Error(f"set: expected a dict of keys and values, as set={{'gpu.gemm.overhead': '2us'}}; found {values!r}", key="set")
    return [a for key, value in (values or {}).items() for a in ("--set", f"{key}={text(value)}")]


@contextlib.contextmanager
def _folder(out):
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="l3sim-") as folder:
        yield Path(folder) / "out"


@contextlib.contextmanager
def _file(source):
    """Returns a path unchanged; writes a dict to a TOML file."""
    if not isinstance(source, dict):
        yield os.fspath(source)
        return
    with tempfile.TemporaryDirectory(prefix="l3sim-") as folder:
        file = Path(folder) / "sweep.toml"
        file.write_text(_table(source), encoding="utf-8")
        yield os.fspath(file)


@contextlib.contextmanager
def _config(sources):
    sources = [] if sources is None else sources if isinstance(sources, (list, tuple)) else [sources]
    with contextlib.ExitStack() as stack:
        yield [f"--config={stack.enter_context(_file(s))}" for s in sources]


def _table(table: dict, name="") -> str:
    """Returns a dict as TOML: values first, then tables and lists of tables. Names with dots stay the dotted keys that they are."""
    values, tables = [], []
    for key, value in table.items():
        if isinstance(value, dict):
            tables.append(f"\n[{name}{key}]\n{_table(value, f'{name}{key}.')}")
        elif isinstance(value, (list, tuple)) and value and all(isinstance(v, dict) for v in value):
            tables += [f"\n[[{name}{key}]]\n{_table(v, f'{name}{key}.')}" for v in value]
        else:
            values.append(f"{key} = {_value(value)}\n")
    return "".join(values + tables)


def _value(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, (int, float)):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
