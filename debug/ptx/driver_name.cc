// A library without functions: it stands for CUDA's driver (debug/ptx/cudart_driver.cc).
