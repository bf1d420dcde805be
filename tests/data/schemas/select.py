#!/usr/bin/env python3
"""Writes files of the form of schemas.jsonl: select.py suite FOLDER > FILE has the tests of the official suite (tests/draft2020-12), one line
for each schema; select.py all FOLDER > FILE has these and the optional ones, by file; select.py small FILE... > FILE has the schemas below 1500 bytes with at most six instances each."""
import json
import os
import sys


def suite(folder):
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            for i, case in enumerate(json.load(open(os.path.join(folder, name)))):
                tests = [{"valid": t["valid"], "data": t["data"], "keyword": t["description"]} for t in case["tests"]]
                yield {"id": f"{name[:-5]}#{i}", "schema": case["schema"], "tests": tests}


def whole(folder):
    for root, _, names in sorted(os.walk(folder)):
        for name in sorted(n for n in names if n.endswith(".json")):
            path = os.path.join(root, name)
            for case in json.load(open(path)):
                tests = [{"valid": t["valid"], "data": t["data"]} for t in case["tests"]]
                yield {"id": os.path.relpath(path, folder)[:-5], "schema": case["schema"], "tests": tests}


def small(files):
    for file in files:
        for line in open(file):
            row = json.loads(line)
            if row["bytes"] <= 1500:
                tests = [{k: t[k] for k in ("valid", "data", "keyword") if k in t} for t in row["tests"]]
                yield {"id": row["id"], "schema": row["schema"], "tests": tests[:6]}


makers = {"suite": lambda: suite(sys.argv[2]), "all": lambda: whole(sys.argv[2]), "small": lambda: small(sys.argv[2:])}
for row in makers[sys.argv[1]]():
    print(json.dumps(row, ensure_ascii=sys.argv[1] == "all", separators=(",", ":")))
