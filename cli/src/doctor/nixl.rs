//! What this build and this machine have of NIXL.

use serde::Serialize;

/// NIXL's library.
#[derive(Debug, Serialize)]
pub struct Nixl {
    /// Its file, where the system says.
    library: Option<String>,
    /// The version of the package that it came in.
    version: Option<String>,
    /// Its plugins.
    plugins: Vec<String>,
}

impl Nixl {
    /// Looks for the library, or says why there is none to look at.
    pub fn look() -> Result<Self, String> {
        look()
    }

    /// In words.
    pub fn words(&self) -> String {
        let version = self.version.as_deref().map_or("of a version that it does not tell", |version| version);
        let library = self.library.as_deref().unwrap_or("opened");
        format!("{version}: {library}; plugins {}", self.plugins.join(", "))
    }
}

#[cfg(feature = "nixl")]
fn look() -> Result<Nixl, String> {
    use pagelift_transport::nixl::{Agent, Library};
    let library = Library::open().map_err(|error| error.to_string())?;
    let plugins = Agent::plugins(&library).map_err(|error| error.to_string())?;
    Ok(Nixl {
        library: library.path().map(crate::text::path),
        version: library.version().map(str::to_owned),
        plugins,
    })
}

#[cfg(not(feature = "nixl"))]
fn look() -> Result<Nixl, String> {
    Err("not built in; it takes the feature `nixl`, and `cargo xtask nixl` sets up what that needs".into())
}
