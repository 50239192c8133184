"""Files that are no dump, made of one that is: what a reader must refuse."""

import json
import random
import struct

from support.program import header_of


class File:
    """A dump taken apart: its header and the bytes of its data."""

    def __init__(self, path):
        file = path.read_bytes()
        self.header, start = header_of(file)
        self.data = file[start:]
        self.metadata = self.header["__metadata__"]

    def bytes(self, header=None, data=None, length=None):
        text = header if isinstance(header, bytes) else json.dumps(header or self.header).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + (self.data if data is None else data)

    def changed(self, change):
        """The bytes of a copy whose header `change` has changed."""
        header = json.loads(json.dumps(self.header))
        change(header)
        return self.bytes(header)

    def with_metadata(self, key, text):
        return self.changed(lambda header: header["__metadata__"].update({key: text}))

    def with_member(self, key, member, value):
        """The same with a member of the JSON in the metadata `key` replaced, of the first of a list."""
        made = json.loads(self.metadata[key])
        (made[0] if isinstance(made, list) else made)[member] = value
        return self.with_metadata(key, json.dumps(made))

    def without(self, key):
        return self.changed(lambda header: header["__metadata__"].pop(key))

    def twice(self, word):
        """The header with the first member called `word` there twice, the second time as null."""
        text = json.dumps(self.header)
        assert f'"{word}": ' in text
        return self.bytes(text.replace(f'"{word}": ', f'"{word}": null, "{word}": ', 1).encode())


def bad_files(path):
    """{what is wrong: bytes}, of the dump at `path`, which has the sites q_smem and s."""
    good = File(path)
    header, first = good.header, min((name for name in good.header if name != "__metadata__"),
                                     key=lambda name: good.header[name]["data_offsets"])
    text = json.dumps(header).encode()
    whole = good.bytes()

    def entry(name, field, value):
        return good.changed(lambda header: header[name].update({field: value}))

    def moved(name, by):
        return entry(name, "data_offsets", [place + by for place in header[name]["data_offsets"]])

    def shifted(header, behind, by):
        """Moves the tensors from the byte `behind` of the data on."""
        for name, tensor in header.items():
            if name != "__metadata__" and tensor["data_offsets"][0] >= behind:
                tensor["data_offsets"] = [place + by for place in tensor["data_offsets"]]
        return header

    def of_the_same_bytes():
        """v has the bytes of k, and none of its own."""
        made = json.loads(text)
        begin, end = made["v"]["data_offsets"]
        shifted(made, end, begin - end)
        made["v"]["data_offsets"] = made["k"]["data_offsets"]
        return good.bytes(made, good.data[:begin] + good.data[end:])

    shape, sites = json.loads(good.metadata["shape"]), json.loads(good.metadata["sites"])
    files = {
        "empty": b"", "seven bytes": whole[:7], "eight bytes": whole[:8], "half a header": whole[:8 + len(text) // 2],
        "no data": whole[:8 + len(text)], "half the data": whole[:len(whole) // 2], "the last byte": whole[:-1],
        "a byte too many": whole + b"x", "a header longer than the file": good.bytes(length=len(whole)),
        "a header longer than the format allows": good.bytes(length=1 << 40), "a header of one byte less": good.bytes(length=len(text) - 1),
        "a list": good.bytes(b"[]"), "a space first": good.bytes(b" " + text), "more after the header": good.bytes(text + b"{}"),
        "a zero byte after the header": good.bytes(text + b"\0"), "no UTF-8": good.bytes(text.replace(b'"q"', b'"\xff"')),
        "UTF-16": good.bytes(text.decode().encode("utf-16-le")), "half a surrogate": good.bytes(text.replace(b'"q"', b'"\\ud800"')),
        "NaN": good.bytes(text.replace(b'"shape": [', b'"shape": [NaN, ', 1)),
        "deep": good.bytes(b'{"a":' + b"[" * 100_000), "minus zero": good.bytes(text.replace(b"[0, ", b"[-0, ", 1)),
        "an overlap": of_the_same_bytes(), "an overlap and a hole": moved(first, 2),
        "a hole at the start": good.bytes(shifted(json.loads(text), 0, 8), bytes(8) + good.data), "a tensor behind the data": moved("v", 1 << 40), "a tensor that ends first": entry("q", "data_offsets", [4, 2]),
        "one offset": entry("q", "data_offsets", [0]), "three offsets": entry("q", "data_offsets", [0, 1, 2]),
        "offsets of text": entry("q", "data_offsets", ["0", "2"]), "offsets that are true": entry("q", "data_offsets", [False, True]),
        "a negative side": entry("q", "shape", [-1, 2]), "a broken side": entry("q", "shape", [1.0]), "a side past 64 bits": entry("q", "shape", [2**64]),
        "a size past 64 bits": entry("q", "shape", [2**40, 2**40]), "a size past 64 bits, then none": entry("q", "shape", [2**40, 2**40, 0]),
        "a huge shape of nothing": good.changed(lambda header: header.update(extra={"dtype": "F16", "shape": [0, 2**62, 2**62], "data_offsets": [len(good.data)] * 2})), "33 dimensions": entry("q", "shape", [1] * 33),
        "no shape": good.changed(lambda header: header["q"].pop("shape")), "a field too many": entry("q", "more", 1),
        "another dtype": entry("q", "dtype", "BF16"), "an unknown dtype": entry("q", "dtype", "F12"), "a dtype of 1 byte": entry("q", "dtype", "U8"),
        "integers": entry("q", "dtype", "I16"), "a dtype that is a list": entry("q", "dtype", ["F16"]),
        "another shape of the same bytes": entry("q", "shape", header["q"]["shape"][::-1]), "no entry": good.changed(lambda header: header.update(q=1)),
        "a site of another shape": entry("s", "shape", header["s"]["shape"][::-1]),
        "coordinates of another shape": entry("s.coordinates", "shape", header["s.coordinates"]["shape"][::-1]),
        "coordinates outside": good.bytes(data=_outside(good, "s.coordinates")), "owners outside": good.bytes(data=_outside(good, "q_smem.owners")),
        "coordinates of other numbers": entry("s.coordinates", "dtype", "F16"),
        "a tensor of no site": good.changed(lambda header: header.update(extra={"dtype": "F16", "shape": [0], "data_offsets": [len(good.data)] * 2})),
        "a renamed tensor": good.bytes(text.replace(b'"v":', b'"w":')), "a tensor less": good.changed(lambda header: header.pop(first)),
        "no metadata": good.changed(lambda header: header.pop("__metadata__")), "metadata that is a list": good.changed(lambda header: header.update(__metadata__=[])),
        "metadata of numbers": good.with_metadata("seed", 1), "version 99": good.with_metadata("lanescope_dump", "99"),
        "another gate's word": good.with_metadata("backend", "hip"), "seed -1": good.with_metadata("seed", "-1"),
        "seed +1": good.with_metadata("seed", "+1"), "seed of another script": good.with_metadata("seed", "\u0663"),
        "seed past 64 bits": good.with_metadata("seed", str(2**64)), "no JSON": good.with_metadata("shape", "{"),
        "JSON of 65537 bytes": good.with_metadata("shape", json.dumps(shape).ljust(65537)),
        "a zero byte after JSON": good.with_metadata("shape", json.dumps(shape) + "\0"),
        "a shape that is a list": good.with_metadata("shape", "[]"), "a site that is a number": good.with_metadata("sites", "[1]"),
        "a site twice": good.with_metadata("sites", json.dumps(sites + sites[:1])), "sites that are none": good.with_metadata("sites", "{}"),
        "too many sites": good.with_metadata("sites", json.dumps(sites * 16)), "a stop that is none": good.with_metadata("stop", "{}"),
        "a stop of another kind": good.with_metadata("stop", '{"kind": "rest", "combining": false}'),
        "a stop nowhere": good.with_metadata("stop", '{"kind": "hang", "combining": false, "lane": -1}'),
        "a key twice in the JSON of the metadata": good.with_metadata("shape", json.dumps(shape).replace("{", '{"batch": 7, ', 1)),
        "a key twice in a site": good.with_metadata("sites", json.dumps(sites).replace("{", '{"rows": 7, ', 1)),
    }
    for word in ["q", "__metadata__", "kernel", "dtype", "shape", "data_offsets"]:
        files[f"{word} twice"] = good.twice(word)
    for key in good.metadata:
        files[f"no {key}"] = good.without(key)
    for key, values in {
            "shape": {"batch": [0, -1, 1.5, "1", True, 2**63, 3], "heads": [3], "heads_kv": [2], "len_q": [0, 7], "len_kv": [2**62], "d": [65, 0], "causal": [0]},
            "tile": {"br": [0, 9999, 2**21], "bc": [32], "head_dim": [32], "splits": [0, 2**20 + 1], "heads_per_tile": [0, 2]},
            "traced": {"blocks": [[0], [0, 99], [1, 0], [0, -1], 3], "tiles": [[0, 99], [1, 1], ["0", "1"]]},
            "sites": {"id": ["x", "lse", 1], "stage": ["x"], "space": ["x", "global", "registers"], "type": ["f32", "e4m3", "x"], "axes": ["x", "query"],
                      "per_tile": [1, True], "rows": [63, -1], "cols": [65], "warps": [1], "regs": [1, 2**21]}}.items():
        for member, bad in values.items():
            for value in bad:
                files[f"{member} {value} in {key}"] = good.with_member(key, member, value)
            files[f"no {member} in {key}"] = good.with_metadata(key, json.dumps(_lacking(json.loads(good.metadata[key]), member)))
    return files


def changed_bytes(path, count):
    """`count` copies of the file at `path`, each cut or with a byte of its header changed: good or bad."""
    whole, pick = path.read_bytes(), random.Random(1)
    length, = struct.unpack_from("<Q", whole)
    for i in range(count):
        if i % 8 == 0:
            yield whole[:pick.randrange(len(whole))]
            continue
        at = pick.randrange(8 + length)
        yield whole[:at] + bytes([pick.choice([pick.randrange(256), ord(pick.choice('0123456789"{}[],:-. '))])]) + whole[at + 1:]


def _lacking(made, member):
    del (made[0] if isinstance(made, list) else made)[member]
    return made


def _outside(good, name):
    begin = good.header[name]["data_offsets"][0]
    return good.data[:begin] + struct.pack("<h", 2000) + good.data[begin + 2:]
