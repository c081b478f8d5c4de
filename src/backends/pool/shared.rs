//! Memory that several processes have.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use super::mapping::failed;
use crate::error::{Error, MemoryError};

/// Memory that several processes map: a memfd whose descriptor they hand on, or a file in `/dev/shm` or `hugetlbfs`.
///
/// One process makes it, all of them map it by [`HostPool::share`](super::HostPool::share), and each registers its own
/// mapping with its own GPU. What becomes of the bytes is seen by all.
///
/// ```
/// use pagelift::backends::{Cpu, HostPool, HostPoolSpec, SharedMemory};
/// use std::os::fd::AsFd;
/// let spec = HostPoolSpec::new(64, 1 << 16);
/// let made = SharedMemory::create("blocks", spec.bytes()?)?;
/// // Another process gets the descriptor, by a socket for instance.
/// let theirs = SharedMemory::from_descriptor(made.as_fd().try_clone_to_owned()?);
/// // SAFETY: (1) nobody writes yet, (2) and it cannot shrink.
/// let pool = unsafe { HostPool::share(&Cpu::new()?, &spec, &theirs, |_| ()) }?;
/// assert_eq!(pool.regions().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
}

impl SharedMemory {
    /// Makes zeroed memory without a path, which lives as long as a process has a descriptor or a mapping of it. Its size
    /// is sealed. `name` is what `/proc/PID/maps` shows.
    ///
    /// # Errors
    /// [`MemoryError::System`].
    pub fn create(name: &str, bytes: u64) -> Result<Self, Error> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let made = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            // Before Linux 6.3. From then on, some systems insist on it.
            Err(Errno::INVAL) => memfd_create(name, flags),
            made => made,
        };
        let file = File::from(made.map_err(|error| failed("memfd_create", error))?);
        file.set_len(bytes).map_err(|error| failed("ftruncate", error))?;
        let sealed = fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL);
        sealed.map_err(|error| failed("fcntl", error))?;
        Ok(Self { file })
    }

    /// Makes a file of so many zeros, which must not exist yet. Whoever made it removes it.
    ///
    /// # Errors
    /// [`MemoryError::System`].
    pub fn create_file(path: impl AsRef<Path>, bytes: u64) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|error| failed("open", at(path, &error)))?;
        file.set_len(bytes).map_err(|error| {
            let _ = std::fs::remove_file(path);
            failed("ftruncate", at(path, &error))
        })?;
        Ok(Self { file })
    }

    /// Opens a file that another process has made.
    ///
    /// # Errors
    /// [`MemoryError::System`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = File::options().read(true).write(true).open(path);
        Ok(Self { file: file.map_err(|error| failed("open", at(path, &error)))? })
    }

    /// Takes a descriptor that another process has handed on.
    #[must_use]
    pub fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self { file: descriptor.into() }
    }

    /// How many bytes it has.
    ///
    /// # Errors
    /// [`MemoryError::System`].
    pub fn bytes(&self) -> Result<u64, Error> {
        Ok(self.file.metadata().map_err(|error| failed("fstat", error))?.len())
    }

    /// Refuses another size.
    pub(super) fn check(&self, expected: u64) -> Result<(), Error> {
        let found = self.bytes()?;
        if found == expected { Ok(()) } else { Err(MemoryError::SharedSize { expected, found }.into()) }
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("`{}`: {error}", path.display())
}
