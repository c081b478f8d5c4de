//! Connections in memory: real frames, over pipes that a test may cut, with messages that are lost or said twice.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

use pagelift_transport::control::{Link, Listen, Message, Role, Secret, Wire};
use pagelift_transport::error::ControlError;

/// One direction of a pipe, and whether it was cut.
type Way = Rc<RefCell<(VecDeque<u8>, bool)>>;

/// One end of a pipe that does not block.
pub struct Pipe {
    incoming: Way,
    outgoing: Way,
}

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

/// A nonce that was not used before in this process.
fn nonce() -> [u8; 32] {
    pagelift_transport::control::nonce().unwrap()
}

pub fn secret() -> Secret {
    Secret::new(b"drawn at random!").unwrap()
}

/// A side's end of a conversation, by who knows the secret.
pub fn link(pipe: Pipe, role: Role) -> Link<Pipe> {
    Link::new(pipe, role, &secret(), nonce())
}

/// Connections that wait to be taken. What P says, a test may lose or double.
#[derive(Clone, Default)]
pub struct Door {
    waiting: Rc<RefCell<VecDeque<Pipe>>>,
    pub tap: Tap,
}

impl Door {
    /// Somebody connects, and has this end.
    pub fn connect(&self) -> Pipe {
        let [producer, consumer] = pipe();
        self.waiting.borrow_mut().push_back(producer);
        consumer
    }
}

impl Door {
    /// P's end of the next connection, for whoever plays P.
    pub fn take(&self) -> Option<Pipe> {
        self.waiting.borrow_mut().pop_front()
    }
}

impl Listen for Door {
    type Wire = Tapped;

    fn accept(&mut self) -> Result<Option<Tapped>, ControlError> {
        Ok(self.take().map(|pipe| Tapped::new(link(pipe, Role::Producer), self.tap.clone())))
    }
}

/// How often a message is said.
type Copies = Box<dyn FnMut(&Message) -> u32>;

/// Whoever listens.
type Hears = Box<dyn FnMut(&Message)>;

/// How often messages are said, and whether the wire is cut.
#[derive(Clone)]
pub struct Tap {
    pub copies: Rc<RefCell<Copies>>,
    pub cut: Rc<Cell<bool>>,
    /// What is told of each message that is heard.
    pub hears: Rc<RefCell<Hears>>,
}

impl Default for Tap {
    fn default() -> Self {
        let (copies, hears) = (Box::new(|_: &_| 1), Box::new(|_: &_| ()));
        Self {
            copies: Rc::new(RefCell::new(copies)),
            cut: Rc::default(),
            hears: Rc::new(RefCell::new(hears)),
        }
    }
}

/// A wire whose messages a test may lose or double, or that it may cut.
pub struct Tapped {
    inner: Option<Link<Pipe>>,
    tap: Tap,
}

impl Tapped {
    pub const fn new(inner: Link<Pipe>, tap: Tap) -> Self {
        Self { inner: Some(inner), tap }
    }

    fn inner(&mut self) -> Result<&mut Link<Pipe>, ControlError> {
        if self.tap.cut.get() {
            self.inner = None;
        }
        self.inner.as_mut().ok_or(ControlError::Ended)
    }
}

impl Wire for Tapped {
    fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        let copies = (self.tap.copies.borrow_mut())(message);
        let inner = self.inner()?;
        (0..copies).try_for_each(|_| inner.send(message))
    }

    fn receive(&mut self) -> Result<Option<Message>, ControlError> {
        let heard = self.inner()?.receive()?;
        if let Some(message) = &heard {
            (self.tap.hears.borrow_mut())(message);
        }
        Ok(heard)
    }

    fn is_flushed(&self) -> bool {
        self.inner.as_ref().is_none_or(Wire::is_flushed)
    }
}
