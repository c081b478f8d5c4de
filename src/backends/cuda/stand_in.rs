//! Kernels that stand in for an engine's, for benches: what a launch costs at least, and what it is like beside a forward.

use std::ffi::c_void;
use std::fmt::Write;
use std::sync::Arc;

use super::calls::Handle;
use super::context::Context;
use super::{CaptureMode, Cuda, CudaGraph, CudaStream, module};
use crate::error::{BackendError, Error};

/// Sums of a thread: so many registers that blocks of 512 threads leave no room for others.
const SUMS: usize = 112;

/// Stands in for a forward where only its weight matters: it computes for a while, and touches no memory.
///
/// ```no_run
/// # fn beside(gpu: &pagelift::backends::Cuda) -> Result<(), pagelift::Error> {
/// # use pagelift::backends::Backend;
/// let forward = gpu.stand_in()?;
/// // As many blocks as there are multiprocessors, each of which has no room for a second one.
/// forward.enqueue(&gpu.stream(), gpu.multiprocessors(), 512, 1000)?;
/// # Ok(())
/// # }
/// ```
#[doc(hidden)]
#[derive(Debug)]
pub struct StandIn {
    /// It has the function's module, and would take it along.
    context: Arc<Context>,
    function: Handle,
}

impl Cuda {
    /// Loads a stand-in for a forward.
    ///
    /// # Errors
    /// Those of the driver.
    #[doc(hidden)]
    pub fn stand_in(&self) -> Result<StandIn, Error> {
        let context = Arc::clone(self.context());
        Ok(StandIn { function: load(&context, &busy(), "pagelift_busy")?, context })
    }

    /// A graph of one kernel that does nothing. What a replay of it takes, a replay of any kernel takes too: launches are
    /// measured against it.
    ///
    /// # Errors
    /// Those of the driver.
    #[doc(hidden)]
    pub fn empty_graph(&self, stream: &CudaStream) -> Result<CudaGraph, Error> {
        let function = load(self.context(), EMPTY, "pagelift_empty")?;
        let launch = || {
            let (arguments, extra) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the kernel has no parameters, and touches nothing.
            self.context().within(|calls| unsafe {
                calls.launch(function, 1, 1, 1, 32, 1, 1, 0, stream.raw(), arguments, extra)
            })?;
            Ok(())
        };
        Ok(self.capture(stream, CaptureMode::ThreadLocal, launch)?.0)
    }
}

impl StandIn {
    /// Enqueues a launch of `blocks` blocks of `threads` threads, each of which computes for `rounds` rounds: 112
    /// multiplications with additions, one after the other in as many sums. It may be captured.
    ///
    /// # Errors
    /// Where the stream is another GPU's, and those of the driver, where there are no blocks or more than 512 threads.
    pub fn enqueue(
        &self,
        stream: &CudaStream,
        blocks: u32,
        threads: u32,
        rounds: u32,
    ) -> Result<(), BackendError> {
        stream.check_gpu(&self.context)?;
        // Sums stay between 0 and 112, whatever the number of rounds.
        let (mut rounds, mut factor, mut more) = (rounds, 0.5_f32, 1.0_f32);
        let mut arguments = [
            (&raw mut rounds).cast::<c_void>(),
            (&raw mut factor).cast::<c_void>(),
            (&raw mut more).cast::<c_void>(),
        ];
        let (arguments, extra) = (arguments.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the kernel has these three parameters, which the driver copies before it returns, and touches no memory.
        stream.context().within(|calls| unsafe {
            calls.launch(self.function, blocks, 1, 1, threads, 1, 1, 0, stream.raw(), arguments, extra)
        })
    }
}

/// A kernel that returns at once.
const EMPTY: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry pagelift_empty() { ret; }
";

/// A kernel that multiplies and adds. Each sum begins with another number, and all are looked at in the end, so that no
/// compiler leaves any out.
fn busy() -> String {
    let mut ptx = String::from(
        "
.version 7.0
.target sm_80
.address_size 64
.visible .entry pagelift_busy(.param .u32 rounds, .param .f32 factor, .param .f32 more)
.maxntid 512, 1, 1
{
    .reg .pred %again;
    .reg .b32 %round, %rounds;
    .reg .f32 %factor, %more, %all;
    ld.param.u32 %rounds, [rounds];
    ld.param.f32 %factor, [factor];
    ld.param.f32 %more, [more];
    mov.u32 %round, 0;
",
    );
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = writeln!(ptx, "    {text}");
    };
    for sum in 0..SUMS {
        let bits = (sum as f32).to_bits();
        line(format_args!(".reg .f32 %sum{sum}; mov.f32 %sum{sum}, 0f{bits:08X};"));
    }
    line(format_args!("next:"));
    for sum in 0..SUMS {
        line(format_args!("fma.rn.f32 %sum{sum}, %sum{sum}, %factor, %more;"));
    }
    line(format_args!("add.u32 %round, %round, 1;"));
    line(format_args!("setp.lt.u32 %again, %round, %rounds;"));
    line(format_args!("@%again bra next;"));
    line(format_args!("mov.f32 %all, 0f00000000;"));
    for sum in 0..SUMS {
        line(format_args!("add.f32 %all, %all, %sum{sum};"));
    }
    // They are never below 0; the compiler does not know.
    line(format_args!("setp.lt.f32 %again, %all, 0f00000000;"));
    line(format_args!("@%again trap;"));
    line(format_args!("ret;"));
    ptx + "}\n"
}

/// The one function of a module.
fn load(context: &Context, ptx: &str, name: &'static str) -> Result<Handle, BackendError> {
    module::function(context, module::load(context, name, ptx)?.0, name, name)
}
