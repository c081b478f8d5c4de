//! Runs the simulation, or is one of its ranks.
#![deny(unsafe_code)]

use std::fs::File;
use std::io::{BufWriter, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use pagelift_simulation::links::serve;
use pagelift_simulation::run::{Mode, Plan};
use pagelift_simulation::shape::Shape;

/// Runs engines of a scheduler and some ranks, with everything that may go wrong, and compares every row.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// Requests in all.
    #[arg(long, default_value_t = 100_000)]
    imports: u64,
    /// Requests of each engine.
    #[arg(long, default_value_t = 5_000)]
    each: u64,
    /// The first engine's seed; the others are counted on from it.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// One way only to run ranks.
    #[arg(long, value_enum)]
    only: Option<Mode>,
    /// Keep the lifecycle's log of the last engine here, for `pagelift replay`.
    #[arg(long)]
    log: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Part {
    /// Be a rank: commands come line by line, and so do answers.
    #[command(hide = true)]
    Rank {
        #[arg(long)]
        number: u8,
        #[arg(long)]
        shape: String,
        #[arg(long)]
        pool: PathBuf,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.part {
        Some(Part::Rank { number, shape, pool }) => serde_json::from_str::<Shape>(shape)
            .map_err(|error| error.to_string())
            .and_then(|shape| serve(shape, *number, pool, stdin().lock(), stdout().lock())),
        None => run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let style = ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} imports, {eta} left");
    let bar = ProgressBar::new(args.imports).with_style(style.map_err(|error| error.to_string())?);
    let (started, mut done, mut seed) = (Instant::now(), 0, args.seed);
    let mut sum = Vec::new();
    while done < args.imports {
        let modes = [Mode::Threads, Mode::FreeThreads, Mode::Processes, Mode::FreeProcesses];
        let mode = args.only.unwrap_or(modes[(seed % 4) as usize]);
        let imports = args.each.min(args.imports - done);
        let log = args.log.as_ref().map(File::create).transpose().map_err(|error| error.to_string())?;
        let log = log.map(|log| Box::new(BufWriter::new(log)) as Box<dyn Write + Send>);
        let plan = Plan { seed, mode, imports };
        let tally = plan.run(&program, log, |ended| bar.set_position(done + ended));
        let tally = tally.map_err(|wrong| {
            format!("{wrong}\n\nAgain: --seed {seed} --imports {imports} --each {imports} --only {mode}")
        })?;
        sum.push(tally);
        (done, seed) = (done + imports, seed + 1);
    }
    bar.finish_and_clear();
    let total = |of: &dyn Fn(&pagelift_simulation::engine::Tally) -> u64| sum.iter().map(of).sum::<u64>();
    for (what, count) in [
        ("imports", done),
        ("engines", seed - args.seed),
        ("events", total(&|tally| tally.lifecycle.events)),
        ("twice", total(&|tally| tally.lifecycle.duplicate)),
        ("late", total(&|tally| tally.lifecycle.late)),
        ("steps", total(&|tally| tally.steps)),
        ("found", total(&|tally| tally.lifecycle.found)),
        ("lifted", total(&|tally| tally.lifecycle.lifted)),
        ("withheld", total(&|tally| tally.lifecycle.withheld)),
        ("finished", total(&|tally| tally.lifecycle.finished)),
        ("aborted", total(&|tally| tally.lifecycle.aborted)),
        ("failed", total(&|tally| tally.lifecycle.failed)),
        ("preempted", total(&|tally| tally.lifecycle.preempted)),
        ("resumed", total(&|tally| tally.lifecycle.resumed)),
        ("published", total(&|tally| tally.lifecycle.published)),
        ("evicted", total(&|tally| tally.lifecycle.evicted)),
        ("faults", total(&|tally| tally.faults)),
        ("deaths", total(&|tally| tally.deaths)),
        ("rows compared", total(&|tally| tally.compared)),
    ] {
        println!("{what:<14}{count}");
    }
    println!("{:<14}{:.1}", "seconds", started.elapsed().as_secs_f64());
    Ok(())
}
