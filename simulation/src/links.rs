//! How messages get to ranks in threads and processes of their own, and back.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pagelift::backends::{Cpu, SharedMemory};

use crate::lockstep::Ranks;
use crate::message::{Command, Reply};
use crate::rank::Rank;
use crate::shape::Shape;

/// A rank's number, how often the number was given before, and what it answers; `None` where it cannot be understood.
type Answer = (u8, u64, Option<Reply>);

/// One rank.
#[derive(Debug)]
enum Link {
    Thread(Sender<Command>, JoinHandle<()>),
    Process(BufWriter<ChildStdin>, Child, JoinHandle<()>),
}

/// What ranks run in.
#[derive(Clone, Debug)]
pub enum Home {
    /// Threads of this process.
    Threads,
    /// Processes: this program, which is told by its arguments to be a rank.
    Processes(PathBuf),
}

/// Ranks that run beside each other.
#[derive(Debug)]
pub struct Links<'a> {
    shape: Shape,
    pool: &'a SharedMemory,
    home: Home,
    links: Vec<Option<Link>>,
    /// How often each number was given.
    starts: Vec<u64>,
    answers: (Sender<Answer>, Receiver<Answer>),
}

impl<'a> Links<'a> {
    /// No ranks yet.
    #[must_use]
    pub fn new(shape: Shape, pool: &'a SharedMemory, home: Home) -> Self {
        let count = usize::from(shape.options.ranks);
        let links = (0..count).map(|_| None).collect();
        Self { shape, pool, home, links, starts: vec![0; count], answers: channel() }
    }

    /// Gives a command to a rank, and goes on.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn send(&mut self, rank: u8, command: Command) -> Result<(), String> {
        let gone = || format!("rank {rank} is gone");
        match self.links[usize::from(rank)].as_mut().ok_or_else(gone)? {
            Link::Thread(commands, _) => commands.send(command).map_err(|_| gone()),
            Link::Process(input, ..) => {
                serde_json::to_writer(&mut *input, &command).map_err(|_| gone())?;
                input.write_all(b"\n").and_then(|()| input.flush()).map_err(|_| gone())
            }
        }
    }

    /// The next answer of any rank that is alive, or none within that time.
    ///
    /// # Errors
    /// Where an answer makes no sense.
    pub fn receive(&mut self, within: Duration) -> Result<Option<(u8, Reply)>, String> {
        while let Ok((rank, start, reply)) = self.answers.1.recv_timeout(within) {
            if self.starts[usize::from(rank)] != start || self.links[usize::from(rank)].is_none() {
                // Its number is another's now.
                continue;
            }
            return match reply {
                Some(reply) => Ok(Some((rank, reply))),
                None => Err(format!("rank {rank} is gone, or says what makes no sense")),
            };
        }
        Ok(None)
    }

    fn thread(&self, rank: u8, start: u64) -> Result<Link, String> {
        let pool = self.pool.as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
        let (shape, answers) = (self.shape, self.answers.0.clone());
        let (commands, inbox) = channel::<Command>();
        let body = move || {
            let pool = SharedMemory::from_descriptor(pool);
            let made =
                Cpu::with_threads(1).and_then(|cpu| Rank::new(shape, rank, std::sync::Arc::new(cpu), &pool));
            let Ok(mut own) = made else {
                let _ = answers.send((rank, start, None));
                return;
            };
            for command in inbox {
                if answers.send((rank, start, Some(own.obey(&command)))).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(format!("rank {rank}")).spawn(body);
        Ok(Link::Thread(commands, thread.map_err(|error| error.to_string())?))
    }

    fn process(&self, program: &Path, rank: u8, start: u64) -> Result<Link, String> {
        let shape = serde_json::to_string(&self.shape).map_err(|error| error.to_string())?;
        let pool = format!("/proc/{}/fd/{}", std::process::id(), self.pool.as_fd().as_raw_fd());
        let mut command = std::process::Command::new(program);
        command.args(["rank", "--number", &rank.to_string(), "--shape", &shape, "--pool", &pool]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("{}: {error}", program.display()))?;
        let (input, output) = child.stdin.take().zip(child.stdout.take()).ok_or("no pipes")?;
        let answers = self.answers.0.clone();
        let reader = thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let reply = line.ok().and_then(|line| serde_json::from_str(&line).ok());
                let last = reply.is_none();
                if answers.send((rank, start, reply)).is_err() || last {
                    return;
                }
            }
            let _ = answers.send((rank, start, None));
        });
        Ok(Link::Process(BufWriter::new(input), child, reader))
    }
}

impl Ranks for Links<'_> {
    fn start(&mut self, rank: u8) -> Result<(), String> {
        let number = usize::from(rank);
        self.starts[number] += 1;
        let link = match &self.home {
            Home::Threads => self.thread(rank, self.starts[number]),
            Home::Processes(program) => self.process(program, rank, self.starts[number]),
        };
        self.links[number] = Some(link?);
        Ok(())
    }

    /// A process ends at once, a thread when it has done what it was told. When this returns, nothing of it runs any more.
    fn kill(&mut self, rank: u8) {
        match self.links[usize::from(rank)].take() {
            Some(Link::Thread(commands, thread)) => {
                drop(commands);
                let _ = thread.join();
            }
            Some(Link::Process(input, mut child, reader)) => {
                let _ = child.kill();
                let _ = child.wait();
                drop(input);
                let _ = reader.join();
            }
            None => {}
        }
    }

    fn call(&mut self, rank: u8, command: Command) -> Result<Reply, String> {
        self.send(rank, command)?;
        let answer = self.receive(Duration::from_secs(60))?;
        answer.map(|(_, reply)| reply).ok_or_else(|| format!("rank {rank} does not answer"))
    }
}

impl Drop for Links<'_> {
    fn drop(&mut self) {
        (0..self.shape.options.ranks).for_each(|rank| self.kill(rank));
    }
}

/// Is a rank: a command from each line of `input`, an answer to each line of `output`.
///
/// # Errors
/// What was not as it must be, of its own.
pub fn serve(
    shape: Shape,
    rank: u8,
    pool: &Path,
    input: impl BufRead,
    mut output: impl Write,
) -> Result<(), String> {
    let words = |error: pagelift::Error| error.to_string();
    let pool = SharedMemory::open(pool).map_err(words)?;
    let cpu = Cpu::with_threads(1).map_err(words)?;
    let mut own = Rank::new(shape, rank, &cpu, &pool).map_err(words)?;
    for line in input.lines() {
        let line = line.map_err(|error| error.to_string())?;
        let command = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let reply = serde_json::to_string(&own.obey(&command)).map_err(|error| error.to_string())?;
        let written = output.write_all(reply.as_bytes()).and_then(|()| output.write_all(b"\n"));
        written.and_then(|()| output.flush()).map_err(|error| error.to_string())?;
    }
    Ok(())
}
