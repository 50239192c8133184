"""The file of a dump, and whether it is one: by the same rules as the program's own reader (debug/dump:
dump_metadata.cc, dump_check.cc), so that a notebook shows no file that `lanescope` refuses.

Values are not looked at: reading a dump of any size takes neither time nor memory.
"""

import re

import numpy as np

from .safetensors_file import DTYPES, FileError, integer, need, parse, read_tensors

NUMPY = {"f32": DTYPES["F32"], "f16": DTYPES["F16"], "bf16": DTYPES["BF16"], "e4m3": DTYPES["F8_E4M3"]}
MAX_JSON, MAX_SMALL = 1 << 16, 1 << 20
MAX_SIDE, MAX_WARPS, MAX_THREADS, MAX_REGS, MAX_SPLITS = 2048, 32, 1024, 1024, 1 << 20
VERSION = "1"
STRINGS = ["lanescope_version", "kernel", "gate", "device", "arch", "module", "input", "input_hash", "source_hash",
           "compile_flags", "incomplete"]
WORDS = {"backend": ["sim", "cuda"], "trace": ["on", "off"], "scores": ["scaled", "base_e", "unscaled"],
         "products": ["fp32_fma", "tensor_core", "tensor_core_e4m3", "tensor_core_tf32"], "dtype": list(NUMPY)}
SITE_IDS = ["q_smem", "k_smem", "v_smem", "s", "m_prev", "m", "alpha", "p", "l", "o", "o_partial", "m_partial", "l_partial",
            "o_final", "lse"]
SITE_WORDS = {"id": SITE_IDS, "stage": ["load", "qk", "softmax", "pv", "epilogue", "combine"],
              "space": ["registers", "shared", "global"], "type": list(NUMPY), "axes": ["query_d", "key_d", "query_key", "query"]}
OUTPUTS, PARTIALS = ["o_final", "lse"], ["o_partial", "m_partial", "l_partial"]
SCALES = ["q_scale", "k_scale", "v_scale"]
SMALL = ["rows", "cols", "warps", "regs"]
STOPS = ["none", "rule", "crash", "hang"]


def _one_of(value, words, what):
    need(value in words, f"{what} is {ascii(value)[:80]}, none of {', '.join(words)}")


def _members(made, where):
    """What gives the members of a JSON object by their keys."""
    need(type(made) is dict, f"{where} is no JSON object")
    def member(key):
        need(key in made, f"'{key}' of {where} is missing")
        return made[key]
    return member


def _json(metadata, key):
    text = metadata[key]
    need(len(text.encode()) <= MAX_JSON, f"'{key}' of its metadata is no JSON of at most {MAX_JSON} bytes")
    return parse(text, f"'{key}' of its metadata")


def _site(made):
    of = _members(made, "a site in the site table")
    for key, words in SITE_WORDS.items():
        _one_of(of(key), words, f"{key} of a site")
    need(type(of("per_tile")) is bool, "per_tile of a site is neither true nor false")
    for key in SMALL:
        integer(of(key), f"{key} of a site", 0, MAX_SMALL)
    return made


def attributes_of(metadata):
    """The metadata of a dump, what is JSON in it as Python objects; its sites by name."""
    need("lanescope_dump" in metadata, "its metadata has no 'lanescope_dump'")
    version = metadata["lanescope_dump"]
    need(version == VERSION, f"its dump format is version {ascii(version)[:80]}, and this reader's is {VERSION}")
    for key in [*STRINGS, *WORDS, "seed", "shape", "tile", "traced", "sites"]:
        need(key in metadata, f"its metadata has no '{key}'")
    for key, words in WORDS.items():
        _one_of(metadata[key], words, f"'{key}' of its metadata")
    for key, words in {"maxima": ["base_2", "base_e", "raw"], "sums": ["rows", "lanes"]}.items():
        if key in metadata:
            _one_of(metadata[key], words, f"'{key}' of its metadata")
    seed = metadata["seed"]
    need(re.fullmatch("[0-9]+", seed) and len(seed.lstrip("0")) <= 20 and int(seed) < 2**64, "'seed' of its metadata is no number of 64 bits")
    made = {key: _json(metadata, key) for key in ["shape", "tile", "traced", "sites", "stop"] if key in metadata}
    of = _members(made["shape"], "the shape")
    for key in ["batch", "heads", "heads_kv", "len_q", "len_kv", "d"]:
        integer(of(key), f"{key} of the shape")
    need(type(of("causal")) is bool, "causal of the shape is neither true nor false")
    of = _members(made["tile"], "the tile")
    for key in ["head_dim", "br", "bc", "splits", "heads_per_tile"]:
        integer(of(key), f"{key} of the tile", 0, MAX_SMALL)
    of = _members(made["traced"], "the traced range")
    for key in ["blocks", "tiles"]:
        need(type(of(key)) is list and len(of(key)) == 2, f"{key} of the traced range is no pair of numbers")
        for number in of(key):
            integer(number, f"{key} of the traced range")
    if "stop" in made:
        of = _members(made["stop"], "the stop")
        _one_of(of("kind"), STOPS, "the kind of stop")
        need(type(of("combining")) is bool, "combining of the stop is neither true nor false")
        for key in {"block", "warp", "lane"} & set(made["stop"]):
            integer(of(key), f"{key} of the stop")
    need(type(made["sites"]) is list and len(made["sites"]) <= len(SITE_IDS), f"'sites' of its metadata is no list of at most {len(SITE_IDS)} sites")
    sites = [_site(site) for site in made["sites"]]
    names = [site["id"] for site in sites]
    need(len(set(names)) == len(names), "a site of its metadata is there twice")
    return {**metadata, **made, "sites": dict(zip(names, sites))}


def _check_sizes(shape, tile):
    integer(shape["batch"], "the batch", 1)
    integer(shape["heads"], "the number of heads", 1)
    integer(shape["heads_kv"], "the number of kv heads", 1, shape["heads"])
    integer(shape["len_q"], "the length of Q", 1)
    integer(shape["len_kv"], "the length of K and V", 1)
    for key in ["br", "bc", "head_dim"]:
        integer(tile[key], key, 1, MAX_SIDE)
    integer(shape["d"], "d", 1, tile["head_dim"])
    copies, rest = divmod(shape["heads"], shape["heads_kv"])
    need(not rest, "the number of heads is no multiple of the number of kv heads")
    integer(tile["splits"], "the number of splits", 1, MAX_SPLITS)
    integer(tile["heads_per_tile"], "heads_per_tile", 1, copies)
    need(copies % tile["heads_per_tile"] == 0, "heads_per_tile does not divide the query heads of a kv head")


def _check_traced(shape, tile, traced, least):
    q_tiles = -(-tile["heads_per_tile"] * shape["len_q"] // tile["br"])
    blocks = shape["batch"] * (shape["heads"] // tile["heads_per_tile"]) * q_tiles * tile["splits"]
    tiles = -(-(-(-shape["len_kv"] // tile["bc"])) // tile["splits"])
    for key, all_of_them in [("blocks", blocks), ("tiles", tiles)]:
        begin, end = traced[key]
        integer(end, f"the end of the {key}", 0, all_of_them)
        integer(begin, f"the first of the {key}", 0, end - least)


def _check_tensor(tensors, name, dtype, shape):
    need(name in tensors, f"tensor '{name}' is missing")
    tensor = tensors[name]
    need(tensor.dtype == dtype, f"tensor '{name}' has type {tensor.dtype} instead of {dtype}")
    need(tensor.shape == shape, f"tensor '{name}' has shape {list(tensor.shape)} instead of {list(shape)}")


def _check_site(attributes, tensors, name, site):
    tile, traced, registers = attributes["tile"], attributes["traced"], site["space"] == "registers"
    need((name in OUTPUTS + PARTIALS) == (site["space"] == "global"),
         f"site {name} is in the memory space {site['space']}; the outputs and the partials alone are global")
    need(site["type"] != "e4m3", f"site {name} is of 8 bits, where nothing tells a value that was never written")
    sides = (tile["bc"] if site["axes"] == "key_d" else tile["br"],
             {"query": 1, "query_key": tile["bc"]}.get(site["axes"], tile["head_dim"]))
    need((site["rows"], site["cols"]) == sides, f"site {name} has {site['rows']} x {site['cols']} elements instead of {sides[0]} x {sides[1]}")
    integer(site["warps"], f"the number of warps of site {name}", *((1, MAX_WARPS) if registers else (0, 0)))
    integer(site["regs"], f"the number of registers of site {name}", *((1, MAX_REGS) if registers else (0, 0)))
    held = (site["warps"], 32, site["regs"])
    coordinates, owners = tensors.get(f"{name}.coordinates"), tensors.get(f"{name}.owners")
    if registers or coordinates is not None:
        _check_tensor(tensors, f"{name}.coordinates", np.dtype("<i2"), (*held, 2))
        row, col = coordinates[..., 0], coordinates[..., 1]
        inside = (row >= 0) & (row < sides[0]) & (col >= 0) & (col < sides[1])
        need(bool((inside | ((row == -1) & (col == -1))).all()), f"site {name} has coordinates outside its tile")
    if owners is not None:
        _check_tensor(tensors, f"{name}.owners", np.dtype("<i2"), sides)
        need(site["space"] == "shared", f"site {name} has owners, but is not in shared memory")
        need(bool(((owners >= -1) & (owners < MAX_THREADS)).all()), f"site {name} has an owner that is no thread of a block")
    if name in OUTPUTS:
        return
    blocks, tiles = (end - begin for begin, end in (traced["blocks"], traced["tiles"]))
    _check_tensor(tensors, name, NUMPY[site["type"]], (blocks, tiles if site["per_tile"] else 1, *(held if registers else sides)))


def _check(attributes, tensors):
    """Everything in the file fits everything else in it."""
    shape, tile, sites, dtype = (attributes[key] for key in ["shape", "tile", "sites", "dtype"])
    _check_sizes(shape, tile)
    q_shape, kv_shape = ((shape["batch"], shape[heads], shape[length], shape["d"]) for heads, length in [("heads", "len_q"), ("heads_kv", "len_kv")])
    whole = {"q": q_shape, "k": kv_shape, "v": kv_shape}
    for name, dims in whole.items():
        _check_tensor(tensors, name, NUMPY[dtype], dims)
    scales = dict(zip(SCALES, [q_shape[:2], kv_shape[:2], kv_shape[:2]])) if dtype == "e4m3" else {}
    for name, dims in scales.items():
        _check_tensor(tensors, name, NUMPY["f32"], dims)
    for name, dims in [("o_final", q_shape), ("lse", q_shape[:3])]:
        if name in tensors or name in sites:
            own = NUMPY[sites[name]["type"]] if name in sites else tensors[name].dtype
            _check_tensor(tensors, name, own, dims)
    _check_traced(shape, tile, attributes["traced"], 1 if sites else 0)
    for name, site in sites.items():
        _check_site(attributes, tensors, name, site)
    companions = [f"{name}.{part}" for name in sites for part in ["coordinates", "owners"]]
    for name in tensors:
        need(name in [*whole, *scales, *OUTPUTS, *sites, *companions], f"tensor {ascii(name)} belongs to no site")


def read_dump(path):
    """The tensors of a dump by name, mapped into memory, and its metadata as attributes_of has it.
    Raises FileError, naming the file and what is wrong with it, on anything that is no dump."""
    try:
        tensors, metadata = read_tensors(path)
        attributes = attributes_of(metadata)
        _check(attributes, tensors)
    except FileError as error:
        raise FileError(f"{path} is no dump, or a damaged one: {error}; `lanescope run KERNEL GATE -o FILE` writes one") from None
    return tensors, attributes
