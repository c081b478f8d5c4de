//! The backends that the laws are held against.

use std::sync::OnceLock;

use pagelift::backends::{Backend, Cpu, Emulated, Shape};

use crate::rng::Rng;

/// One way to run kernels; a seed decides what may vary.
pub trait Subject {
    type Backend: Backend;
    fn backend(seed: u64) -> Self::Backend;
}

/// The engine, on the calling thread.
pub enum OneThread {}
/// The engine, on two threads.
pub enum TwoThreads {}
/// 32 lanes a warp.
pub enum Warps {}
/// 32 lanes a warp, and bulk copies.
pub enum Bulk {}
/// One lane a warp: warps of the engine, in any order.
pub enum SingleLanes {}

impl Subject for OneThread {
    type Backend = &'static Cpu;
    fn backend(_: u64) -> &'static Cpu {
        static CPU: OnceLock<Cpu> = OnceLock::new();
        CPU.get_or_init(|| Cpu::with_threads(1).unwrap())
    }
}

impl Subject for TwoThreads {
    type Backend = &'static Cpu;
    fn backend(_: u64) -> &'static Cpu {
        static CPU: OnceLock<Cpu> = OnceLock::new();
        CPU.get_or_init(|| Cpu::with_threads(2).unwrap())
    }
}

impl Subject for Warps {
    type Backend = Emulated;
    fn backend(seed: u64) -> Emulated {
        emulated(seed, 32, false)
    }
}

impl Subject for Bulk {
    type Backend = Emulated;
    fn backend(seed: u64) -> Emulated {
        emulated(seed, 32, true)
    }
}

impl Subject for SingleLanes {
    type Backend = Emulated;
    fn backend(seed: u64) -> Emulated {
        emulated(seed, 1, Rng(seed).once_in(2))
    }
}

fn emulated(seed: u64, lanes: u32, bulk: bool) -> Emulated {
    let mut rng = Rng(seed);
    let shape = Shape { blocks: rng.pick(&[1, 1, 2, 5]), warps: rng.pick(&[1, 4]), lanes };
    Emulated { shape, seed: rng.next(), bulk }
}
