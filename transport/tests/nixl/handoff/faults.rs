//! Each fault once, with what comes of it on both sides.

use std::time::Duration;

use pagelift_planner::lifecycle::Outcome;
use pagelift_transport::consumer::{ConsumerEvent, Failure};
use pagelift_transport::control::Message;
use pagelift_transport::receive::Ending;

use super::TERMS;
use super::decode::{Decode, Prefill};

/// A request of three blocks.
const FIRST: u64 = 2;

/// So long that it is not what ends a read.
const LONG: Duration = Duration::from_secs(120);

fn both(reads: Duration) -> (Prefill, Decode) {
    let prefill = Prefill::start();
    let decode = Decode::new(&prefill, reads);
    (prefill, decode)
}

/// D's request has ended so, and nothing of it can be found; the next ones go well, nothing is held on either side, and P ends
/// by itself.
fn ended(mut prefill: Prefill, mut decode: Decode, outcome: Outcome) {
    assert_eq!(decode.decoder.ended, [(FIRST, outcome)]);
    assert_eq!(decode.decoder.outcomes.published, 0);
    goes_on(&mut prefill, &mut decode);
    drop(decode);
    prefill.finish();
}

fn goes_on(prefill: &mut Prefill, decode: &mut Decode) {
    decode.knobs.hold.set(false);
    decode.knobs.notices.set(1);
    *decode.knobs.copies.borrow_mut() = Box::new(|_| 1);
    if decode.consumer.as_ref().unwrap().over().is_some() {
        decode.connect(prefill);
    }
    let before = decode.decoder.outcomes.finished;
    // On a machine that is busy, a lease may be over before its time.
    for _ in 0..20 {
        let ended = decode.decoder.ended.len();
        decode.request(FIRST).unwrap();
        decode.until("a request ends", |own| own.decoder.ended.len() > ended);
        if decode.decoder.outcomes.finished > before {
            break;
        }
    }
    assert_eq!(decode.decoder.outcomes.finished, before + 1);
    assert!(decode.decoder.outcomes.published > 0);
    decode.rest(prefill);
}

fn ending(decode: &Decode) -> Ending {
    match decode.why() {
        Failure::Reads { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

fn until_ended(decode: &mut Decode) {
    decode.until("the request ends", |own| !own.decoder.ended.is_empty());
}

#[test]
fn case_23_p_is_killed_before_the_read() {
    let (mut prefill, mut decode) = both(LONG);
    decode.until("P's offer", |own| own.consumer.as_ref().unwrap().is_paired());
    prefill.child.kill().unwrap();
    prefill.child.wait().unwrap();
    decode.request(FIRST).unwrap();
    until_ended(&mut decode);
    assert!(matches!(decode.why(), Failure::Lost(_)), "{:?}", decode.events);
    ended(Prefill::start(), decode, Outcome::Failed);
}

#[test]
fn case_23_p_is_killed_during_the_read_and_another_takes_its_place() {
    let (mut prefill, mut decode) = both(LONG);
    decode.reading(FIRST);
    prefill.child.kill().unwrap();
    prefill.child.wait().unwrap();
    // Its name is taken at once.
    let mut second = Prefill::start();
    until_ended(&mut decode);
    assert_eq!(ending(&decode), Ending::LeaseLost);
    assert_eq!(second.report().held, 0);
    ended(second, decode, Outcome::Failed);
}

#[test]
fn case_23_p_is_killed_after_the_read() {
    let (mut prefill, mut decode) = both(LONG);
    decode.knobs.notices.set(0);
    decode.request(FIRST).unwrap();
    until_ended(&mut decode);
    assert_eq!(decode.decoder.ended, [(FIRST, Outcome::Finished)]);
    prefill.child.kill().unwrap();
    prefill.child.wait().unwrap();
    // What was read is D's own.
    assert!(decode.decoder.outcomes.published > 0);
    let mut second = Prefill::start();
    decode.until("the connection is lost", |own| own.consumer.as_ref().unwrap().over().is_some());
    let report = second.report();
    assert_eq!((report.held, report.freed.len()), (0, 0));
    goes_on(&mut second, &mut decode);
    drop(decode);
    second.finish();
}

#[test]
fn case_23_p_is_stopped_during_the_read() {
    let (mut prefill, mut decode) = both(LONG);
    decode.reading(FIRST);
    prefill.signal("-STOP");
    // Reads have ended, or can be made to end by nothing: then D holds what they may write, and its engine hears of it.
    decode.until("the request ends, or its reads are stuck", |own| {
        let stuck = own.events.iter().any(|event| matches!(event, ConsumerEvent::Stuck { .. }));
        stuck || !own.decoder.ended.is_empty()
    });
    // P's own lease is over later than D believes, and it notices when it goes on.
    decode.pass(TERMS.lease);
    prefill.signal("-CONT");
    until_ended(&mut decode);
    assert_eq!(ending(&decode), Ending::LeaseLost);
    let report = decode.rest(&mut prefill);
    assert_eq!(report.freed, [(FIRST, "Expired".to_owned())]);
    ended(prefill, decode, Outcome::Failed);
}

#[test]
fn case_23_a_client_cancels_during_the_read() {
    let (mut prefill, mut decode) = both(LONG);
    let id = decode.reading(FIRST);
    decode.cancel(id);
    decode.pass(TERMS.lease * 2);
    assert!(decode.decoder.ended.is_empty(), "the reads are awaited");
    assert_eq!(prefill.report().held, 1, "and P holds what they read");
    decode.knobs.hold.set(false);
    until_ended(&mut decode);
    assert_eq!(ending(&decode), Ending::Cancelled);
    let report = decode.rest(&mut prefill);
    assert_eq!(report.freed, [(FIRST, "Heard(Cancelled)".to_owned())]);
    ended(prefill, decode, Outcome::Aborted);
}

#[test]
fn case_23_heartbeats_or_their_answers_are_lost() {
    for lost in ["heartbeat", "held"] {
        let (mut prefill, mut decode) = both(LONG);
        *decode.knobs.copies.borrow_mut() =
            Box::new(move |message: &Message| u32::from(message.name() != lost));
        decode.reading(FIRST);
        until_ended(&mut decode);
        assert_eq!(ending(&decode), Ending::LeaseLost);
        let freed = decode.rest(&mut prefill).freed;
        let [(FIRST, end)] = &freed[..] else { panic!("{freed:?}") };
        assert!(end == "Expired" || end == "Heard(Failed)", "{end}");
        ended(prefill, decode, Outcome::Failed);
    }
}

#[test]
fn case_23_a_read_never_completes() {
    let (mut prefill, mut decode) = both(TERMS.lease * 3);
    decode.reading(FIRST);
    until_ended(&mut decode);
    assert_eq!(ending(&decode), Ending::TimedOut);
    assert_eq!(decode.rest(&mut prefill).freed, [(FIRST, "Heard(Failed)".to_owned())]);
    ended(prefill, decode, Outcome::Failed);
}

#[test]
fn case_23_a_notice_is_lost_or_doubled() {
    for copies in [0, 2] {
        let (mut prefill, mut decode) = both(LONG);
        decode.knobs.notices.set(copies);
        decode.request(FIRST).unwrap();
        until_ended(&mut decode);
        assert_eq!(decode.decoder.ended, [(FIRST, Outcome::Finished)]);
        let end = if copies == 0 { "Expired" } else { "Heard(Read)" };
        assert_eq!(decode.rest(&mut prefill).freed, [(FIRST, end.to_owned())]);
        goes_on(&mut prefill, &mut decode);
        drop(decode);
        prefill.finish();
    }
}

#[test]
fn case_23_d_is_killed_during_the_read() {
    let mut prefill = Prefill::start();
    let mut victim = Victim::start(&prefill);
    victim.wait_until_reading();
    // Heartbeats keep it, for as long as D lives.
    std::thread::sleep(TERMS.lease * 2);
    assert_eq!(prefill.report().held, 1);
    victim.kill();
    let mut decode = Decode::new(&prefill, LONG);
    assert_eq!(decode.rest(&mut prefill).freed, [(FIRST, "Expired".to_owned())]);
    goes_on(&mut prefill, &mut decode);
    drop(decode);
    prefill.finish();
}

/// A D whose reads never end.
struct Victim(std::process::Child);

/// What [`crate::ROLE`] says of it.
const VICTIM: &str = "victim";

/// Where P is.
const ADDRESS: &str = "PAGELIFT_TEST_ADDRESS";

impl Victim {
    fn start(prefill: &Prefill) -> Self {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "handoff::faults::victim", "--nocapture", "--test-threads=1"]);
        command.env(crate::ROLE, VICTIM).env(ADDRESS, prefill.address.to_string());
        Self(command.stdout(std::process::Stdio::piped()).spawn().unwrap())
    }

    fn wait_until_reading(&mut self) {
        let lines = std::io::BufRead::lines(std::io::BufReader::new(self.0.stdout.take().unwrap()));
        assert!(lines.map_while(Result::ok).any(|line| line.starts_with(crate::prefill::LINE)));
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Not a test of its own: it is a D that is killed.
#[test]
fn victim() {
    if std::env::var(crate::ROLE).as_deref() != Ok(VICTIM) {
        return;
    }
    let address = std::env::var(ADDRESS).unwrap().parse().unwrap();
    let mut decode = Decode::connected(address, LONG);
    decode.reading(FIRST);
    crate::prefill::say(&"reading");
    decode.pass(LONG);
}
