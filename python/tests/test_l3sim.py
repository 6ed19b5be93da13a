"""Tests of the installed package: each through the program, as a user has it."""
import csv
import io
import json
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

import pandas

import l3sim
from l3sim import _schema

SMALL = dict(model="llama-3-8b", system="gpu-only", gpus=1, trace="openr1", requests=3)


def command(*args):
    return subprocess.run([l3sim.program(), *args], check=True, capture_output=True, text=True).stdout


class Names(unittest.TestCase):
    def test_no_two_names_collide(self):
        for name, flags in _schema.FLAGS.items():
            self.assertGreater(len(flags), 4, name)
        keys = [k["key"] for k in json.loads(command("config", "keys", "--json"))["keys"]]
        self.assertEqual(len({k.replace(".", "_") for k in keys}), len(keys))
        self.assertEqual(sorted(_schema.KEYS.values()), sorted(keys))
        # A flag that is named like a key would hide it.
        self.assertEqual([n for n in _schema.FLAGS["run"] if n in _schema.KEYS and n != "preset"], [])

    def test_stubs_are_python_and_name_what_the_functions_take(self):
        text = (Path(l3sim.__file__).parent / "__init__.pyi").read_text()
        compile(text, "stubs", "exec")
        for name in ("run", "sweep", "capacity", "plan", "pim_attention", "dram_replay", "read"):
            self.assertIn(f"def {name}(", text)
        self.assertIn("node_ranksets: int", text)


class Runs(unittest.TestCase):
    def test_run_is_the_commands(self):
        got = l3sim.run(**SMALL, run_seed=2)
        with tempfile.TemporaryDirectory() as out:
            printed = command("run", "--model=llama-3-8b", "--system=gpu-only", "--gpus=1", "--trace=openr1", "--requests=3",
                              "--set=run.seed=2", "--json", f"--out={out}/a")
            row = next(csv.DictReader(io.StringIO(Path(f"{out}/a/results.csv").read_text())))
        printed = json.loads(printed)
        for took in (got.summary, printed):
            self.assertGreater(took.pop("wall_s"), 0)
        self.assertEqual(got.summary, printed)
        for name, value in row.items():
            mine = getattr(got.metrics, name.replace(".", "_"))
            kind = _schema.COLUMNS[name.replace(".", "_")]
            want = None if value == "" else value == "true" if kind is bool else kind(value)
            self.assertEqual(mine, want, name)
        self.assertEqual(len(got.requests), 3)
        self.assertEqual(got.config["run"]["seed"], 2)
        self.assertEqual(got.metrics.output_tokens, got.requests.output_tokens.sum())

    def test_several_runs(self):
        got = l3sim.run(**{**SMALL, "model": ["llama-3-8b", "llama-2-7b"]})
        self.assertEqual(list(got.frame.point), ["llama-3-8b", "llama-2-7b"])
        self.assertTrue(any("context" in n for n in got.notes), got.notes)

    def test_settings(self):
        got = l3sim.run(**SMALL, set={"gpu.gemm.overhead": "1ms"}, config={"run": {"seed": 5}})
        self.assertEqual((got.config["gpu"]["gemm"]["overhead"], got.metrics.run_seed), ("1ms", 5))

    def test_sweep_of_a_dict_goes_on_in_its_folder(self):
        points = {"set": {"run.requests": 3, "run.system": "gpu-only", "run.model": "llama-3-8b"}, "grid": {"node.gpus": [1, 2]}}
        with tempfile.TemporaryDirectory() as out:
            first = l3sim.sweep(points, out=f"{out}/s")
            again = l3sim.sweep(points, out=f"{out}/s")
            pandas.testing.assert_frame_equal(first.frame, again.frame)
            pandas.testing.assert_frame_equal(first.frame, l3sim.read(f"{out}/s"))
        self.assertEqual((first.summary["ran"], again.summary["ran"]), (2, 0))
        self.assertEqual(list(first.frame.node_gpus), [1, 2])

    def test_capacity_and_plan(self):
        keys = dict(model="llama-3-8b", system="gpu-only", isl=1000, osl=50, requests=60, slo="ttft=2s,tbt=100ms", gpu="h100-sxm", gpus=1)
        found = l3sim.capacity(**keys, users=2)
        self.assertEqual(len(found.frame), 1)
        self.assertGreater(found.frame.attainment[0], 0)
        self.assertIsInstance(l3sim.plan(**keys, rate=0.5).frame.usd_per_million_output_tokens[0], float)

    def test_devices(self):
        one = l3sim.pim_attention(2048, kv_bits=8)
        self.assertEqual(one.summary["kv_bits"], 8)
        self.assertEqual(one.commands["ACT"], one.summary["commands"]["ACT"])
        with tempfile.TemporaryDirectory() as out:
            trace = Path(out) / "requests.txt"
            trace.write_text("0x0 READ 0\n0x40 WRITE 3\n0x1000 READ 9\n")
            replay = l3sim.dram_replay(trace, ranks=2)
        self.assertEqual((replay.summary["requests"], len(replay.by_rank)), (3, 2))


class Errors(unittest.TestCase):
    def wrong(self, call, **want):
        with self.assertRaises(l3sim.Error) as caught:
            call()
        for name, value in want.items():
            self.assertEqual(getattr(caught.exception, name), value, str(caught.exception))
        return str(caught.exception)

    def test_names(self):
        self.wrong(lambda: l3sim.run(modle="x"), key="modle", nearest="model")
        self.wrong(lambda: l3sim.run(node_rankset=4), nearest="node_ranksets")
        self.wrong(lambda: l3sim.run(model="lama-3-8b"), file="--model", nearest="llama-3-8b", code=2)
        self.wrong(lambda: l3sim.run(set={"run.sytem": "l3"}), key="run.sytem", nearest="run.system")

    def test_file_and_line(self):
        with tempfile.TemporaryDirectory() as out:
            file = Path(out) / "a.toml"
            file.write_text("[run]\nrequests = 3\nseeed = 4\n")
            said = self.wrong(lambda: l3sim.run(config=file), file=str(file), line=3, key="run.seeed", nearest="run.seed")
            self.assertIn("did you mean", said)
            missing = self.wrong(lambda: l3sim.read(Path(out) / "none"), code=2)
            self.assertIn("none", missing)

    def test_failure(self):
        points = {"set": {"run.requests": 1}, "grid": {"node.gpus": [3, 8]}}
        said = self.wrong(lambda: l3sim.sweep(points))
        self.assertIn("node.gpus", said)


class TOML(unittest.TestCase):
    def test_tables_come_back(self):
        for table in (
            {"repeats": 2, "set": {"run.model": 'a"b\\\n\x7fé', "run.on": True}, "grid": {"a.b": [1, 2.5], "c": ["x"]}},
            {"points": [{"x": 1}, {"x": 2, "deep": {"y": []}}], "big": 2**62, "small": 1e-300},
        ):
            self.assertEqual(undotted(tomllib.loads(l3sim._table(table))), undotted(table))


def undotted(table):
    """A table whose dotted keys are tables, as readers of TOML see them."""
    out = {}
    for key, value in table.items():
        *path, last = key.split(".")
        at = out
        for part in path:
            at = at.setdefault(part, {})
        if isinstance(value, dict):
            at.setdefault(last, {}).update(undotted(value))
        else:
            at[last] = [undotted(v) if isinstance(v, dict) else v for v in value] if isinstance(value, list) else value
    return out


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
