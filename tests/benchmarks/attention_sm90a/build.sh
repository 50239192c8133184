#!/usr/bin/env bash
# build.sh FOLDER NAME...: builds FOLDER/NAME.cubin of each configuration, and FOLDER/liblaunch.so. Says which of them spill, or have
# products that ptxas serialises (C75xx). NAME is {64,128,256}{f,c}: head dimension, full or causal; then -nN keys of a tile,
# -wN consumer warpgroups, -sN stages, -cN blocks of a cluster, -oN turns, -yN dynamic order, -zN rescaling, -pN and -gN
# polynomial, -eN epilogue, -hN halves, as in Config (attention.cuh); with `b` at the end, bf16.
set -euo pipefail
here=$(cd "$(dirname -- "$0")" && pwd) out=$1
shift
mkdir -p "$out"
python3 "$here/write_wgmma.py" "$out/wgmma.gen.h"
g++ -std=c++20 -O2 -shared -fPIC -I"$(dirname "$(command -v nvcc)")/../include" "$here/launch.cc" -o "$out/liblaunch.so" -L"$(dirname "$(command -v nvcc)")/../lib64/stubs" -lcuda
one() {
  local name=$1 spec=${1%b} type=__half n=128 w=2 s=2 c=1 o=1 y=0 z=0 p=0 g=3 e=0 h=0 parts part
  [[ $spec != "$name" ]] && type=__nv_bfloat16
  IFS=- read -ra parts <<<"$spec"
  for part in "${parts[@]:1}"; do declare "${part:0:1}=${part:1}"; done
  local causal=0
  [[ ${parts[0]} == *c ]] && causal=1
  nvcc -std=c++17 -O3 -cubin -gencode arch=compute_90a,code=sm_90a -Xptxas -v -I"$out" -DHEAD_DIM="${parts[0]%[fc]}" -DTILE_N="$n" \
    -DWARPGROUPS="$w" -DSTAGES="$s" -DCAUSAL=$causal -DCLUSTER="$c" -DORDER="$o" -DDYNAMIC="$y" -DLAZY="$z" -DPOLY="$p" -DDEGREE="$g" \
    -DEPI="$e" -DHALVES="$h" -DTYPE=$type "$here/attention.cu" -o "$out/$name.cubin" >"$out/$name.log" 2>&1 ||
    { echo "$name does not compile: $out/$name.log"; return 1; }
  echo "$name: $(grep -oE '[0-9]+ bytes spill stores' "$out/$name.log") $(grep -oE 'C75[0-9]+' "$out/$name.log" | sort -u | tr '\n' ' ')"
}
export -f one
export here out
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'one {}'
