"""Runs notebooks from start to end: execute.py [--write] FILE... With --write their outputs are kept."""
import sys

import nbclient
import nbformat

write = "--write" in sys.argv
for name in (a for a in sys.argv[1:] if a != "--write"):
    book = nbformat.read(name, as_version=4)
    nbclient.NotebookClient(book, timeout=None, kernel_name="python3", resources={"metadata": {"path": "."}}).execute()
    for cell in book.cells:
        cell.get("metadata", {}).pop("execution", None)  # times of day
    if write:
        nbformat.write(book, name)
    print(name, "runs")
