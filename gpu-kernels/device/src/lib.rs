//! gpu-kernels/device
