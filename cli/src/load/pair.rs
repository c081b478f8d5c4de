//! D and its P: a process is started, met, asked, and ended.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pagelift_transport::consumer::{Consumer, ConsumerEvent, ConsumerOptions, End, Wanted};
use pagelift_transport::control::{Link, Secret, connect, nonce};
use pagelift_transport::lease::Moment;
use pagelift_transport::plan::{BlockTable, BlockTables};
use serde::de::DeserializeOwned;

use super::error::LoadError;
use super::producer::{Exported, Hello};
use super::side::{Side, Spec};
use super::timed::Timed;

/// How long anything of P's may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// P's process.
pub struct Producing {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    secret: String,
    hello: Hello,
}

impl Producing {
    /// Starts it, and waits until it listens.
    pub fn start(spec: &Spec) -> Result<Self, LoadError> {
        let starts = LoadError::system("the producer cannot be started");
        let secret =
            nonce().map_err(&starts)?.iter().fold(String::new(), |all, byte| all + &format!("{byte:02x}"));
        let mut command = Command::new(std::env::current_exe().map_err(&starts)?);
        command.args(["load", "--serve", &serde_json::to_string(spec).unwrap_or_default()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(&starts)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let silent = || LoadError::Child { why: "has no standard streams".into(), code: None };
        let (mut stdin, mut stdout) = (stdin.ok_or_else(silent)?, BufReader::new(stdout.ok_or_else(silent)?));
        writeln!(stdin, "{secret}").and_then(|()| stdin.flush()).map_err(&starts)?;
        let hello = line(&mut stdout).map_err(|error| match error {
            // It has said why.
            LoadError::Child { why, .. } => LoadError::Child { why, code: code_of(&mut child) },
            error => error,
        })?;
        Ok(Self { child, stdin: Some(stdin), stdout, secret, hello })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn connect(&self) -> Result<Link<TcpStream>, LoadError> {
        let secret = Secret::new(self.secret.as_bytes())?;
        Ok(connect(self.hello.address, &secret, PATIENCE)?)
    }

    /// Waits until it has nothing to hold any more, and has ended.
    pub fn finish(mut self) -> Result<Exported, LoadError> {
        drop(self.stdin.take());
        let exported = line(&mut self.stdout)?;
        let status = self.child.wait().map_err(LoadError::system("the producer cannot be waited for"))?;
        if !status.success() {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Err(LoadError::Child { why: format!("has ended with {status}"), code });
        }
        Ok(exported)
    }
}

impl Drop for Producing {
    fn drop(&mut self) {
        // Where all went well it has ended; otherwise nobody asks for what it holds any more.
        let _: std::io::Result<()> = self.child.kill();
        let _: std::io::Result<ExitStatus> = self.child.wait();
    }
}

/// The code of a process that has closed its standard output, and ends.
fn code_of(child: &mut Child) -> Option<u8> {
    let code = child.wait().ok()?.code()?;
    u8::try_from(code).ok()
}

fn line<T: DeserializeOwned>(from: &mut impl BufRead) -> Result<T, LoadError> {
    let mut text = String::new();
    from.read_line(&mut text).map_err(LoadError::system("the producer cannot be heard"))?;
    let ended = |_| LoadError::Child { why: "has ended before its time".into(), code: None };
    serde_json::from_str(&text).map_err(ended)
}

/// D, connected to P.
pub struct Pair<'a, 'b> {
    pub side: &'a mut Side<'b>,
    pub transfer: &'a Timed,
    pub consumer: Consumer<&'a Timed, Link<TcpStream>, u64>,
    clock: Instant,
    /// The number of the next request.
    pub next: u64,
}

/// When the parts of an import were done, from when it was wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// P had granted it and all reads were in flight.
    pub begun: Duration,
    /// All had landed, and P was told.
    pub ended: Duration,
    /// The turn in which P's grant was heard and all reads were begun.
    pub turn: Duration,
    /// NIXL's calls in that turn.
    pub calls: Duration,
    /// NIXL's calls in all turns.
    pub spent: Duration,
}

impl<'a, 'b> Pair<'a, 'b> {
    /// Connects to P and waits for its offer.
    pub fn new(side: &'a mut Side<'b>, transfer: &'a Timed, producer: &Producing) -> Result<Self, LoadError> {
        let clock = Instant::now();
        let options =
            ConsumerOptions { grant_timeout: PATIENCE, read_timeout: PATIENCE, ..ConsumerOptions::default() };
        let (wire, offer) = (producer.connect()?, side.offer.clone());
        let consumer = Consumer::new(transfer, wire, offer, options, Moment::now(clock))?;
        let mut own = Self { side, transfer, consumer, clock, next: 1 };
        while !own.consumer.is_paired() {
            own.poll()?;
            std::thread::yield_now();
        }
        Ok(own)
    }

    /// Goes on, as far as it can without waiting.
    pub fn poll(&mut self) -> Result<Vec<ConsumerEvent<u64>>, LoadError> {
        let events = self.consumer.poll(|| Moment::now(self.clock), self.side);
        match events.iter().find_map(|event| match event {
            ConsumerEvent::Lost { why } => Some(why.clone().into()),
            ConsumerEvent::Stuck { .. } => {
                Some(LoadError::Late("reads that were told to stop have not ended"))
            }
            _ => None,
        }) {
            Some(why) => Err(why),
            None => Ok(events),
        }
    }

    /// Wants an import into these blocks of the family.
    pub fn begin(&mut self, tokens: u64, blocks: &[u32]) -> Result<u64, LoadError> {
        let request = self.next;
        self.next = request.saturating_add(1);
        let blocks = BlockTables::new().with(self.side.cache.name, BlockTable::from_first(blocks));
        let wanted =
            Wanted { request, imported: pagelift::quantity::Tokens::new(tokens), blocks, awaited: true };
        self.consumer.begin(request, wanted)?;
        Ok(request)
    }

    /// Imports, with nothing else in flight. Returns P's blocks too. It waits awake, as for the read that it is compared with.
    pub fn import(&mut self, tokens: u64, blocks: &[u32]) -> Result<(Times, Vec<u32>), LoadError> {
        let (wanted, all) = (Instant::now(), self.transfer.spent());
        let request = self.begin(tokens, blocks)?;
        let (mut times, mut theirs) = (Times::default(), Vec::new());
        loop {
            let (turn, spent) = (Instant::now(), self.transfer.spent());
            for event in self.poll()? {
                match event {
                    ConsumerEvent::Begun { exported, .. } => {
                        (times.begun, times.turn) = (wanted.elapsed(), turn.elapsed());
                        times.calls = self.transfer.spent().saturating_sub(spent);
                        theirs = blocks_of(&exported, self.side.cache.name);
                    }
                    ConsumerEvent::Ended { end: End::Landed { .. }, .. } => {
                        times.ended = wanted.elapsed();
                        times.spent = self.transfer.spent().saturating_sub(all);
                        return Ok((times, theirs));
                    }
                    ConsumerEvent::Ended { end: End::Failed { why, .. }, .. } => {
                        return Err(LoadError::Failed { request, why });
                    }
                    _ => {}
                }
            }
            std::thread::yield_now();
        }
    }

    /// Says that nothing more will be wanted.
    pub fn close(&mut self) {
        self.consumer.close();
    }
}

/// A group's blocks, by position.
pub fn blocks_of(tables: &BlockTables, group: &str) -> Vec<u32> {
    tables.get(group).map(|table| table.iter().map(|(_, block)| block).collect()).unwrap_or_default()
}
