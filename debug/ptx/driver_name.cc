// A library without functions: it stands for CUDA's driver (debug/ptx/cuda.h), or for the runtime
// where that is not built yet.
