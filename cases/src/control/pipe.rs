//! Two ends of a stream in memory that does not block.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

use pagelift_transport::control::{Link, Listen, Role, Secret};
use pagelift_transport::error::ControlError;

/// One direction, and whether it was cut.
type Way = Rc<RefCell<(VecDeque<u8>, bool)>>;

pub(super) struct Pipe {
    incoming: Way,
    outgoing: Way,
}

pub(super) fn pipe() -> [Pipe; 2] {
    let [one, other] = [Way::default(), Way::default()];
    [Pipe { incoming: one.clone(), outgoing: other.clone() }, Pipe { incoming: other, outgoing: one }]
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (bytes, cut) = &mut *self.incoming.borrow_mut();
        match bytes.read(into)? {
            0 if !*cut => Err(ErrorKind::WouldBlock.into()),
            read => Ok(read),
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let (bytes, cut) = &mut *self.outgoing.borrow_mut();
        if *cut { Err(ErrorKind::BrokenPipe.into()) } else { bytes.write(from) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.incoming.borrow_mut().1 = true;
        self.outgoing.borrow_mut().1 = true;
    }
}

/// What both sides know.
pub(super) const SECRET: &[u8] = b"drawn at random!";

/// An honest side's end. The same case has the same nonces each time.
pub(super) fn link(pipe: Pipe, role: Role, nonce: u8) -> Link<Pipe> {
    let secret = Secret::new(SECRET).expect("it is long enough");
    Link::new(pipe, role, &secret, [nonce; 32])
}

/// Connections that wait to be taken by P.
#[derive(Clone, Default)]
pub(super) struct Door(Rc<RefCell<(VecDeque<Pipe>, u8)>>);

impl Door {
    /// Somebody connects, and has this end.
    pub fn connect(&self) -> Pipe {
        let [producer, consumer] = pipe();
        self.0.borrow_mut().0.push_back(producer);
        consumer
    }
}

impl Listen for Door {
    type Wire = Link<Pipe>;

    fn accept(&mut self) -> Result<Option<Link<Pipe>>, ControlError> {
        let (waiting, nonce) = &mut *self.0.borrow_mut();
        *nonce = nonce.wrapping_add(1);
        Ok(waiting.pop_front().map(|pipe| link(pipe, Role::Producer, *nonce)))
    }
}
