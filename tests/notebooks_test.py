#!/usr/bin/env python3
"""notebooks_test.py ROOT BUILD [NOTEBOOK ...]: executes notebooks/*.ipynb, two at a time, in a virtual
environment in the folder BUILD with what notebooks/requirements.txt pins; the reader on a large dump, on one of
several splits and heads, and on files that are no dumps, which the program refuses, too. BUILD is the launcher's build folder. Skipped (77) where PyPI is not reached.
LANESCOPE_NOTEBOOKS names a folder to keep the executed notebooks in, to look at them."""

import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from support.bad_dumps import bad_files, changed_bytes
from support.environment import environment_in

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

# What the reader says of each file of a folder: nothing where it reads it.
READ = """
import json, pathlib, sys
import lanescope
said = {}
for path in pathlib.Path(sys.argv[1]).iterdir():
    try:
        lanescope.open_dump(path)
        said[path.name] = None
    except Exception as error:
        said[path.name] = f"{type(error).__name__}: {error}"
json.dump(said, sys.stdout)
"""


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
    """A dump of 1.1 GiB, a hole: q, k, v, and k_smem of 4096 blocks of 32 tiles."""
    site = {"id": "k_smem", "stage": "load", "space": "shared", "type": "f16", "axes": "key_d", "per_tile": True,
            "rows": 64, "cols": 64, "warps": 0, "regs": 0}
    words = ["lanescope_version", "kernel", "gate", "device", "arch", "module", "input", "input_hash", "source_hash", "compile_flags", "incomplete"]
    metadata = {**dict.fromkeys(words, ""), "lanescope_dump": "1", "backend": "sim", "trace": "on", "dtype": "f16", "products": "tensor_core",
                "scores": "scaled", "seed": "0", "traced": json.dumps({"blocks": [0, 4096], "tiles": [0, 32]}), "sites": json.dumps([site]),
                "shape": json.dumps({"batch": 1, "heads": 128, "heads_kv": 128, "len_q": 2048, "len_kv": 2048, "d": 64, "causal": False}),
                "tile": json.dumps({"head_dim": 64, "br": 64, "bc": 64, "splits": 1, "heads_per_tile": 1})}
    header, size = {"__metadata__": metadata}, 0
    for name, shape in [("q", [1, 128, 2048, 64]), ("k", [1, 128, 2048, 64]), ("v", [1, 128, 2048, 64]), ("k_smem", [4096, 32, 64, 64])]:
        begin, size = size, size + 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, size]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + size)


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


def refuse_alike(python, root, build, environment):
    """The program and the reader refuse the same files, the reader with words of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        good, files = folder / "good.safetensors", folder / "files"
        files.mkdir()
        done = subprocess.run([root / "lanescope", "run", "mma", "qk_only", "--backend", "sim", "--shape", "s=100,d=64", "-o", good],
                              env=environment, capture_output=True, text=True, timeout=500)
        if done.returncode:
            return f"a dump to spoil:\n{done.stderr[-2000:]}"
        corpus = sorted((root / "tests" / "data" / "fuzz" / "dumps").iterdir())
        bad = bad_files(good)
        either = {path.name: path.read_bytes() for path in [good, *corpus]}
        either |= {f"changed {i}": file for i, file in enumerate(changed_bytes(good, 200))}
        for name, file in (bad | either).items():
            (files / name).write_bytes(file)
        done = subprocess.run([python, "-c", READ, files], env=environment, capture_output=True, text=True, timeout=300)
        if done.returncode:
            return f"the reader breaks down:\n{done.stderr[-2000:]}"
        reader, program = json.loads(done.stdout), {}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            def show(name):
                return subprocess.run([build / "gates" / "commands" / "lanescope", "show", files / name, "q"], capture_output=True, text=True, timeout=60)
            for name, done in zip(reader, pool.map(show, reader)):
                program[name] = done.stderr.strip() if done.returncode else None
    failures = []
    for name in sorted(reader):
        if (reader[name] is None) != (program[name] is None) or (name in bad and reader[name] is None):
            failures.append(f"{name}: the reader says {reader[name]}, the program {program[name]}")
        elif reader[name] is not None and not re.match(f"FileError: {re.escape(str(files / name))} is no dump, or a damaged one: .*writes one$", reader[name]):
            failures.append(f"{name}: the reader says {reader[name]}")
    if reader["good.safetensors"] is not None:
        failures.append("not even the good one is read")
    print(f"{len(reader)} files, of which {sum(said is not None for said in reader.values())} are refused by both readers")
    return "\n".join(failures)


def refuse_other_json(python, root, environment):
    """An installed reader asks the program in PATH, and takes no JSON of a version that it does not know."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        shutil.copytree(root / "notebooks" / "lanescope", folder / "site" / "lanescope")
        program = folder / "lanescope"
        ask = "import sys, lanescope\ntry: print(lanescope.ask('list'))\nexcept ValueError as error: print(error)"
        for said, wanted in [('{"schema": 1, "a": 2}', "'a': 2"), ('{"schema": 99}', "version 99"), ("{}", "version None")]:
            program.write_text(f"#!/bin/sh\necho '{said}'\n")
            program.chmod(0o755)
            done = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=100,
                                  env={**environment, "PYTHONPATH": str(folder / "site"), "PATH": f"{folder}:{environment['PATH']}"})
            if wanted not in done.stdout:
                return f"of {said} the reader says {done.stdout}{done.stderr[-2000:]}"
    return ""


def main(root, build, names):
    requirements = root / "notebooks" / "requirements.txt"
    hashed = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    python = environment_in(build / f"notebooks-{hashed}", "-r", requirements)
    if python is None:
        return 77
    environment = {**os.environ, "PYTHONPATH": str(root / "notebooks"), "LANESCOPE_BUILD": str(build),
                   "MPLBACKEND": "module://matplotlib_inline.backend_inline", "IPYTHONDIR": str(build / "ipython"), "PYTHONPYCACHEPREFIX": str(build / "pycache")}
    failures = [open_large_dump(python, environment), read_places(python, root, environment),
                refuse_alike(python, root, build, environment), refuse_other_json(python, root, environment)]
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
