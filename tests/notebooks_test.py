#!/usr/bin/env python3
"""notebooks_test.py ROOT BUILD [NOTEBOOK ...]: executes notebooks/*.ipynb, each in a Jupyter kernel of its own, two at
a time, in a virtual environment in the folder BUILD with what notebooks/requirements.txt pins for that; the reader on a large dump, on one of
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

# Shows notebooks in a browser, and takes two fifths of what pip takes for all; that it installs beside the others is a
# step of .ci/run.
UNUSED = "jupyterlab"

# Executes each notebook of the folder argv[1], in a folder of its own there, and writes it to argv[2]; then says what
# went wrong with which. One process drives all kernels: what it imports takes as long as a small notebook.
EXECUTE = """
import asyncio, json, pathlib, sys, traceback
import nbformat
from nbclient import NotebookClient
at_once = asyncio.Semaphore(2)

async def execute(path):
    folder = path.with_suffix("")
    folder.mkdir()
    notebook = nbformat.read(path, 4)
    await NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).async_execute()
    nbformat.write(notebook, pathlib.Path(sys.argv[2], path.name))
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs), "it draws nothing"
    assert not any(output.get("name") == "stderr" for output in outputs), "it warns: " + str(outputs)

async def failure_of(path):
    async with at_once:
        try:
            await execute(path)
        except Exception:
            return traceback.format_exc()

async def main():
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.ipynb"))
    failures = await asyncio.gather(*map(failure_of, paths))
    json.dump({path.name: failure for path, failure in zip(paths, failures)}, sys.stdout)

asyncio.run(main())
"""

# What the reader makes of a large dump, argv[1]; of argv[2], whose tiles hold which rows of Q and K it says by its
# coordinates; of each file of the folder argv[3]: nothing where it reads it, else its words. In one process, for
# what it imports takes longer than all of that.
READ = """
import json, pathlib, resource, sys, time
import numpy as np, xarray, ml_dtypes, lanescope

start = time.monotonic()
dump = lanescope.open_dump(sys.argv[1])
assert dump.k_smem.shape == (4096, 32, 64, 64) and float(dump.k_smem[4095, 31, 63, 63]) == 0
assert float(lanescope.logical(dump, "k_smem", block=33, tile=31).sel(key=2047, d=63)) == 0
seconds, mebibytes = time.monotonic() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

dump = lanescope.open_dump(sys.argv[2])
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

said = {}
for path in pathlib.Path(sys.argv[3]).iterdir():
    try:
        lanescope.open_dump(path)
        said[path.name] = None
    except Exception as error:
        said[path.name] = f"{type(error).__name__}: {error}"
json.dump({"seconds": seconds, "mebibytes": mebibytes, "said": said}, sys.stdout)
"""

# An installed reader, asking one program in PATH after the other: argv[1] is where each is put, the others are what they say.
ASK = """
import pathlib, sys, lanescope
program = pathlib.Path(sys.argv[1])
for said in sys.argv[2:]:
    program.write_text(f"#!/bin/sh\\necho '{said}'\\n")
    program.chmod(0o755)
    try:
        print(lanescope.ask("list"))
    except ValueError as error:
        print(error)
"""


def execute(python, notebooks, environment):
    """What went wrong with notebooks, by name: nothing where all cells ran."""
    failures = {}
    with tempfile.TemporaryDirectory() as scratch:
        for notebook in notebooks:
            cells = json.loads(notebook.read_text())["cells"]
            if any(cell.get("outputs") or cell.get("execution_count") for cell in cells):
                failures[notebook.name] = "it is committed with outputs"
            shutil.copy(notebook, scratch)
        kept = pathlib.Path(scratch) / "executed"
        kept.mkdir()
        done = subprocess.run([python, "-c", EXECUTE, scratch, os.environ.get("LANESCOPE_NOTEBOOKS", kept)], env=environment,
                              capture_output=True, text=True, timeout=800)
    if done.returncode:
        return {"notebooks": done.stderr[-4000:]}
    said = json.loads(done.stdout)
    assert set(said) == {notebook.name for notebook in notebooks}, said
    for name, failure in said.items():
        if failure:
            plain = re.sub(r"\x1b\[[0-9;]*m", "", failure)
            failures.setdefault(name, "\n".join(plain.strip().splitlines()[-20:]))
    return failures


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


def read_dumps(python, root, build, environment):
    """A dump of 1 GiB is opened at once; of one with three splits, four heads in a tile of Q and a ragged last tile of
    K the places are right; the program and the reader refuse the same files, the reader with words of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        large, places, good, files = (folder / name for name in
                                      ["large.safetensors", "places.safetensors", "good.safetensors", "files"])
        write_large_dump(large)
        for path, words in [(places, "splitk fused --shape b=2,h=8,hkv=2,s=3,skv=230,d=64 --splits 3"),
                            (good, "mma qk_only --shape s=100,d=64")]:
            done = subprocess.run([root / "lanescope", "run", *words.split(), "--backend", "sim", "-o", path], env=environment,
                                  capture_output=True, text=True, timeout=500)
            if done.returncode:
                return f"run {words}:\n{done.stderr[-2000:]}"
        files.mkdir()
        corpus = sorted((root / "tests" / "data" / "fuzz" / "dumps").iterdir())
        bad = bad_files(good)
        either = {path.name: path.read_bytes() for path in [good, *corpus]}
        either |= {f"changed {i}": file for i, file in enumerate(changed_bytes(good, 200))}
        for name, file in (bad | either).items():
            (files / name).write_bytes(file)
        done = subprocess.run([python, "-c", READ, large, places, files], env=environment, capture_output=True, text=True, timeout=400)
        if done.returncode:
            return f"the reader:\n{done.stderr[-4000:]}"
        answer, program = json.loads(done.stdout), {}
        reader = answer["said"]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            def show(name):
                return subprocess.run([build / "gates" / "commands" / "lanescope", "show", files / name, "q"], capture_output=True, text=True, timeout=60)
            for name, done in zip(reader, pool.map(show, reader)):
                program[name] = done.stderr.strip() if done.returncode else None
    failures = []
    print(f"a dump of 1 GiB opens in {answer['seconds']:.3f} s, {answer['mebibytes']:.0f} MiB at most")
    if not (answer["seconds"] < 2 and answer["mebibytes"] < 500):
        failures.append("that is too much")
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
        cases = [('{"schema": 1, "a": 2}', "'a': 2"), ('{"schema": 99}', "version 99"), ("{}", "version None")]
        done = subprocess.run([python, "-c", ASK, folder / "lanescope", *[said for said, _ in cases]], capture_output=True, text=True,
                              timeout=100, env={**environment, "PYTHONPATH": str(folder / "site"), "PATH": f"{folder}:{environment['PATH']}"})
        answers = done.stdout.splitlines()
        if len(answers) != len(cases):
            return f"the reader says {done.stdout}{done.stderr[-2000:]}"
        for (said, wanted), answer in zip(cases, answers):
            if wanted not in answer:
                return f"of {said} the reader says {answer}"
    return ""


def main(root, build, names):
    requirements = root / "notebooks" / "requirements.txt"
    wanted = [line for line in requirements.read_text().splitlines() if not line.startswith(("#", UNUSED))]
    hashed = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:12]
    python = environment_in(build / f"notebooks-{hashed}", *wanted)
    if python is None:
        return 77
    environment = {**os.environ, "PYTHONPATH": str(root / "notebooks"), "LANESCOPE_BUILD": str(build),
                   "MPLBACKEND": "module://matplotlib_inline.backend_inline", "IPYTHONDIR": str(build / "ipython"), "PYTHONPYCACHEPREFIX": str(build / "pycache")}
    failures = [read_dumps(python, root, build, environment), refuse_other_json(python, root, environment)]
    notebooks = [path for path in sorted((root / "notebooks").glob("*.ipynb")) if not names or path.stem in names]
    start = time.monotonic()
    wrong = execute(python, notebooks, environment)
    print(f"{len(notebooks)} notebooks, {len(wrong)} of them fail, {time.monotonic() - start:.0f} s")
    failures += [f"{name}:\n{words}" for name, words in wrong.items()]
    print(*filter(None, failures), sep="\n")
    return 1 if any(failures) else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]))
