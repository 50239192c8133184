#!/bin/sh
# compile_cuda.sh FILE NVCC ARGUMENT ...: compiles, and keeps in FILE what ptxas says of each function's
# registers, stack, spills and shared memory. The compiler's other words go to stderr.
file=$1
shift
"$@" -Xptxas -v 2>"$file"
code=$?
of_ptxas='^ptxas info\|bytes stack frame'
grep -v "$of_ptxas" "$file" >&2
grep "$of_ptxas" "$file" >"$file.new"
mv "$file.new" "$file"
exit $code
