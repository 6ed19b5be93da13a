"""Writes the package's tables from the program itself: names of keys, flags and columns, and type stubs.

    python3 schema.py PROGRAM FOLDER
"""
import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = ["run", "sweep", "capacity", "plan", "pim attention", "dram replay"]
KINDS = {"text": "str", "integer": "int", "unsigned integer": "int", "real": "float", "true or false": "bool"}
TAKES = {"true or false": "bool", "whole number": "int", "number": "float"}


def ask(program, *args):
    return subprocess.run([program, *args], check=True, capture_output=True, text=True, encoding="utf-8").stdout


def flags(program, command):
    """The flags of a command as its completion lists them, by the name of an argument."""
    names = [line.split("\t")[0] for line in ask(program, "__complete", *command.split(), "--").splitlines() if line.startswith("--")]
    return {n[2:].replace("-", "_"): n[2:] for n in names if n not in ("--help", "--json", "--quiet")}


def unique(names):
    """Names with underscores for dots. All must differ."""
    out = {}
    for name in names:
        key = name.replace(".", "_")
        if key in out:
            raise SystemExit(f"{name} and {out[key]} are both {key}")
        out[key] = name
    return out


def stub(source, known, keys, columns):
    """The package's functions with all arguments by name, from its own source."""
    module = ast.parse(source)
    lines = ["import pandas", "from pathlib import Path", "from typing import Any", ""]
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            lines.append(f"class {node.name}({', '.join(ast.unparse(b) for b in node.bases)}):" if node.bases else f"class {node.name}:")
            fields = [f"    {ast.unparse(f.target)}: {ast.unparse(f.annotation)}" for f in node.body if isinstance(f, ast.AnnAssign)]
            lines += fields or ["    ..."]
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            args, command = node.args, node.name.replace("_", " ", 1)
            named = [f"{a.arg}: {ast.unparse(a.annotation) if a.annotation else 'Any'}" for a in args.args]
            named += ["*"] if args.kwonlyargs else []
            own = {a.arg for a in args.args + args.kwonlyargs}
            named += [f"{a.arg}: Any = ..." for a in args.kwonlyargs]
            if args.kwarg:
                named += [f"{n}: Any = ..." for n in known[command] if n not in own]
                if "set" in known[command]:
                    named += [f"{n}: {t} | list[{t}] = ..." for n, t in keys.items() if n not in known[command] and n not in own]
            lines.append(f"def {node.name}({', '.join(named)}) -> {ast.unparse(node.returns)}: ...")
    lines += ["class Metrics:", *(f"    {n}: {k} | None  # {m}" for n, (k, m) in columns.items())]
    lines += ["class Error(Exception):", "    file: str", "    line: int", "    key: str", "    value: str", "    expected: str",
              "    nearest: str", "    details: tuple[str, ...]", "    code: int", "def program() -> str: ...", "__version__: str"]
    return "\n".join(lines) + "\n"


def main(program, folder):
    folder = Path(folder)
    keys = {k["key"]: k["takes"] for k in json.loads(ask(program, "config", "keys", "--json"))["keys"]}
    with tempfile.TemporaryDirectory() as out:
        ask(program, "run", "--requests=1", f"--out={out}/run")
        listed = json.loads(ask(program, "table", f"{out}/run", "--list-columns", "--json"))["columns"]
    known = {c: flags(program, c) for c in COMMANDS}
    names = unique(keys)
    columns = {n: next(c for c in listed if c["name"] == name) for n, name in unique(c["name"] for c in listed).items()}
    version = json.loads(ask(program, "version", "--json"))["version"].removeprefix("v")
    lines = ['"""Written by schema.py from the program."""', "from dataclasses import dataclass", "", f"VERSION = {version!r}",
             f"KEYS = {names!r}", f"FLAGS = {known!r}",
             "COLUMNS = {" + ", ".join(f"{n!r}: {KINDS[c['kind']]}" for n, c in columns.items()) + "}", "", "", "@dataclass",
             "class Metrics:", '    """A row of results.csv; None if a value does not exist."""', ""]
    lines += [f"    {n}: {KINDS[c['kind']]} | None" for n, c in columns.items()]
    (folder / "_schema.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = stub((folder / "__init__.py").read_text(encoding="utf-8"), known, {n: TAKES.get(keys[k], "str") for n, k in names.items()},
                {n: (KINDS[c["kind"]], c["meaning"] or c["name"]) for n, c in columns.items()})
    (folder / "__init__.pyi").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
