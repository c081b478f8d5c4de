//! The control channel: what is said arrives, and nothing else does.

use std::io::{Cursor, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use pagelift_planner::geometry::Memory;
use pagelift_planner::quantity::Tokens;
use pagelift_transport::control::{
    Frames, Greeting, Link, Listen, Listener, MOST_FRAME, Message, Role, Secret, Wire, connect,
};
use pagelift_transport::error::ControlError;
use pagelift_transport::lease::Terms;
use pagelift_transport::notice::{ExportId, Notice, ReadOutcome};
use pagelift_transport::plan::{BlockTable, BlockTables};
use proptest::prelude::*;

use crate::payload::every_kind;

const EXPORT: ExportId = ExportId { incarnation: u64::MAX, number: 3 };

fn secret() -> Secret {
    Secret::new(b"drawn at random!").unwrap()
}

/// Both ends of a conversation: P's and D's.
fn both(secrets: [&Secret; 2], nonces: [u8; 2]) -> [Frames; 2] {
    let producer = Greeting::new(Role::Producer, [nonces[0]; 32]);
    let consumer = Greeting::new(Role::Consumer, [nonces[1]; 32]);
    [
        producer.answered(secrets[0], &consumer.to_bytes()).unwrap(),
        consumer.answered(secrets[1], &producer.to_bytes()).unwrap(),
    ]
}

fn conversation() -> [Frames; 2] {
    both([&secret(); 2], [1, 2])
}

/// One of each.
fn messages() -> Vec<Message> {
    let (sent, rank) = (Duration::from_nanos(u64::MAX), 1);
    let notice = Notice { export: EXPORT, rank, outcome: ReadOutcome::Cancelled };
    let blocks = BlockTables::new()
        .with("main", BlockTable::from_first(&[5, 2]))
        .with("gdn", BlockTable::at(7, vec![None, Some(1)]));
    vec![
        Message::Hello,
        Message::Offer { offer: Box::new(every_kind(Memory::Host)), metadata: vec![0, 255, 7] },
        Message::Ask { request: u64::MAX, imported: Tokens::new(1152), sent },
        Message::Granted { request: 1, sent, export: EXPORT, terms: Terms::default(), blocks },
        Message::Refused { request: 1, sent, reason: "no \"room\"\n".into() },
        Message::Heartbeat { export: EXPORT, rank, sent },
        Message::Held { export: EXPORT, rank, sent },
        Message::NotHeld { export: EXPORT, rank },
        Message::Notice(notice),
        Message::Waiting { request: u64::MAX, sent },
        Message::Here,
        Message::Bye,
    ]
}

#[test]
fn what_is_said_arrives_in_both_directions_at_once() {
    let [mut producer, mut consumer] = conversation();
    for message in messages() {
        producer.push(&consumer.encode(&message).unwrap());
        consumer.push(&producer.encode(&message).unwrap());
        assert_eq!(producer.next().unwrap().as_ref(), Some(&message));
        assert_eq!(consumer.next().unwrap(), Some(message));
        assert_eq!(producer.next().unwrap(), None);
    }
}

#[test]
fn who_lacks_the_secret_says_nothing() {
    let other = Secret::new(b"drawn at random?").unwrap();
    let [mut producer, mut consumer] = both([&secret(), &other], [1, 2]);
    producer.push(&consumer.encode(&Message::Bye).unwrap());
    assert_eq!(producer.next(), Err(ControlError::Forged));
    assert_eq!(Secret::new(b"fifteen bytes..").unwrap_err(), ControlError::Secret { bytes: 15, least: 16 });
    assert_eq!(format!("{:?}", secret()), "Secret");
}

#[test]
fn no_key_and_no_secret_is_printed() {
    let [frames, _] = conversation();
    let words = "Frames { sent: 0, received: 0, waiting_bytes: 0, dead: false, .. }";
    assert_eq!(format!("{frames:?}"), words);
    let mut link = Link::new(Cursor::new(Vec::new()), Role::Producer, &secret(), [3; 32]);
    link.send(&Message::Bye).unwrap();
    let words = "Link { role: Producer, state: \"greeting\", waiting_messages: 1, leaving_bytes: 48, .. }";
    assert_eq!(format!("{link:?}"), words);
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &secret()).unwrap();
    let address = listener.address().unwrap();
    assert_eq!(format!("{listener:?}"), format!("Listener {{ address: Ok({address}), .. }}"));
}

#[test]
fn frames_twice_out_of_order_of_other_days_or_sent_back_are_refused() {
    let [mut producer, mut consumer] = conversation();
    let first = consumer
        .encode(&Message::Ask { request: 1, imported: Tokens::new(1), sent: Duration::ZERO })
        .unwrap();
    let second = consumer.encode(&Message::Bye).unwrap();
    let refused = |frames: &mut Frames, bytes: &[u8]| {
        frames.push(bytes);
        assert_eq!(frames.next(), Err(ControlError::Forged));
        frames.push(&first);
        assert_eq!(frames.next(), Err(ControlError::Dead));
    };
    // One left out; what this side has said itself; what was said in a conversation with other nonces.
    refused(&mut conversation()[0], &second);
    refused(&mut conversation()[1], &first);
    refused(&mut both([&secret(); 2], [1, 3])[0], &first);
    refused(&mut both([&secret(); 2], [3, 2])[0], &first);
    producer.push(&first);
    assert!(producer.next().unwrap().is_some());
    refused(&mut producer, &first);
}

#[test]
fn a_greeting_is_of_this_channel_and_version_and_of_the_other_role() {
    let own = Greeting::new(Role::Producer, [1; 32]);
    let theirs = Greeting::new(Role::Consumer, [2; 32]).to_bytes();
    assert!(own.answered(&secret(), &theirs).is_ok());
    for place in 0..16 {
        let mut wrong = theirs;
        wrong[place] ^= 3;
        let error = own.answered(&secret(), &wrong).err().unwrap();
        let right = match place {
            0..11 => error == ControlError::NoGreeting,
            11..15 => matches!(error, ControlError::Version { ours: 1, theirs } if theirs != 1),
            _ => error == ControlError::SameRole,
        };
        assert!(right, "{place}: {error}");
    }
    assert_eq!(own.answered(&secret(), &own.to_bytes()).err(), Some(ControlError::SameRole));
}

#[test]
fn a_frame_that_would_be_too_large_is_refused_by_its_first_four_bytes() {
    let [mut producer, _] = conversation();
    producer.push(&u32::MAX.to_le_bytes());
    let most = MOST_FRAME;
    assert_eq!(producer.next(), Err(ControlError::TooLarge { bytes: u32::MAX as usize, most }));
    let [_, mut consumer] = conversation();
    let reason = "x".repeat(MOST_FRAME);
    let error = consumer.encode(&Message::Refused { request: 0, sent: Duration::ZERO, reason }).unwrap_err();
    assert!(matches!(error, ControlError::TooLarge { most, .. } if most == MOST_FRAME));
}

/// Both ends of a connection over TCP.
fn connected(secrets: [&Secret; 2]) -> [impl Wire + use<>; 2] {
    let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap(), secrets[0]).unwrap();
    let consumer = connect(listener.address().unwrap(), secrets[1], Duration::from_secs(5)).unwrap();
    loop {
        if let Some(producer) = listener.accept().unwrap() {
            return [producer, consumer];
        }
    }
}

/// Lets both ends go on until one of them hears something, or its end.
fn hear(ends: &mut [impl Wire; 2], which: usize) -> Result<Message, ControlError> {
    loop {
        let [heard, other] = [which, 1 - which].map(|end| ends[end].receive());
        if let Some(message) = heard? {
            assert!(!matches!(other, Ok(Some(_))));
            return Ok(message);
        }
    }
}

#[test]
fn over_a_connection_both_sides_hear_each_other_and_the_end() {
    let mut ends = connected([&secret(); 2]);
    // What is said before the other side has greeted waits; a hello is the channel's own.
    for message in messages().into_iter().skip(1) {
        for end in [0, 1] {
            ends[1 - end].send(&message).unwrap();
            assert_eq!(hear(&mut ends, end).unwrap(), message);
        }
    }
    assert!(ends.iter().all(Wire::is_flushed));
    let [mut producer, consumer] = ends;
    drop(consumer);
    let end = loop {
        if let Err(error) = producer.receive() {
            break error;
        }
    };
    assert_eq!(end, ControlError::Ended);
    assert_eq!(producer.send(&Message::Bye), Err(ControlError::Ended));
}

#[test]
fn nothing_is_told_to_who_lacks_the_secret() {
    let other = Secret::new(b"drawn at random?").unwrap();
    let mut ends = connected([&secret(), &other]);
    ends[0].send(&Message::Bye).unwrap();
    assert_eq!(hear(&mut ends, 1), Err(ControlError::Forged));
    let mut ends = connected([&secret(), &other]);
    assert_eq!(hear(&mut ends, 0), Err(ControlError::Forged));
}

/// Set where a test is in a process of its own, which may have few files open.
const FEW_FILES: &str = "PAGELIFT_TEST_FEW_FILES";

#[test]
fn the_last_file_that_a_process_may_have_is_a_conversation() {
    if std::env::var_os(FEW_FILES).is_none() {
        let name = std::thread::current().name().unwrap().to_owned();
        let mut own = std::process::Command::new("sh");
        own.args(["-c", r#"ulimit -n 64 && exec "$0" --exact "$1" --nocapture"#]);
        own.arg(std::env::current_exe().unwrap()).arg(name).env(FEW_FILES, "1");
        let output = own.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
        return;
    }
    let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &secret()).unwrap();
    let address = listener.address().unwrap();
    let guests = [TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap()];
    let mut files = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    files.pop();
    let mut first = listener.accept().unwrap().unwrap();
    // For the next one there is none: it waits until there is.
    assert!(matches!(listener.accept(), Err(ControlError::Stream { .. })));
    files.pop();
    let mut second = listener.accept().unwrap().unwrap();
    for wire in [&mut first, &mut second] {
        assert_eq!(wire.receive(), Ok(None));
    }
    drop(guests);
}

#[test]
fn a_stranger_is_kept_no_large_frame_for() {
    let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &secret()).unwrap();
    let mut stranger = TcpStream::connect(listener.address().unwrap()).unwrap();
    stranger.write_all(&Greeting::new(Role::Consumer, [7; 32]).to_bytes()).unwrap();
    stranger.write_all(&4096_u32.to_le_bytes()).unwrap();
    stranger.write_all(&[0; 4096]).unwrap();
    let mut producer = loop {
        if let Some(producer) = listener.accept().unwrap() {
            break producer;
        }
    };
    let end = loop {
        if let Err(error) = producer.receive() {
            break error;
        }
    };
    assert_eq!(end, ControlError::TooLarge { bytes: 4096, most: 1024 });
    drop(producer);
    // Of this side it has seen a greeting, and a hello's keyed hash.
    let mut heard = Vec::new();
    // The connection may be reset, for it had said more than was read.
    let _: std::io::Result<usize> = stranger.read_to_end(&mut heard);
    assert!(heard.len() < 200, "{}", heard.len());
}

proptest! {
    #[test]
    fn pieces_of_any_size_make_the_same_messages(
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let [mut producer, mut consumer] = conversation();
        let bytes: Vec<u8> =
            messages().iter().flat_map(|message| consumer.encode(message).unwrap()).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut heard = Vec::new();
        for piece in cuts.windows(2) {
            producer.push(&bytes[piece[0]..piece[1]]);
            while let Some(message) = producer.next().unwrap() {
                heard.push(message);
            }
        }
        prop_assert_eq!(heard, messages());
    }

    #[test]
    fn a_frame_with_one_bit_changed_is_no_message(
        which in 0_usize..12,
        place in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let [mut producer, mut consumer] = conversation();
        let mut bytes = consumer.encode(&messages()[which]).unwrap();
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        producer.push(&bytes);
        let mut told = producer.next();
        if told == Ok(None) {
            // A length that grew waits for more, and is refused when that has come. (Of megabytes it is not sent.)
            let needs = producer.needs();
            prop_assert!(place < 4 && (1..=MOST_FRAME).contains(&needs));
            if needs < 1 << 16 {
                producer.push(&vec![0; needs]);
                told = producer.next();
                prop_assert_eq!(&told, &Err(ControlError::Forged));
            }
        }
        prop_assert!(!matches!(told, Ok(Some(_))));
        prop_assert_eq!(producer.next(), told.map_err(|_| ControlError::Dead));
    }

    #[test]
    fn noise_is_no_message(noise in prop::collection::vec(any::<u8>(), 0..600)) {
        let [mut producer, _] = conversation();
        producer.push(&noise);
        let heard = matches!(producer.next(), Ok(Some(_)));
        prop_assert!(!heard);
    }

    #[test]
    fn who_knows_the_secret_and_says_nonsense_is_told_so(text in "[ -~]{0,60}") {
        // A frame as this crate makes them, with other content: the keyed hash as the documentation has it.
        let key = blake3::derive_key("pagelift control channel 1: secret", b"drawn at random!");
        let mut way = blake3::Hasher::new_keyed(&key);
        way.update(&[1; 32]).update(&[2; 32]).update(&[1]);
        let mut tag = blake3::Hasher::new_keyed(way.finalize().as_bytes());
        tag.update(&0_u64.to_le_bytes()).update(text.as_bytes());
        let length = u32::try_from(text.len()).unwrap();
        let [mut producer, _] = conversation();
        producer.push(&length.to_le_bytes());
        producer.push(tag.finalize().as_bytes());
        producer.push(text.as_bytes());
        let told = matches!(producer.next(), Err(ControlError::Malformed { .. }));
        prop_assert!(told);
    }
}
