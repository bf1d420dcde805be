#!/bin/sh
# Tests the test hub and the cache with the official client, Python's huggingface_hub: it downloads from the test hub, finds the downloads of
# q35chat, and q35chat finds its downloads.  Skipped if it is not installed; HUB_CLIENT=install installs it from PyPI into a temporary
# directory.
. tests/hub/common.inc
python=python3
if ! python3 -c 'import huggingface_hub' 2> /dev/null; then
    [ "${HUB_CLIENT:-}" = install ] || { echo "skip Python's huggingface_hub is not installed; HUB_CLIENT=install gets it"; exit 0; }
    python3 -m venv "$tmp/venv" > /dev/null 2>&1 && "$tmp/venv/bin/pip" install -q --disable-pip-version-check \
        huggingface_hub > "$tmp/pip.log" 2>&1 ||
        { echo "skip Python's huggingface_hub cannot be installed here"; exit 0; }
    python=$tmp/venv/bin/python
fi
export HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_PROGRESS_BARS=1
client() { "$python" -c "$1" 2> "$tmp/err" || cat "$tmp/err"; }

dir=$(client 'from huggingface_hub import snapshot_download as s; print(s("demo/bytes"))')
is "the client downloads from our hub" "$(diff -r "$dir" "$many" > "$tmp/diff" 2>&1 && echo same || cat "$tmp/diff")" same
is "and lists it" "$(client 'from huggingface_hub import HfApi; print(len(list(HfApi().list_repo_tree("demo/tiny", recursive=True))))')" \
   "$(($(find "$tiny" -type f | wc -l) + 1))"
hub set '{}'
out=$("$q" model get demo/bytes 2> "$tmp/err")
is "q35chat finds what the client has downloaded" "$? $out" "0 $dir"
is "and asks for no byte of it" "$(hub get resolve)" 0

rm -rf "$tmp/hf"
dir=$("$q" model get --range 1 demo/bytes demo/tiny 2> "$tmp/err" | head -1)
hub set '{}'
is "the client finds what q35chat has downloaded" "$(client 'from huggingface_hub import snapshot_download as s; print(s("demo/bytes"))')" "$dir"
is "and asks for no byte of it" "$(hub get bytes)" 0
is "without the hub too" "$(HF_HUB_OFFLINE=1 client 'from huggingface_hub import snapshot_download as s; print(s("demo/tiny") != "")')" True
is "its scan of the cache finds both whole, without a warning" "$(client '
from huggingface_hub import scan_cache_dir
info = scan_cache_dir()
print(sorted(r.repo_id for r in info.repos), [str(w) for w in info.warnings], [sorted(v.refs) for r in info.repos for v in r.revisions])')" \
   "['demo/bytes', 'demo/tiny'] [] [['main'], ['main']]"
exit $status
