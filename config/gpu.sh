#!/bin/sh
# Prints the compute capabilities of this machine's NVIDIA GPUs, each once ("9.0 12.1"); "unknown" if there is a GPU whose capability
# cannot be read; nothing without a GPU.
set -- $(timeout 30 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -x '[0-9]*\.[0-9]*' | sort -u)
[ $# -gt 0 ] || for sign in /proc/driver/nvidia/gpus/* /dev/nvidia0; do
    [ ! -e "$sign" ] || set -- unknown
done
[ $# -gt 0 ] || ! timeout 30 nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || set -- unknown
echo "$*"
