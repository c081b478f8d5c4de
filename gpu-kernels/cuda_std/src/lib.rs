//! gpu-kernels/cuda_std
