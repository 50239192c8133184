#!/bin/sh
# apply.sh PATCH ROOT FOLDER COMMAND...: FOLDER/kernels becomes a copy of ROOT/kernels with PATCH (of
# ROOT) applied; then COMMAND runs.
set -e
patch=$1 root=$2 folder=$3
shift 3
rm -rf "$folder"
mkdir -p "$folder"
cp -R "$root/kernels" "$folder/"
patch --silent --fuzz=0 --strip=1 --directory="$folder" --input="$root/$patch"
"$@"
