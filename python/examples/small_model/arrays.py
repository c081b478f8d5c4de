"""What the model computes with: NumPy on the CPU, or PyTorch on the CPU or a GPU. `xp` has the functions, with NumPy's names."""

import contextlib
import gc

import numpy as np

import pagelift


class NumPy:
    """Arrays of the host, which are the device's too."""

    xp, stream, captures, name = np, None, False, f"NumPy {np.__version__} on the CPU"
    current = no_syncs = contextlib.nullcontext

    def __init__(self):
        self.backend = pagelift.Cpu(threads=1)

    def on_device(self, array):
        return array

    def on_host(self, array):
        """An array of the host, as pagelift adopts it and as NumPy sees it."""
        return array, array

    def to_numpy(self, array):
        return array

    def copy(self, destination, source):
        destination[...] = source


class PyTorch:
    """Tensors of PyTorch's. On a GPU the host's are pinned, and a step is captured once and replayed."""

    def __init__(self, device):
        import torch

        self.xp, self.device = torch, torch.device(device)
        self.captures = self.device.type == "cuda"
        if self.captures:
            self.stream = torch.cuda.Stream()
            self.backend = pagelift.Cuda(torch.cuda.current_device())
            self.name = f"PyTorch {torch.__version__} on {self.backend.device}"
        else:
            # Operations are small: threads would only wait for each other.
            torch.set_num_threads(1)
            self.stream, self.backend = None, pagelift.Cpu(threads=1)
            self.name = f"PyTorch {torch.__version__} on the CPU"

    def on_device(self, array):
        return self.xp.from_numpy(array).to(self.device)

    def on_host(self, array):
        tensor = self.xp.from_numpy(array)
        tensor = tensor.pin_memory() if self.captures else tensor
        return tensor, tensor.numpy()

    def to_numpy(self, tensor):
        return tensor.cpu().numpy()

    def copy(self, destination, source):
        # Part of the graph: each replay copies what is there then.
        destination.copy_(source, non_blocking=True)

    @contextlib.contextmanager
    def current(self):
        """Within it, everything is on the engines' stream."""
        if not self.captures:
            yield
            return
        with self.xp.cuda.stream(self.stream):
            yield
        self.stream.synchronize()

    def capture(self, step):
        """Records `step` into a graph. Kernels are loaded before: it has run once."""
        # Memory that nobody uses any more is not to be freed while this goes on.
        gc.collect()
        graph = self.xp.cuda.CUDAGraph()
        with self.xp.cuda.graph(graph, stream=self.stream):
            step()
        return graph

    @contextlib.contextmanager
    def no_syncs(self):
        """PyTorch's calls that would wait for the GPU are errors."""
        if not self.captures:
            yield
            return
        self.xp.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            self.xp.cuda.set_sync_debug_mode("default")
