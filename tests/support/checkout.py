"""Copies of a checkout, in which tests edit sources and build."""

import os
import pathlib
import shutil
import struct

MODULE = ".so.p"  # how the folder of a module's objects ends


def copy_sources(root, to):
    """Those of `root`, without its history, build folders and dumps, into the folder `to`."""
    def left_out(folder, names):
        at_root = pathlib.Path(folder) == pathlib.Path(root)
        return [name for name in names if name.endswith(".safetensors")
                or at_root and (name == ".git" or name.startswith("build"))]

    shutil.copytree(root, to, ignore=left_out, dirs_exist_ok=True)


def copy_objects(root, build, to):
    """The objects of the program in `build`, of the sources `root`, to the build folder `to` in a copy of these, so
    that its first build compiles only what differs: Ninja goes by commands and times of files. What names the
    sources by their whole path, the files of unity builds and Ninja's record of what was included, names those of
    the copy then. Where a source was edited since, it compiles the more."""
    root, build, to = (pathlib.Path(path).resolve() for path in (root, build, to))
    moved = bytes(root) + b"/", bytes(to.parent) + b"/"
    for folder, folders, names in os.walk(build):
        place = pathlib.Path(folder).relative_to(build)
        folders[:] = [name for name in folders if not name.endswith(MODULE) and (
            place.parts or name in ("debug", "gates", "reference"))]
        (to / place).mkdir(parents=True, exist_ok=True)
        for name in names:
            source, copy = build / place / name, to / place / name
            if not place.parts and name == ".ninja_log" or place.parts and name.endswith((".o", ".a", ".h")):
                shutil.copy2(source, copy)
            elif place.parts and name.endswith(".cpp"):
                copy.write_bytes(source.read_bytes().replace(*moved))
                shutil.copystat(source, copy)
    (to / ".ninja_deps").write_bytes(moved_record((build / ".ninja_deps").read_bytes(), *moved))


def moved_record(record, old, new):
    """Ninja's record of includes, with `new` for `old` at the beginning of paths. Behind its head (12 bytes "# ninjadeps",
    4 of a version) stand entries: their length, of which the uppermost bit is set where they hold no path; a path is
    filled up with zeros to 4 bytes, and 4 of a checksum follow, the complement of the path's number."""
    at, parts = 16, [record[:16]]
    while at < len(record):
        size, = struct.unpack_from("<I", record, at)
        at += 4
        length = size & 0x7fffffff
        body = record[at:at + length]
        at += length
        if size == length and body.startswith(old):
            path = new + body[len(old):-4].rstrip(b"\0")
            body = path + bytes(-len(path) % 4) + body[-4:]
        parts += [struct.pack("<I", size - length + len(body)), body]
    return b"".join(parts)
