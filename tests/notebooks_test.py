#!/usr/bin/env python3
"""notebooks_test.py ROOT BUILD [NOTEBOOK ...]: executes notebooks/*.ipynb, two at a time, in a virtual
environment in the folder BUILD with what notebooks/requirements.txt pins; the reader on a large dump
and on one of several splits and heads. BUILD is the launcher's build folder. Skipped (77) where PyPI is not reached.
LANESCOPE_NOTEBOOKS names a folder to keep the executed notebooks in, to look at them."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time
import venv

EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=300, resources={"metadata": {"path": sys.argv[2]}}).execute()
nbformat.write(notebook, sys.argv[3])
outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
assert any("image/png" in output.get("data", {}) for output in outputs), "it draws nothing"
assert not any(output.get("name") == "stderr" for output in outputs), "it warns: " + str(outputs)
"""

OPEN = """
import resource, sys, time
import numpy, xarray, ml_dtypes, lanescope
start = time.monotonic()
dump = lanescope.open_dump(sys.argv[1])
assert dump.k_smem.shape == (4096, 32, 64, 64) and float(dump.k_smem[4095, 31, 63, 63]) == 0
assert float(lanescope.logical(dump, "k_smem", block=33, tile=31).sel(key=2047, d=63)) == 0
print(time.monotonic() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""

# Which rows of Q and K the tiles of a dump hold, by the reader's coordinates.
PLACES = """
import sys
import numpy as np
import lanescope
dump = lanescope.open_dump(sys.argv[1])
shape, checked = dump.attrs["shape"], {"q_smem": 0, "k_smem": 0, "s": 0, "o_partial": 0}
for block in dump.block.data:
    b = int(dump.batch.sel(block=block))
    for tile in dump.tile.data:
        q, k, s = (lanescope.logical(dump, name, block, tile) for name in ["q_smem", "k_smem", "s"])
        heads, queries = q["head"].data, q["query"].data
        kv_heads = heads * shape["heads_kv"] // shape["heads"]
        assert len(set(kv_heads)) == 1 and (q.data == dump.q.data[b, heads, queries]).all()
        assert (k.data == dump.k.data[b, kv_heads[0], k["key"].data]).all()
        assert (s["query"].data == queries).all() and (s["key"].data == k["key"].data).all()
        if s.size:
            assert np.allclose(s, q.data @ k.data.T, atol=0.01), "these scores are not of these queries and keys"
        checked["q_smem"] += q.size
        checked["k_smem"] += k.size
        checked["s"] += s.size
    checked["o_partial"] += lanescope.logical(dump, "o_partial", block).size
copies = shape["batch"] * shape["heads_kv"]
assert checked["s"] == shape["batch"] * shape["heads"] * shape["len_q"] * shape["len_kv"], checked
assert checked["k_smem"] == copies * shape["len_kv"] * shape["d"], checked
assert checked["o_partial"] == 3 * dump.q.size, checked
"""


def environment_in(build, requirements):
    """The Python of the virtual environment; None where it cannot be made, with the reason printed."""
    folder = build / ("notebooks-" + hashlib.sha256(requirements.read_bytes()).hexdigest()[:12])
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    try:
        venv.create(folder, clear=True, with_pip=True)
    except subprocess.CalledProcessError:
        print("skipped: this Python makes no virtual environments (Debian: apt-get install python3-venv)")
        return None
    done = subprocess.run([python, "-m", "pip", "-q", "--disable-pip-version-check", "install", "-r", requirements],
                          capture_output=True, text=True, timeout=600)
    if re.search("NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError", done.stderr) and done.returncode:
        print("skipped: pip does not reach PyPI:", done.stderr[-1000:])
        return None
    if done.returncode:
        raise SystemExit(f"pip does not install notebooks/requirements.txt:\n{done.stderr[-4000:]}")
    (folder / "complete").touch()
    return python


def execute(python, notebook, environment):
    """What went wrong, nothing where all cells ran."""
    cells = json.loads(notebook.read_text())["cells"]
    if any(cell.get("outputs") or cell.get("execution_count") for cell in cells):
        return f"{notebook.name} is committed with outputs"
    with tempfile.TemporaryDirectory() as scratch:
        kept = pathlib.Path(os.environ.get("LANESCOPE_NOTEBOOKS", scratch)) / notebook.name
        done = subprocess.run([python, "-c", EXECUTE, notebook, scratch, kept], env=environment,
                              capture_output=True, text=True, timeout=500)
    if not done.returncode:
        return ""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
    return f"{notebook.name}:\n" + "\n".join(plain.strip().splitlines()[-20:])


def write_large_dump(path):
    """A dump of 1 GiB, a hole: k_smem of 4096 blocks of 32 tiles."""
    site = {"id": "k_smem", "stage": "load", "space": "shared", "type": "f16", "axes": "key_d", "per_tile": True,
            "rows": 64, "cols": 64, "warps": 0, "regs": 0}
    metadata = {"lanescope_dump": "1", "traced": json.dumps({"blocks": [0, 4096], "tiles": [0, 32]}), "sites": json.dumps([site]),
                "shape": json.dumps({"batch": 1, "heads": 128, "heads_kv": 128, "len_q": 2048, "len_kv": 2048, "d": 64}),
                "tile": json.dumps({"br": 64, "bc": 64, "splits": 1, "heads_per_tile": 1})}
    size = 4096 * 32 * 64 * 64 * 2
    header = json.dumps({"__metadata__": metadata, "k_smem": {"dtype": "F16", "shape": [4096, 32, 64, 64],
                                                              "data_offsets": [0, size]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)


def open_large_dump(python, environment):
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "large.safetensors"
        write_large_dump(path)
        done = subprocess.run([python, "-c", OPEN, path], env=environment, capture_output=True, text=True, timeout=100)
    if done.returncode:
        return f"a dump of 1 GiB:\n{done.stderr[-4000:]}"
    seconds, mebibytes = map(float, done.stdout.split())
    print(f"a dump of 1 GiB opens in {seconds:.3f} s, {mebibytes:.0f} MiB at most")
    return "" if seconds < 2 and mebibytes < 500 else "that is too much"


def read_places(python, root, environment):
    """Three splits, four heads in a tile of Q, the last tile of K ragged."""
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "places.safetensors"
        run = [root / "lanescope", "run", "splitk", "fused", "--backend", "sim", "--shape", "b=2,h=8,hkv=2,s=3,skv=230,d=64",
               "--splits", "3", "-o", path]
        for command in [run, [python, "-c", PLACES, path]]:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
            if done.returncode:
                return f"places of splitk:\n{done.stderr[-2000:]}"
    return ""


def main(root, build, names):
    python = environment_in(build, root / "notebooks" / "requirements.txt")
    if python is None:
        return 77
    environment = {**os.environ, "PYTHONPATH": str(root / "notebooks"), "LANESCOPE_BUILD": str(build),
                   "MPLBACKEND": "module://matplotlib_inline.backend_inline", "IPYTHONDIR": str(build / "ipython"), "PYTHONDONTWRITEBYTECODE": "1"}
    failures = [open_large_dump(python, environment), read_places(python, root, environment)]
    notebooks = [path for path in sorted((root / "notebooks").glob("*.ipynb")) if not names or path.stem in names]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        start = time.monotonic()
        for notebook, failure in zip(notebooks, pool.map(lambda path: execute(python, path, environment), notebooks)):
            print(f"{notebook.name}: {'FAILED' if failure else 'ok'}, {time.monotonic() - start:.0f} s so far", flush=True)
            failures.append(failure)
    print(*filter(None, failures), sep="\n")
    return 1 if any(failures) else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]))
