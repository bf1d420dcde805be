#!/bin/sh
# Writes the test checkpoints whose index is missing or older than its manifest, with the program that BUILD has.
for manifest in tests/data/model/rules/*/*.txt tests/data/vision/*.txt; do
    directory=$(echo "${manifest%.txt}" | sed 's,/rules/,/,')
    [ "$directory/model.safetensors.index.json" -nt "$manifest" ] || ${EMULATOR:-} "${BUILD:-build}/tests/ruled" "$manifest" "$directory" || exit 1
done
