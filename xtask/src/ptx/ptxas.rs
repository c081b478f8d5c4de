//! NVIDIA's assembler, which says what a kernel costs on a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::tools;
use crate::workspace::Workspace;

/// What to do when there is none.
pub const INSTALL: &str = "run `cargo xtask tools`, or set PAGELIFT_PTXAS to a ptxas of CUDA 13.0";

/// What one kernel costs on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub kernel: String,
    pub registers: u32,
    pub stack: u32,
    pub spills: u32,
    /// Bytes of shared memory that the kernel declares itself.
    pub shared: u32,
    pub barriers: u32,
}

/// Where the assembler is, if it is anywhere: named, on the path, or installed by `cargo xtask tools`.
pub fn find(workspace: &Workspace) -> Result<Option<PathBuf>> {
    if let Some(named) = std::env::var_os("PAGELIFT_PTXAS") {
        let found = which::which(&named).with_context(|| format!("PAGELIFT_PTXAS is {}", named.display()))?;
        return Ok(Some(found));
    }
    Ok(tools::installed_ptxas(workspace).or_else(|| which::which("ptxas").ok()))
}

/// Assembles PTX for a GPU and returns what each kernel costs there.
pub fn assemble(ptxas: &Path, text: &str, gpu: &str) -> Result<Vec<Usage>> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let source = folder.path().join("kernels.ptx");
    std::fs::write(&source, text).with_context(|| format!("could not write {}", source.display()))?;
    let mut command = Command::new(ptxas);
    command.args(["--verbose", "--generate-line-info", "--gpu-name", gpu, "--output-file"]);
    let answer = process::ask(command.arg(folder.path().join("kernels.cubin")).arg(&source))
        .with_context(|| format!("the PTX does not assemble for {gpu}"))?;
    parse(&format!("{}\n{}", answer.stdout, answer.stderr))
}

/// Reads what `ptxas --verbose` says.
fn parse(text: &str) -> Result<Vec<Usage>> {
    let mut found: Vec<Usage> = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            found.push(Usage { kernel, registers: u32::MAX, ..Usage::default() });
        } else if let Some(usage) = found.last_mut() {
            for part in line.rsplit("info    :").next().unwrap_or_default().split(',') {
                usage.read(part);
            }
        }
    }
    if found.is_empty() {
        bail!("ptxas named no kernel; it said: {}", text.trim());
    }
    // A kernel whose registers were never told would pass every budget.
    match found.iter().find(|usage| usage.registers == u32::MAX) {
        Some(usage) => bail!("ptxas told no registers for {}; it said: {}", usage.kernel, text.trim()),
        None => Ok(found),
    }
}

impl Usage {
    /// Reads one of 'Used 48 registers', '0 bytes stack frame', '16 bytes spill stores', '128 bytes smem'.
    fn read(&mut self, part: &str) {
        let words: Vec<&str> =
            part.split_whitespace().filter(|word| !["Used", "used"].contains(word)).collect();
        let Some(amount) = words.first().and_then(|word| word.parse::<u32>().ok()) else { return };
        match words[1..] {
            ["registers"] => self.registers = amount,
            ["barriers"] => self.barriers = amount,
            ["bytes", "stack", "frame"] => self.stack = amount,
            ["bytes", "spill", "stores" | "loads"] => self.spills = self.spills.saturating_add(amount),
            ["bytes", "smem"] => self.shared = amount,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'copy_rows' for 'sm_90'
ptxas info    : Function properties for copy_rows
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 53 registers, used 1 barriers, 8 bytes cumulative stack size, 128 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 22.464 ms
ptxas info    : Compiling entry function 'copy' for 'sm_90'
ptxas info    : Function properties for copy
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 48 registers, used 0 barriers
";

    #[test]
    fn costs_are_read_by_kernel() {
        let rows = Usage {
            kernel: "copy_rows".to_owned(),
            registers: 53,
            stack: 8,
            spills: 16,
            shared: 128,
            barriers: 1,
        };
        let copy = Usage { kernel: "copy".to_owned(), registers: 48, ..Usage::default() };
        assert_eq!(parse(SAID).unwrap(), [rows, copy]);
    }

    #[test]
    fn silence_is_no_success() {
        assert!(parse("ptxas info    : 0 bytes gmem\n").is_err());
        assert!(parse("ptxas info    : Compiling entry function 'copy' for 'sm_90'\n").is_err());
    }
}
