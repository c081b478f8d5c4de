//! This process's end: memory that others may read, and what they send.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use nixl_sys::{AgentConfig, Backend, NotificationMap, OptArgs, RegistrationHandle, ThreadSync};

use super::error::NixlError;
use super::library::Library;
use super::memory::Registered;
use crate::error::NoticeError;
use crate::notice::Notice;
use crate::region::MemoryRange;
use crate::transfer::Heard;

/// Microseconds that the plugin's thread sleeps at most, when nothing comes: whoever asks for states and notices makes progress too.
const THREAD_SLEEPS: u64 = 10_000;

/// What an agent is made of.
#[derive(Clone, Copy, Debug)]
pub struct AgentOptions<'a> {
    /// Its name, by which peers know it.
    pub name: &'a str,
    /// The plugin that carries bytes.
    pub plugin: &'a str,
    /// Parameters of the plugin, by name, in place of its own.
    pub parameters: &'a [(&'a str, &'a str)],
}

/// Parameters of the plugin UCX: segments of 512 KiB over TCP.
///
/// Between a GPU's memory and the host's, UCX takes TCP where there is no RDMA, also within one machine, and copies each segment
/// by a call that waits. From an H200 into a pinned pool that made 2.2 GB/s; segments of 8 KiB, which are UCX's own, made 0.4.
/// What the environment says (`UCX_TCP_TX_SEG_SIZE`, `UCX_TCP_RX_SEG_SIZE`) goes before it.
pub const UCX_PARAMETERS: &[(&str, &str)] = &[("engine_config", "TCP_TX_SEG_SIZE=512k,TCP_RX_SEG_SIZE=512k")];

impl<'a> AgentOptions<'a> {
    /// An agent of that name, over UCX.
    #[must_use]
    pub const fn new(name: &'a str) -> Self {
        Self { name, plugin: "UCX", parameters: UCX_PARAMETERS }
    }

    /// An agent of that name over a plugin, with the parameters that suit imports: [`UCX_PARAMETERS`], and those that other
    /// plugins have by themselves.
    #[must_use]
    pub fn over(name: &'a str, plugin: &'a str) -> Self {
        let parameters = if plugin == "UCX" { UCX_PARAMETERS } else { &[] };
        Self { name, plugin, parameters }
    }
}

/// This process's end of all transfers. What it has prepared, and its reads, keep the plugin and its thread for as long as they live.
///
/// ```no_run
/// use pagelift_transport::nixl::{Agent, AgentOptions, Library};
/// let mut agent = Agent::new(&Library::open()?, AgentOptions::new("decode-0"))?;
/// let metadata = agent.metadata()?; // to be sent to peers, beside the offer
/// # Ok::<(), pagelift_transport::nixl::NixlError>(())
/// ```
pub struct Agent {
    // Dropped in this order: registrations name the agent.
    registrations: Vec<(Registered, RegistrationHandle)>,
    /// How often each peer was added and not forgotten. The library itself forgets one for all at once.
    peers: Mutex<BTreeMap<String, usize>>,
    backend: Backend,
    agent: nixl_sys::Agent,
}

/// Says nothing of what is the library's.
impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registered: Vec<&Registered> = self.registrations.iter().map(|(own, _)| own).collect();
        f.debug_struct("Agent")
            .field("registered", &registered)
            .field("peers", &self.peers)
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// Makes an agent with one plugin. A thread of the plugin's makes progress by itself.
    ///
    /// # Errors
    /// [`NixlError::NoPlugin`] where the library lacks the plugin, and what NIXL refuses.
    pub fn new(_: &Library, options: AgentOptions<'_>) -> Result<Self, NixlError> {
        let config = AgentConfig {
            enable_prog_thread: true,
            // It sleeps until something comes. Without that it takes a processor, and the worker's lock from those who read.
            pthr_delay_us: THREAD_SLEEPS,
            // Engines ask from several threads.
            thread_sync: ThreadSync::Strict,
            ..AgentConfig::default()
        };
        let agent = nixl_sys::Agent::new_configured(options.name, &config);
        let agent = agent.map_err(NixlError::call("make an agent"))?;
        let plugins = names(&agent)?;
        if !plugins.iter().any(|name| name == options.plugin) {
            return Err(NixlError::NoPlugin { name: options.plugin.to_owned(), there: plugins });
        }
        let (_, mut params) =
            agent.get_plugin_params(options.plugin).map_err(NixlError::call("ask a plugin"))?;
        for (name, value) in options.parameters {
            params.set(name, value).map_err(NixlError::call("set a plugin's parameter"))?;
        }
        let backend = agent.create_backend(options.plugin, &params);
        let backend = backend.map_err(NixlError::call("start a plugin"))?;
        Ok(Self { registrations: Vec::new(), peers: Mutex::default(), backend, agent })
    }

    /// The plugins that the library has.
    ///
    /// # Errors
    /// What NIXL refuses.
    pub fn plugins(_: &Library) -> Result<Vec<String>, NixlError> {
        let agent = nixl_sys::Agent::new("pagelift").map_err(NixlError::call("make an agent"))?;
        names(&agent)
    }

    /// Lets peers read a range of memory, and this process's own reads write it. Ranges come from
    /// [`crate::region::RegionMap::memory`]: each once, however many groups lie in it.
    ///
    /// # Errors
    /// Where it shares bytes with a range that is registered, or NIXL refuses it.
    ///
    /// # Safety
    /// 1. The memory is this process's, of the kind and device that `range` says, until this agent and every
    ///    [`Prepared`](super::Prepared) and [`Reading`](super::Reading) of it have been dropped: the plugin lives on in each of them,
    ///    and so do reads that are in flight.
    /// 2. Peers may read any byte of it at any time from now on, and reads of this agent write it while they are in flight:
    ///    meanwhile no reference to these bytes is used.
    #[expect(unsafe_code, reason = "whose memory an address is nobody but the caller knows")]
    pub unsafe fn register(&mut self, range: MemoryRange) -> Result<(), NixlError> {
        let own = Registered::new(range)?;
        if self.registrations.iter().any(|(other, _)| own.meets(other)) {
            return Err(NixlError::RegisteredTwice { range });
        }
        let mut options = OptArgs::new().map_err(NixlError::call("register memory"))?;
        options.add_backend(&self.backend).map_err(NixlError::call("register memory"))?;
        let handle = self.agent.register_memory(&own, Some(&options));
        self.registrations.push((own, handle.map_err(NixlError::call("register memory"))?));
        Ok(())
    }

    /// What peers need to reach this agent and its memory; larger with each registration, so it is sent after the last.
    ///
    /// # Errors
    /// What NIXL refuses.
    pub fn metadata(&self) -> Result<Vec<u8>, NixlError> {
        self.agent.get_local_md().map_err(NixlError::call("describe this agent"))
    }

    /// Takes what a peer sent as its [`Agent::metadata`], and says its name. It must come from a peer that is trusted: it is
    /// the library's own format. Several connections may add the same peer; each forgets it once.
    ///
    /// # Errors
    /// What NIXL refuses, and a name that is not UTF-8.
    pub fn add_peer(&self, metadata: &[u8]) -> Result<String, NixlError> {
        let failed = NixlError::call("take a peer's description");
        // The bindings panic at a name that is not UTF-8, when they hold nothing any more.
        let load = std::panic::AssertUnwindSafe(|| self.agent.load_remote_md(metadata));
        // Nobody forgets it between the two.
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = std::panic::catch_unwind(load).unwrap_or(Err(nixl_sys::NixlError::InvalidParam));
        let name = loaded.map_err(failed)?;
        let added = peers.entry(name.clone()).or_default();
        *added = added.saturating_add(1);
        Ok(name)
    }

    /// Forgets a peer, once all who have added it have said so: a process that takes its place must be added anew.
    ///
    /// # Errors
    /// [`NixlError::NoPeer`] where there is none of that name.
    pub fn forget_peer(&self, name: &str) -> Result<(), NixlError> {
        let none = || NixlError::NoPeer { name: name.to_owned() };
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let Entry::Occupied(mut peer) = peers.entry(name.to_owned()) else { return Err(none()) };
        if *peer.get() > 1 {
            *peer.get_mut() = peer.get().saturating_sub(1);
            return Ok(());
        }
        peer.remove();
        self.agent.invalidate_remote_md(name).map_err(|_| none())
    }

    /// Tells a peer that a rank reads its export no more.
    ///
    /// # Errors
    /// What NIXL refuses; [`NixlError::NoPeer`] where there is none of that name.
    pub fn notify(&self, peer: &str, notice: &Notice) -> Result<(), NixlError> {
        let message = notice.to_string();
        self.agent.send_notification(peer, message.as_bytes(), Some(&self.backend)).map_err(|error| {
            match error {
                nixl_sys::NixlError::NotFound => NixlError::NoPeer { name: peer.to_owned() },
                error => NixlError::call("notify a peer")(error),
            }
        })
    }

    /// What peers have sent since this was last asked, and who. Anything that is no notice comes as an error, and hides
    /// nothing else.
    ///
    /// # Errors
    /// What NIXL refuses.
    pub fn heard(&self) -> Result<Vec<Heard>, NixlError> {
        let failed = NixlError::call("ask for notices");
        let mut map = NotificationMap::new().map_err(&failed)?;
        self.agent.get_notifications(&mut map, None).map_err(&failed)?;
        let mut notices = Vec::new();
        for peer in map.agents() {
            // The name is the sender's word. Of one that is no text, or that ends early, nothing can be asked.
            let messages = peer.and_then(|peer| Ok((peer, map.get_notifications(peer)?)));
            let Ok((peer, messages)) = messages else {
                notices.push(Heard { peer: String::new(), notice: Err(NoticeError { bytes: 0 }) });
                continue;
            };
            for message in messages {
                let notice =
                    message.map_err(|_| NoticeError { bytes: 0 }).and_then(|text| Notice::parse(&text));
                notices.push(Heard { peer: peer.to_owned(), notice });
            }
        }
        Ok(notices)
    }

    pub(super) const fn inner(&self) -> &nixl_sys::Agent {
        &self.agent
    }

    pub(super) const fn backend(&self) -> &Backend {
        &self.backend
    }
}

fn names(agent: &nixl_sys::Agent) -> Result<Vec<String>, NixlError> {
    let plugins = agent.get_available_plugins().map_err(NixlError::call("list plugins"))?;
    let names = plugins.iter().map(|name| name.map(str::to_owned));
    names.collect::<Result<_, _>>().map_err(NixlError::call("list plugins"))
}
