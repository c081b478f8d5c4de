//! Conversations over TCP.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::frames::{Nonce, Role, Secret};
use super::link::{Link, Wire};
use crate::error::ControlError;

/// Where conversations come from.
pub trait Listen {
    /// A conversation.
    type Wire: Wire;

    /// The next conversation, if somebody has begun one. Never waits.
    ///
    /// # Errors
    /// Where none comes for now, though somebody may be there. It may be asked again.
    fn accept(&mut self) -> Result<Option<Self::Wire>, ControlError>;
}

/// P's end: a socket that D's ranks connect to.
///
/// ```
/// use std::time::Duration;
/// use pagelift_transport::control::{Listen, Listener, Message, Secret, Wire, connect};
/// let secret = Secret::new(b"sixteen bytes or more")?;
/// let mut listener = Listener::bind("127.0.0.1:0".parse()?, &secret)?;
/// let mut consumer = connect(listener.address()?, &secret, Duration::from_secs(5))?;
/// consumer.send(&Message::Here)?;
/// let mut producer = loop {
///     if let Some(wire) = listener.accept()? {
///         break wire;
///     }
/// };
/// let heard = loop {
///     consumer.receive()?;
///     if let Some(message) = producer.receive()? {
///         break message;
///     }
/// };
/// assert_eq!(heard, Message::Here);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Listener {
    socket: TcpListener,
    secret: Secret,
    /// Open from the start: where the last file that this process may have is a conversation, that conversation can begin.
    random: File,
}

/// Says nothing of its secret.
impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.socket.local_addr()).finish_non_exhaustive()
    }
}

impl Listener {
    /// Listens at an address. What is said there can be read by others on its network: by default use one of this machine.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(address: SocketAddr, secret: &Secret) -> Result<Self, ControlError> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, secret: secret.clone(), random: random()? })
    }

    /// Where it listens: with the port that the system chose, where 0 was asked for.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> Result<SocketAddr, ControlError> {
        Ok(self.socket.local_addr()?)
    }
}

impl Listen for Listener {
    type Wire = Link<TcpStream>;

    fn accept(&mut self) -> Result<Option<Self::Wire>, ControlError> {
        match self.socket.accept() {
            Ok((stream, _)) => {
                let nonce = drawn(&mut self.random)?;
                link(stream, Role::Producer, &self.secret, nonce).map(Some)
            }
            Err(error) => match error.kind() {
                // Who has gone before being let in hurts nobody.
                ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted => Ok(None),
                _ => Err(error.into()),
            },
        }
    }
}

/// D's end: connects to P, and waits for that, but for nothing after it.
///
/// # Errors
/// What the system says, also where it takes longer than `timeout`.
pub fn connect(
    address: SocketAddr,
    secret: &Secret,
    timeout: Duration,
) -> Result<Link<TcpStream>, ControlError> {
    // Before P is given a connection that would say nothing.
    let nonce = nonce()?;
    link(TcpStream::connect_timeout(&address, timeout)?, Role::Consumer, secret, nonce)
}

fn link(
    stream: TcpStream,
    role: Role,
    secret: &Secret,
    nonce: Nonce,
) -> Result<Link<TcpStream>, ControlError> {
    stream.set_nonblocking(true)?;
    // Messages are short, and heartbeats must not wait for others.
    stream.set_nodelay(true)?;
    Ok(Link::new(stream, role, secret, nonce))
}

/// Thirty-two bytes that nobody can guess, from the system.
///
/// # Errors
/// Where the system has none.
pub fn nonce() -> io::Result<Nonce> {
    drawn(&mut random()?)
}

fn random() -> io::Result<File> {
    File::open("/dev/urandom")
}

fn drawn(random: &mut File) -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    random.read_exact(&mut nonce)?;
    Ok(nonce)
}
