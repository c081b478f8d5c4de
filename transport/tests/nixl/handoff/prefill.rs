//! P's process: it exports whatever is asked for, and says what it holds when it is asked.

use std::io::BufRead;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::{Duration, Instant};

use pagelift_transport::control::Listener;
use pagelift_transport::lease::Moment;
use pagelift_transport::nixl::{Agent, AgentOptions, Library};
use pagelift_transport::producer::{Producer, ProducerOptions};

use super::{Process, Report, TERMS, engine, register, secret};
use crate::ROLE;
use crate::engines::Prefiller;
use crate::prefill::say;

/// What [`ROLE`] says of it.
pub const PREFILL: &str = "prefill";

/// Not a test of its own: it is P where D has started it, and nothing otherwise.
#[test]
fn producer() {
    if std::env::var(ROLE).as_deref() != Ok(PREFILL) {
        return;
    }
    let (memory, layout, offer) = engine(true);
    let mut agent = Agent::new(&Library::open().unwrap(), AgentOptions::new("prefill")).unwrap();
    register(&mut agent, &offer);
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &secret()).unwrap();
    let address = listener.address().unwrap();
    let options = ProducerOptions { terms: TERMS, ..ProducerOptions::new(std::process::id().into()) };
    let mut producer = Producer::new(agent, listener, offer, options).unwrap();
    let mut engine = Prefiller::new(layout, memory);
    say(&address);

    // D asks by lines, and goes by the end of them.
    let (asks, asked) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.and_then(|_| asks.send(()).map_err(std::io::Error::other)).is_err() {
                break;
            }
        }
    });
    let start = Instant::now();
    loop {
        producer.poll(|| Moment::now(start), &mut engine).unwrap();
        match asked.try_recv() {
            Ok(()) => {
                let freed = engine.freed.drain(..).map(|(_, request, end)| (request, format!("{end:?}")));
                let (freed, held, idle) = (freed.collect(), producer.held(), engine.is_idle());
                say(&Report { held, freed, idle, process: Process::own() });
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => producer.stop(),
        }
        if producer.is_finished() {
            break;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    assert!(engine.is_idle());
}
