//! Connections in memory: real frames, over pipes that a test may cut, with messages that are lost or said twice.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pagelift_cases::control::pipe;
use pagelift_transport::control::{Link, Listen, Message, Role, Wire, nonce};
use pagelift_transport::error::ControlError;

pub use pagelift_cases::control::pipe::Pipe;

/// A side's end of a conversation, by who knows the secret; each with a nonce of its own.
pub fn link(pipe: Pipe, role: Role) -> Link<Pipe> {
    pipe::link(pipe, role, nonce().unwrap())
}

/// Connections that wait to be taken. What P says, a test may lose or double.
#[derive(Clone, Default)]
pub struct Door {
    pub waiting: pipe::Door,
    pub tap: Tap,
    /// Whether the system brings nobody, though somebody may wait.
    pub stuck: Rc<Cell<bool>>,
}

impl Listen for Door {
    type Wire = Tapped;

    fn accept(&mut self) -> Result<Option<Tapped>, ControlError> {
        if self.stuck.get() {
            return Err(std::io::Error::other("too many open files").into());
        }
        Ok(self.waiting.accept()?.map(|link| Tapped::new(link, self.tap.clone())))
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
