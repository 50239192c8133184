"""Dumps of the lab as xarray datasets, and what its program says of them.

    dump = open_dump("x.safetensors")
    dump.m                       # [block, tile, warp, lane, m_reg]: as the hardware holds it
    logical(dump, "s", tile=1)   # [query, key]: as the paper writes it

Values are read from the file as they are used: opening a dump of any size takes neither time nor
memory. Verdicts and references are the program's (`diff`, `locate`); none is computed here.
"""

import json
import pathlib
import shlex
import subprocess
import tarfile

import numpy as np
import xarray as xr

from .dump_file import read_dump

ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the checkout, where this lies in one
SCHEMA = 1  # of what the program says with --format json
# The dimensions of a tile, by what its rows and columns are.
AXES = {"query_d": ("query", "d"), "key_d": ("key", "d"), "query_key": ("query", "key"), "query": ("query", "one")}
_Q, _KV = ("b", "h", "row_q", "col_d"), ("b", "h_kv", "row_kv", "col_d")
WHOLE = {"q": _Q, "k": _KV, "v": _KV, "q_scale": _Q[:2], "k_scale": _KV[:2], "v_scale": _KV[:2],
         "o_final": _Q, "lse": _Q[:3]}


def _places(attributes, blocks):
    """What each of `blocks` is of the problem: block = ((batch * groups + group) * q_tiles + q_tile) * splits + split,
    a tile of Q being `br` of the rows of a group of heads, which stand behind each other."""
    shape, tile = attributes["shape"], attributes["tile"]
    row_tile, split = np.divmod(blocks, tile["splits"])
    q_tiles = -(-tile["heads_per_tile"] * shape["len_q"] // tile["br"])
    group, q_tile = np.divmod(row_tile, q_tiles)
    batch, group = np.divmod(group, shape["heads"] // tile["heads_per_tile"])
    return batch, group * tile["heads_per_tile"], q_tile * tile["br"], split


def open_dump(path):
    """The dump as a Dataset. Its attributes are the metadata; `sites` is by name.

    A site in registers has the dimensions block, tile, warp, lane and SITE_reg, and the coordinates
    SITE_row and SITE_col in the tile: -1 where a register stands for no element or another lane
    speaks for it. One in shared or global memory has block, tile and query, key or d: places in the
    tile, which begins at the coordinates batch, first_head, first_row (counted from that head's first)
    and split of its block, and at its first_key. What a block has once has the dimension once for tile. q, k, v, their scales, o_final
    and lse are whole tensors. Raises ValueError, saying what is wrong, on a file that `lanescope`
    refuses, too.
    """
    tensors, attributes = read_dump(path)
    variables = {name: (dims, tensors[name]) for name, dims in WHOLE.items() if name in tensors}
    coordinates = {}
    for name, site in attributes["sites"].items():
        if name in variables:
            continue
        if site["space"] == "registers":
            dims = ("warp", "lane", f"{name}_reg")
            for axis, part in enumerate(["row", "col"]):
                coordinates[f"{name}_{part}"] = (dims, tensors[f"{name}.coordinates"][..., axis])
        else:
            dims = AXES[site["axes"]]
            if f"{name}.owners" in tensors:
                coordinates[f"{name}_owner"] = (dims, tensors[f"{name}.owners"])
        variables[name] = (("block", "tile" if site["per_tile"] else "once", *dims), tensors[name], site)
    blocks, tiles = (np.arange(*attributes["traced"][name]) for name in ["blocks", "tiles"])
    if len(blocks):
        batch, head, first_row, split = _places(attributes, blocks)
        coordinates |= {"block": blocks, "batch": ("block", batch), "first_head": ("block", head),
                        "first_row": ("block", first_row), "split": ("block", split)}
    if len(tiles):
        shape, tile = attributes["shape"], attributes["tile"]
        of_split = -(-(-(-shape["len_kv"] // tile["bc"])) // tile["splits"])
        coordinates |= {"tile": tiles, "first_key": (("block", "tile"), (split[:, None] * of_split + tiles) * tile["bc"])}
    return xr.Dataset(variables, coordinates, attributes)


def unwritten(values):
    """Where `values` still hold the pattern that every slot holds before the run."""
    bits = np.asarray(values.data)
    poison = {4: 0xffb1ffb1, 2: 0xffb1}[bits.dtype.itemsize]
    return xr.DataArray(bits.view(f"<u{bits.dtype.itemsize}") == poison, dims=values.dims)


def _tile(dump, name, block, tile):
    """The values of a site of one block and tile; None: the first."""
    values = dump[name]
    for dimension, place in [("block", block), ("tile", tile)]:
        if dimension in values.dims:
            values = values.isel({dimension: 0}) if place is None else values.sel({dimension: place})
    return values.squeeze("once") if "once" in values.dims else values


def logical(dump, name, block=None, tile=None):
    """A site's tile by rows and columns, as float32, those that the problem has: query, key and d are
    its own, and head is that of each query. NaN where nothing stands for an element.

    Of an element that several lanes hold, the value of the first. None: the first block, or tile.
    """
    site, shape = dump.attrs["sites"][name], dump.attrs["shape"]
    values = _tile(dump, name, block, tile)
    matrix = np.full((site["rows"], site["cols"]), np.nan, np.float32)
    if site["space"] == "registers":
        rows, cols = dump[f"{name}_row"].data.ravel(), dump[f"{name}_col"].data.ravel()
        held = np.flatnonzero(rows >= 0)[::-1]  # the first lane has the last word
        matrix[rows[held], cols[held]] = values.data.ravel()[held].astype(np.float32)
    else:
        matrix[:] = values.data
    dims, coordinates = AXES[site["axes"]], {}
    if "query" in dims:
        rows = int(values.first_row) + np.arange(site["rows"])
        rows = rows[rows < dump.attrs["tile"]["heads_per_tile"] * shape["len_q"]]
        heads, queries = np.divmod(rows, shape["len_q"])
        coordinates |= {"query": queries, "head": ("query", int(values.first_head) + heads)}
    if "key" in dims:
        keys = int(values.first_key) + np.arange(site["rows" if dims[0] == "key" else "cols"])
        coordinates["key"] = keys[keys < shape["len_kv"]]
    if "d" in dims:
        coordinates["d"] = np.arange(shape["d"])
    sizes = [len(coordinates[dimension]) if dimension in coordinates else 1 for dimension in dims]
    return xr.DataArray(matrix[:sizes[0], :sizes[1]], coordinates, dims, name)


def lanes_of_rows(dump, name, block=None, tile=None):
    """[query, copy]: a site of one value per row as each lane that speaks for the row holds it."""
    values = _tile(dump, name, block, tile)
    flat, rows = values.data.ravel().astype(np.float32), dump[f"{name}_row"].data.ravel()
    lanes = np.broadcast_to(np.arange(32)[None, :, None], values.shape).ravel()
    copies = [np.flatnonzero(rows == row) for row in range(dump.attrs["sites"][name]["rows"])]
    width = max(len(copy) for copy in copies)
    grid = np.full((len(copies), width), np.nan, np.float32)
    holders = np.full((len(copies), width), -1)
    for row, copy in enumerate(copies):
        grid[row, :len(copy)], holders[row, :len(copy)] = flat[copy], lanes[copy]
    return xr.DataArray(grid, dims=("query", "copy"), coords={"lane": (("query", "copy"), holders)}, name=name)


def row_errors(path, name, block=0, tile=0):
    """[query]: the largest error of a row's values in units of its bound, as `show` judges them: above
    1 where one is wrong, infinite for a nan or what was never written, NaN where none is judged."""
    values = ask(f"show {shlex.quote(str(path))} {name} --block {block} --tile {tile}")["values"]
    errors = [(value["row"], float(value["error"])) for value in values if value["error"] is not None]
    rows = np.full(1 + max((row for row, _ in errors), default=-1), np.nan)
    for row, error in errors:
        rows[row] = np.fmax(rows[row], error)
    return xr.DataArray(rows, dims="query", name=f"{name} error")


def captured(name, path):
    """Writes the dump `name` of those captured on a GPU to `path`; how it came to be: {device, arch,
    driver, compiler, commit, command}. None where none has been captured."""
    archives = sorted((ROOT / "tests" / "data").glob("dumps_*.tar.xz"))
    if not archives:
        return None
    with tarfile.open(archives[0]) as archive:
        provenance = json.load(archive.extractfile("provenance.json"))
        pathlib.Path(path).write_bytes(archive.extractfile(name).read())
    provenance["command"] = provenance.pop("commands")[name]
    return provenance


def run(command, codes=(0,)):
    """`lanescope COMMAND`, the checkout's or the one in PATH; what it says on stdout. Raises where it fails."""
    launcher = ROOT / "lanescope"
    words = [str(launcher) if launcher.is_file() else "lanescope", *shlex.split(command)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode not in codes:
        raise RuntimeError(f"lanescope {command} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


def ask(command):
    """The same with --format json, as Python objects. A divergence (exit code 1) is an answer too. Raises
    ValueError where the program says it in another version than this reader knows."""
    answer = json.loads(run(command + " --format json", codes=(0, 1)))
    if answer.get("schema") != SCHEMA:
        raise ValueError(f"lanescope {command}: its JSON is of version {answer.get('schema')}, and this reader knows "
                         f"{SCHEMA}: take the program and the reader of one release")
    return answer
