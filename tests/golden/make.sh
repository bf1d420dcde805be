#!/bin/sh
# Checks which GPU engine the Makefile builds on different machines.  nvidia-smi and nvcc are replaced by scripts; nothing is built.
cd "$(dirname "$0")/../.." || exit 1
command -v make > /dev/null || { echo "skip make: there is none"; exit 0; }
unset MAKEFLAGS MAKEOVERRIDES MFLAGS MAKELEVEL GPU CUDA NVCC WERROR
bin=$(mktemp -d) || exit 1
trap 'rm -rf "$bin"' EXIT
printf '#!/bin/sh\necho " LIBRARIES= "\n' > "$bin/nvcc"
printf '#!/bin/sh\n[ -n "$CAPS" ] && printf "$CAPS\\n"\n' > "$bin/nvidia-smi"
chmod +x "$bin/nvcc" "$bin/nvidia-smi"
PATH=$bin:$PATH
export PATH CAPS

check() {       # NAME, what must be said, what must not; make's words follow
    name=$1 want=$2 not=$3
    shift 3
    said=$(make -n V=1 says "$bin/kernels/cuda/step_pick.cu.o" BUILD="$bin" "$@" 2>&1)
    case $said in
    *"$not"*) echo "not ok make $name: $said" ;;
    *"$want"*) echo "ok make $name" ;;
    *) echo "not ok make $name, not \"$want\": $said" ;;
    esac
}
none='!'
CAPS= check "no GPU, a toolkit" "no NVIDIA GPU found: CPU only; CUDA=1 builds the GPU engine anyway" "$none" FOUND=
CAPS= check "no GPU, no toolkit" "no NVIDIA GPU found: CPU only" "CUDA=1" FOUND= NVCC=
CAPS= check "told without a GPU" "compute capability 9.0 12.1;" "CPU only" FOUND= CUDA=1
CAPS= check "told a part" "compute capability 12.1;" "CPU only" FOUND= GPU=12.1
CAPS='12.1' check "a GB10" "compute capability 12.1;" "9.0"
CAPS='12.1' check "code for a GB10" "-gencode arch=compute_121,code=sm_121 -DQ35_CUDA" "compute_90"
CAPS='9.0\n9.0' check "two of a kind" "compute capability 9.0;" "12.1"
CAPS='8.6' check "an old GPU" "compute capability 8.6 and the GPU engine needs 9.0: CPU only" "$none"
CAPS='8.6\n9.0' check "an old GPU and a new one" "compute capability 9.0;" "8.6"
CAPS='12.1' check "a GPU, no toolkit" "NVIDIA GPU found but no nvcc" "$none" NVCC=
CAPS='12.1' check "a GPU, told not to" "CUDA=0: CPU only" "$none" CUDA=0
CAPS='12.1' check "told, no toolkit" "CUDA=1 and GPU= need nvcc" "$none" CUDA=1 NVCC=
CAPS='12.1' check "warnings are warnings" "-Wextra" "-Werror"
CAPS='12.1' check "warnings are errors when told" "-Werror all-warnings" "$none" WERROR=1
