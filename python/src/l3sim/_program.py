"""Runs the program l3sim that the wheel carries, and turns its errors into exceptions."""
import collections
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from . import _schema


class Error(Exception):
    """An error of the program.

    file, line, key, value: where it is, as the caller gave it; expected: what would be right; nearest: the nearest valid name;
    details: what else helps; code: the program's exit code, 2 for wrong input and 1 for a failure.
    """

    def __init__(self, message, *, file="", line=0, key="", value="", expected="", nearest="", details=(), code=2):
        super().__init__("\n  ".join([message, *details]))
        self.file, self.line, self.key, self.value = file, line, key, value
        self.expected, self.nearest, self.details, self.code = expected, nearest, tuple(details), code


def program() -> str:
    """Returns the path of the program: the wheel's, or the one that the environment variable L3SIM_PROGRAM names."""
    name = "l3sim.exe" if os.name == "nt" else "l3sim"
    return os.environ.get("L3SIM_PROGRAM") or str(Path(__file__).parent / "bin" / name)


def text(value) -> str:
    """Returns a value as the command line takes it: lists with commas, true and false."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(text(v) for v in value)
    return str(value)


def arguments(command: str, given: dict) -> list:
    """Returns the flags of named arguments: names of flags, and of keys, with underscores for dashes and dots."""
    flags, out = _schema.FLAGS[command], []
    for name, value in given.items():
        if value is None:
            continue
        if name in flags:
            out.append(f"--{flags[name]}={text(value)}")
        elif name in _schema.KEYS and "set" in flags:
            out += ["--set", f"{_schema.KEYS[name]}={text(value)}"]
        else:
            known = [*flags, *(_schema.KEYS if "set" in flags else [])]
            near = next(iter(difflib.get_close_matches(name, known, 1)), "")
            hint = f"; did you mean {near!r}?" if near else ""
            raise Error(f"{name}: expected a flag of 'l3sim {command}' or a key, with underscores{hint}", key=name,
                        value=text(value), expected="a flag or a key", nearest=near)
    return out


PROGRESS = re.compile(r"^l3sim: (\d+/\d+ .*\(\d+%\).*)$")


def call(command: str, args=(), progress=True):
    """Runs a command, and returns what it printed and its notes. Raises Error where it fails."""
    options = {"start_new_session": True} if os.name == "posix" else {}
    process = subprocess.Popen([program(), *command.split(), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               encoding="utf-8", env={**os.environ, "L3SIM_ERRORS": "json"}, **options)
    notes = collections.deque(maxlen=1000)
    bar = Bar(progress)

    def listen():
        for line in process.stderr:
            line = line.rstrip("\n")
            if match := PROGRESS.match(line):
                bar.show(match[1])
            else:
                notes.append(line)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        out = process.stdout.read()
        code = process.wait()
    except BaseException:  # of the keyboard: the program finishes its journal
        process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
        process.wait()
        raise
    finally:
        listener.join()
        process.stdout.close()
        process.stderr.close()
        bar.close()
    if code == 0:
        return out, [n.removeprefix("l3sim: ") for n in notes]
    raise failure(list(notes), code)


def failure(notes: list, code: int) -> Error:
    """Returns the exception of a command's last line of standard error."""
    for line in reversed(notes):
        try:
            fault = json.loads(line)
        except ValueError:
            continue
        if isinstance(fault, dict) and "error" in fault:
            return Error(fault.pop("error"), code=code, **{k: v or () if k == "details" else v for k, v in fault.items()})
    return Error("\n".join(notes) or f"l3sim ended with {code}", code=code)


class Bar:
    """Shows a command's progress on one line of a notebook or a terminal, and nowhere else."""

    def __init__(self, wanted: bool):
        self.display, self.terminal = None, wanted and sys.stderr.isatty()
        self.wanted = wanted and "ipykernel" in sys.modules

    def show(self, line: str):
        if self.wanted:
            from IPython.display import display

            if self.display is None:
                self.display = display({"text/plain": line}, raw=True, display_id=True)
            else:
                self.display.update({"text/plain": line}, raw=True)
        elif self.terminal:
            print(f"\r{line:<100}", end="", file=sys.stderr, flush=True)

    def close(self):
        if self.terminal and not self.wanted:
            print("\r" + " " * 100, end="\r", file=sys.stderr, flush=True)
