#!/usr/bin/env python3
"""Checks answers by Python's jsonschema, by hand: valid.py ANSWERS SCHEMAS...

ANSWERS has a line {"id", "text"} for each answer, as OUT=FILE build/tests/golden/test_guided_answers SCHEMAS... writes them.
"""
import collections
import json
import sys

import jsonschema


def main():
    schemas = {}
    for path in sys.argv[2:]:
        for line in open(path):
            one = json.loads(line)
            schemas[one["id"][:159]] = one["schema"]
    checkers, count = {}, collections.Counter()
    for line in open(sys.argv[1]):
        answer = json.loads(line)
        schema = schemas[answer["id"]]
        if answer["id"] not in checkers:
            kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
            checkers[answer["id"]] = kind(schema), kind(schema, format_checker=kind.FORMAT_CHECKER)
        try:
            value = json.loads(answer["text"])
        except ValueError as e:
            count["not JSON"] += 1
            print(answer["id"], e, answer["text"][:300])
            continue
        for checker, name in zip(checkers[answer["id"]], ("invalid", "invalid by its format")):
            error = next(checker.iter_errors(value), None)
            if error:
                count[name] += 1
                print(f"{answer['id']}: {name}: {error.validator} at {list(error.absolute_path)}: {answer['text'][:300]}")
                break
        else:
            count["valid"] += 1
    print(dict(count), "of", len(checkers), "schemas")
    return count["valid"] != sum(count.values())


sys.exit(main())
