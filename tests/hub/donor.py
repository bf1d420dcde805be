"""donor.py HYBRID OUT: an FP8 checkpoint of the official kind out of a hybrid one: the shared experts as they are, and beside them what such
a release holds, filled with bytes that are NaN in every format."""
import json
import os
import struct
import sys

source, out = sys.argv[1:]
os.makedirs(out, exist_ok=True)
index = json.load(open(f"{source}/model.safetensors.index.json"))["weight_map"]
headers = {}


def tensor(name):
    file = index[name]
    if file not in headers:
        with open(f"{source}/{file}", "rb") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            headers[file] = 8 + n, json.loads(f.read(n))
    start, header = headers[file]
    begin, end = header[name]["data_offsets"]
    with open(f"{source}/{file}", "rb") as f:
        f.seek(start + begin)
        return header[name], f.read(end - begin)


names, shards = sorted(n for n in index if not n.endswith((".qzeros", ".scales"))), 2
weight_map = {}
for k in range(shards):
    header, data, file = {}, b"", f"model-0000{k + 1}-of-0000{shards}.safetensors"
    for name in names[k::shards]:
        entry, content = tensor(name)
        dtype, shape = entry["dtype"], entry["shape"]
        if ".shared_expert." not in name or name.startswith("mtp."):
            content = b"\xff" * len(content)
        if name.endswith(".qweight"):
            name, dtype, shape = name.replace(".qweight", ".weight"), "F8_E4M3", [shape[1], shape[0] * 8]
            content = b"\xff" * (shape[0] * shape[1])
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
        weight_map[name] = file
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{out}/{file}", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
json.dump({"metadata": {}, "weight_map": weight_map}, open(f"{out}/model.safetensors.index.json", "w"))
json.dump({}, open(f"{out}/config.json", "w"))
