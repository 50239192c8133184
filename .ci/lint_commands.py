"""lint_commands.py IN OUT: from the compile_commands.json IN to OUT, every source of the program once
(Meson writes those that include several of ours), modules of one gate of every kernel; prints them."""

import json
import os
import re
import sys

MODULE = re.compile(r"gates/\w+\.fused\.f16\.d64\.64x64\.sim\.so\.p/")

commands = {}
for command in json.load(open(sys.argv[1])):
    source = os.path.realpath(os.path.join(command["directory"], command["file"]))
    is_module = source.endswith("/module_sim.cc")
    if f"{os.sep}tests{os.sep}" in source:
        continue
    if not is_module or MODULE.match(command["output"]):
        commands[source, is_module and command["output"]] = command
json.dump(list(commands.values()), open(sys.argv[2], "w"))
print(*sorted({source for source, _ in commands}), sep="\n")
