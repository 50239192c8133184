#!/usr/bin/env python3
"""capture_dumps.py PROGRAM OUTPUT.tar.xz [--backend cuda] [--commit HASH]: dumps of every kernel, gate
and type that PROGRAM lists, run on the GPU at hand, packed into one file with how they came to be.

tests/gpu_dumps_test.py holds the SIMT machine to every bit of it. PROGRAM runs as it is: in a checkout,
LANESCOPE_NINJA lets it build its modules; elsewhere LANESCOPE_MODULES says where they lie.
"""

import argparse
import io
import json
import lzma
import pathlib
import shlex
import struct
import subprocess
import sys
import tarfile
import tempfile

# Two query heads on one key head, ragged last tiles, tiles on the diagonal; then scores so large that
# rows are all but one-hot, from columns that fill no tile.
RUNS = {"causal": ["--shape", "b=1,h=2,hkv=1,s=70,d=64", "--causal", "--seed", "1"],
        "large": ["--shape", "b=1,h=1,s=33,skv=100,d=57", "--input", "large", "--seed", "2"]}


def output_of(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def metadata_of(dump):
    """The __metadata__ of a safetensors file."""
    length, = struct.unpack_from("<Q", dump)
    return json.loads(dump[8:8 + length])["__metadata__"]


def add_file(archive, name, data):
    entry = tarfile.TarInfo(name)  # of no time and no owner: the same dumps give the same bytes
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--backend", default="cuda", help="sim: to try this script [cuda]")
    parser.add_argument("--commit", help="of the sources that PROGRAM is built from [what git says]")
    options = parser.parse_args()
    program = str(options.program.resolve())
    commit = options.commit or output_of(["git", "-C", pathlib.Path(__file__).parent, "describe", "--always",
                                          "--dirty", "--abbrev=40", "--exclude=*"])
    listed = json.loads(output_of([program, "list", "--format", "json"]))
    dumps, commands = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "dump.safetensors"
        for kernel in listed["kernels"]:
            for gate in kernel["gates"]:
                for dtype in kernel["dtypes"]:
                    for run, arguments in RUNS.items():
                        words = ["run", kernel["kernel"], gate, "--dtype", dtype, *arguments]
                        name = f"{kernel['kernel']}.{gate}.{dtype}.{run}.safetensors"
                        subprocess.run([program, *words, "--backend", options.backend, "-q", "-o", str(path)],
                                       check=True)
                        dumps[name] = path.read_bytes()
                        commands[name] = shlex.join(words)
    first = metadata_of(next(iter(dumps.values())))
    driver = ""
    if options.backend == "cuda":
        driver = output_of(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"])
    provenance = {"device": first["device"], "arch": first["arch"], "driver": driver,
                  "compiler": first["compile_flags"], "commit": commit, "commands": commands}
    with lzma.open(options.output, "wb", preset=9 | lzma.PRESET_EXTREME) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        add_file(archive, "provenance.json", json.dumps(provenance, indent=1).encode())
        for name, data in dumps.items():
            add_file(archive, name, data)
    print(f"{options.output}: {len(dumps)} dumps of {sum(map(len, dumps.values()))} bytes in"
          f" {options.output.stat().st_size}, {first['device']}")


if __name__ == "__main__":
    sys.exit(main())
