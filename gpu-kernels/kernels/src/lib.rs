//! gpu-kernels/kernels
