#!/usr/bin/env python3
"""check_modules.py BUILD: whether every sim module compiles, once the suite has run.

Those that the suite built do. Of the others the compiler makes no code, which takes a quarter of
the time: what all of them instantiate it reads, and all are linked alike. Says what does not compile.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys


def check(command, folder):
    words = shlex.split(command)
    if pathlib.Path(words[0]).name == "ccache":
        del words[0]
    for option in "-o", "-MF", "-MQ":
        if option in words:
            at = words.index(option)
            del words[at:at + 2]
    done = subprocess.run([*(word for word in words if word not in ("-c", "-MD")), "-fsyntax-only"], cwd=folder,
                          capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def main():
    build = pathlib.Path(sys.argv[1])
    commands = [one for one in json.loads((build / "compile_commands.json").read_text())
                if one["file"].endswith("module/module_sim.cc") and "+" not in one["output"]
                and not (build / one["output"]).exists()]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as cores:
        said = list(cores.map(lambda one: check(one["command"], one["directory"]), commands))
    for words in list(filter(None, said))[:8]:
        print(words, file=sys.stderr)
    print(f"{len(commands)} sim modules that are not built compile" if not any(said) else "not all sim modules compile")
    return any(said)


if __name__ == "__main__":
    sys.exit(main())
