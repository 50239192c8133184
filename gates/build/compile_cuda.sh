#!/bin/sh
# compile_cuda.sh FILE NVCC ARGUMENT ...: compiles, and keeps in FILE what ptxas says of each function's
# registers, stack, spills and shared memory. The compiler's other words go to stderr. Products of
# warpgroups that ptxas serialises, or a setmaxnreg that it ignores, are errors: the kernel would be right, and
# slow.
file=$1
shift
"$@" -Xptxas -v 2>"$file"
code=$?
of_ptxas='^ptxas info\|bytes stack frame'
slow='(C75\(0[489]\|1[0-9]\))'
grep -v "$of_ptxas" "$file" >&2
if grep "$slow" "$file" >&2; then
  code=1
fi
grep "$of_ptxas" "$file" >"$file.new"
mv "$file.new" "$file"
exit $code
