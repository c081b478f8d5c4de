//! Conversations in memory: streams that do not block, and connections that wait to be taken.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

use pagelift_transport::control::{Link, Listen, Role, Secret};
use pagelift_transport::error::ControlError;

/// One direction, and whether it was cut.
type Way = Rc<RefCell<(VecDeque<u8>, bool)>>;

/// One end of a stream in memory. It is cut when either end is dropped: what was written until then can still be read.
pub struct Pipe {
    incoming: Way,
    outgoing: Way,
}

/// Both ends of a stream.
#[must_use]
pub fn pipe() -> [Pipe; 2] {
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
pub const SECRET: &[u8] = b"drawn at random!";

/// An honest side's end of a conversation. No two connections of a case may have the same `nonce`.
pub fn link(pipe: Pipe, role: Role, nonce: [u8; 32]) -> Link<Pipe> {
    let secret = Secret::new(SECRET).expect("it is long enough");
    Link::new(pipe, role, &secret, nonce)
}

/// Connections that wait to be taken by P. The same case has the same nonces each time.
#[derive(Clone, Default)]
pub struct Door(Rc<RefCell<(VecDeque<Pipe>, u8)>>);

impl Door {
    /// Somebody connects, and has this end.
    #[must_use]
    pub fn connect(&self) -> Pipe {
        let [producer, consumer] = pipe();
        self.0.borrow_mut().0.push_back(producer);
        consumer
    }

    /// P's end of the next connection, for whoever plays P.
    #[must_use]
    pub fn take(&self) -> Option<Pipe> {
        self.0.borrow_mut().0.pop_front()
    }
}

impl Listen for Door {
    type Wire = Link<Pipe>;

    fn accept(&mut self) -> Result<Option<Link<Pipe>>, ControlError> {
        let Some(pipe) = self.take() else { return Ok(None) };
        let (_, taken) = &mut *self.0.borrow_mut();
        *taken = taken.wrapping_add(1);
        Ok(Some(link(pipe, Role::Producer, [*taken; 32])))
    }
}
