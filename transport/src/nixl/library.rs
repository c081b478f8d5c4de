//! Finding the library, before anything of it is called.
//!
//! The bindings open `libnixl_capi.so` at their first call, and end the process where it, or the call, is missing. So it
//! is opened here first, by the path that was said or by the system's rules, and every call is looked up.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::calls::CALLS;
use super::error::NixlError;

/// The environment variable that names the library's file, where the system's rules do not find it.
pub const VARIABLE: &str = "PAGELIFT_NIXL";

/// The file that the bindings open.
const NAME: &str = "libnixl_capi.so";

/// NIXL's library, opened, with every call that the bindings make.
///
/// ```no_run
/// use pagelift_transport::nixl::Library;
/// let library = Library::open()?;
/// println!("{:?}, version {:?}", library.path(), library.version());
/// # Ok::<(), pagelift_transport::nixl::NixlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    path: Option<PathBuf>,
    version: Option<String>,
}

impl Library {
    /// Opens the library that the environment variable [`VARIABLE`] names, or the one that the system finds. It stays open.
    ///
    /// # Errors
    /// [`NixlError::NoLibrary`] where there is none, [`NixlError::TooOld`] where it lacks calls. The first answer stands.
    pub fn open() -> Result<Self, NixlError> {
        static OPENED: OnceLock<Result<Library, NixlError>> = OnceLock::new();
        OPENED.get_or_init(open).clone()
    }

    /// Its file, where the system says.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The version of the package that it came in. The library itself says nothing of it.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

fn open() -> Result<Library, NixlError> {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let file = named.clone().unwrap_or_else(|| NAME.into());
    load(&file)?;
    // What the bindings open is the file of that name that is loaded already.
    if nixl_sys::is_stub() {
        let reason = format!("{} is not the library {NAME}", file.display());
        return Err(NixlError::NoLibrary { reason });
    }
    let path = loaded_from().or(named);
    let version = path.as_deref().and_then(version_beside);
    Ok(Library { path, version })
}

/// Opens a file for good, and looks up every call.
fn load(file: &Path) -> Result<(), NixlError> {
    let missing = |error: libloading::Error| {
        // The error itself says little: what the system says is its cause.
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        NixlError::NoLibrary { reason: cause }
    };
    #[expect(unsafe_code, reason = "the bindings would open the same library unasked")]
    // SAFETY: the file's initialisers run, as they would when the bindings open it: it is NVIDIA's library, or what the user
    // has named in its stead.
    let library = unsafe { libloading::Library::new(file) }.map_err(missing)?;
    #[expect(unsafe_code, reason = "to see that it is there")]
    // SAFETY: the symbol is looked up and neither read nor called; any type will do.
    let has = |name: &str| unsafe { library.get::<*const ()>(name.as_bytes()) }.is_ok();
    let lacking: Vec<&'static str> = CALLS.into_iter().filter(|name| !has(name)).collect();
    if lacking.len() == CALLS.len() {
        let reason = format!("{} has none of its calls, and is another library", file.display());
        return Err(NixlError::NoLibrary { reason });
    }
    if !lacking.is_empty() {
        return Err(NixlError::TooOld { lacking });
    }
    // It must not be closed while the bindings have it.
    std::mem::forget(library);
    Ok(())
}

/// Where this process has the library from.
fn loaded_from() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut files = maps.lines().filter_map(|line| line.split_once('/').map(|(_, path)| format!("/{path}")));
    files.find(|path| path.ends_with(NAME)).map(PathBuf::from)
}

/// The version of the Python package that a file lies in, from the folder beside it that says so.
fn version_beside(file: &Path) -> Option<String> {
    let package = file.parent()?.parent()?;
    let mut names = package.read_dir().ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.find_map(|name| {
        let (name, version) = name.strip_suffix(".dist-info")?.split_once('-')?;
        name.starts_with("nixl").then(|| version.to_owned())
    })
}
