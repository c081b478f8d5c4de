//! Random plans, run by the CPU's kernels over random memory and compared with a naive reference byte by byte, until so many
//! jobs are done. A program of its own, to be copied to a machine and left alone there:
//!
//! ```console
//! $ cargo run --release --package pagelift-cases --features memory --example soak -- --jobs 1000000 --seed 1
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a program for tests")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use pagelift::backends::Cpu;
use pagelift_cases::draw::Draw;
use pagelift_cases::tables::{Tally, run_on};

/// Runs random plans over random memory, and compares every byte with a naive reference.
#[derive(Parser)]
struct Args {
    /// Jobs to do; the case that reaches them is finished.
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
    /// The first case; the others are counted on from it. A case that differed is played again by its seed and `--jobs 1`.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads; as many as the machine has, if not said.
    #[arg(long)]
    threads: Option<usize>,
}

/// What all threads share.
struct Soak {
    next: AtomicU64,
    stop: AtomicBool,
    tally: Mutex<Tally>,
    /// Seeds of cases that differed, with what they said.
    differences: Mutex<Vec<(u64, String)>>,
    bar: ProgressBar,
}

/// Differences after which it is no use to go on.
const MOST_DIFFERENCES: usize = 20;

impl Soak {
    fn work(&self, jobs: u64) {
        let backend = Cpu::with_threads(1).expect("one thread");
        while !self.stop.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            match catch_unwind(AssertUnwindSafe(|| run_on(&mut Draw::seeded(seed), &backend))) {
                Ok(done) => {
                    let mut tally = self.tally.lock().unwrap();
                    *tally += done;
                    self.bar.set_position(tally.jobs.min(jobs));
                    if tally.jobs >= jobs {
                        self.stop.store(true, Ordering::Relaxed);
                    }
                }
                Err(panic) => self.differs(seed, &panic),
            }
        }
    }

    fn differs(&self, seed: u64, panic: &(dyn std::any::Any + Send)) {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        let text = text.unwrap_or_else(|| "no message".into());
        self.bar.suspend(|| println!("seed {seed} differs: {text}"));
        let mut differences = self.differences.lock().unwrap();
        differences.push((seed, text));
        if differences.len() >= MOST_DIFFERENCES {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let threads = args.threads.or_else(|| thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let style = ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} jobs, {eta} left");
    let soak = Soak {
        next: AtomicU64::new(args.seed),
        stop: AtomicBool::new(false),
        tally: Mutex::default(),
        differences: Mutex::default(),
        bar: ProgressBar::new(args.jobs).with_style(style.expect("a template")),
    };
    // A case that differs is told by its seed; where it panicked, by playing it again.
    if args.jobs > 1 {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| soak.work(args.jobs));
        }
    });
    soak.bar.finish_and_clear();
    let Tally { jobs, copied, compared } = soak.tally.into_inner().unwrap();
    let differences = soak.differences.into_inner().unwrap();
    let (first, end) = (args.seed, soak.next.into_inner());
    println!("jobs        {jobs}");
    println!("copied      {copied} bytes");
    println!("compared    {compared} bytes");
    println!("differences {}", differences.len());
    println!("seeds       {first}..{end}, {threads} threads");
    println!("seconds     {:.1}", started.elapsed().as_secs_f64());
    if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
