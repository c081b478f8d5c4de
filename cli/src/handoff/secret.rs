//! What P and D both know, and nobody else: a file.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pagelift_transport::control::{Secret, nonce};
use rustix::process::geteuid;

use super::error::HandoffError;
use crate::say;

/// Names the file, where no option does.
const VARIABLE: &str = "PAGELIFT_SECRET_FILE";

/// The most bytes of a secret that are read.
const MOST: u64 = 4096;

/// The secret of a hand-off between these addresses: of the file that is named, or, on one machine, of one that is this user's
/// and made when it is missing.
pub fn secret(named: Option<&Path>, addresses: &[IpAddr]) -> Result<Secret, HandoffError> {
    let named = named.map(Path::to_owned).or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    let path = match named {
        Some(path) => path,
        None if addresses.iter().all(IpAddr::is_loopback) => own()?,
        None => {
            return Err(HandoffError::Usage(format!(
                "between machines, both sides need one secret: name a file of 16 random bytes or more by --secret-file or \
                 {VARIABLE}"
            )));
        }
    };
    if readable_by_all(&path) {
        let path = path.display();
        say::note(format_args!(
            "pagelift: every user of this machine can read {path}; `chmod o-rwx` keeps them out"
        ));
    }
    let shown = path.display();
    let unreadable = |error| HandoffError::Usage(format!("{shown}: the secret cannot be read: {error}"));
    let mut bytes = Vec::new();
    File::open(&path).and_then(|file| file.take(MOST).read_to_end(&mut bytes)).map_err(unreadable)?;
    Secret::new(&bytes).map_err(|error| HandoffError::Usage(format!("{shown}: {error}")))
}

/// This user's own secret.
fn own() -> Result<PathBuf, HandoffError> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = variable("XDG_RUNTIME_DIR").or_else(|| variable("XDG_CACHE_HOME"));
    let folder = folder.or_else(|| Some(variable("HOME")?.join(".cache"))).ok_or_else(|| {
        HandoffError::Usage(
            "there is no folder of this user's for the secret; name a file by --secret-file".into(),
        )
    })?;
    let folder = folder.join("pagelift");
    let path = folder.join("secret");
    make(&folder, &path).map_err(|error| {
        HandoffError::Usage(format!("{}: the secret cannot be made: {error}", path.display()))
    })?;
    match fs::metadata(&path) {
        // Somebody else may have made it, where the folder is not this user's alone.
        Ok(there) if there.uid() != geteuid().as_raw() || there.mode() & 0o077 != 0 => {
            Err(HandoffError::Usage(format!(
                "{}: it is not this user's alone, and so no secret; remove it, or name a file by --secret-file",
                path.display()
            )))
        }
        _ => Ok(path),
    }
}

/// Whether it is a file that users can read who are neither its owner nor of its group.
fn readable_by_all(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| there.is_file() && there.mode() & 0o004 != 0)
}

/// Makes the file whole, or not at all: both sides may come at one time.
fn make(folder: &Path, path: &Path) -> std::io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let draft = folder.join(format!("secret.{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&nonce()?)?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
