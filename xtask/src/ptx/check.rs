//! The checks of the committed PTX.

use std::path::Path;

use anyhow::{Result, bail};
use comfy_table::Table;

use super::compiler::{self, Compiler};
use super::recipe::ARCHITECTURES;
use super::record::{self, Ptx};
use super::{budget, build, entries, lint, ptxas, text};
use crate::test::Verdict;
use crate::workspace::Workspace;

/// The committed PTX belongs to the present sources and flags, and has the structure it must have.
pub fn committed(workspace: &Workspace) -> Result<Verdict> {
    let record = record::read(workspace)?;
    let files = record::committed(workspace)?;
    record::compare(workspace, &record, &files)?;
    structure(workspace, &files)?;
    Ok(Verdict::passed(format!("built by {}", record.compiler)))
}

/// A compiler on this machine builds the same PTX, or, if it is another than the recorded one, sound PTX.
pub fn rebuilt(workspace: &Workspace) -> Result<Verdict> {
    let record = record::read(workspace)?;
    let compiler = match compiler::choose(workspace, Some(&record.compiler)) {
        Ok(compiler) => compiler,
        Err(error) => return Ok(Verdict::skipped(format!("{error:#}"), compiler::INSTALL)),
    };
    let files = build_all(workspace, &compiler)?;
    structure(workspace, &files)?;
    if compiler.identity != record.compiler {
        // Compilers may differ in what they make of the same sources; what they make must be sound all the same.
        let assembled = match ptxas::find(workspace)? {
            Some(ptxas) => costs(&ptxas, &files).map(|()| "assembled")?,
            None => "not assembled",
        };
        return Ok(Verdict::passed(format!(
            "not compared: built, linted and {assembled} by {}, recorded is {}",
            compiler.identity, record.compiler
        )));
    }
    for (built, committed) in files.iter().zip(record::committed(workspace)?) {
        if built.text != committed.text {
            bail!(
                "{} differs from what {} builds: {}",
                built.architecture.file(),
                compiler.identity,
                record::REMEDY
            );
        }
    }
    Ok(Verdict::passed(format!("equal bytes from {}", compiler.identity)))
}

/// NVIDIA's assembler takes the committed PTX, and every kernel is within its budget.
pub fn assembled(workspace: &Workspace) -> Result<Verdict> {
    let files = record::committed(workspace)?;
    let Some(ptxas) = ptxas::find(workspace)? else {
        return Ok(Verdict::skipped("no ptxas on this machine", ptxas::INSTALL));
    };
    costs(&ptxas, &files)?;
    Ok(Verdict::passed("within budgets"))
}

/// Builds the PTX of all architectures.
pub fn build_all(workspace: &Workspace, compiler: &Compiler) -> Result<Vec<Ptx>> {
    let build = |architecture| {
        let text = build::build(workspace, compiler, architecture)?;
        Ok(Ptx { architecture, text })
    };
    ARCHITECTURES.iter().map(build).collect()
}

/// Fails with all that the lint finds.
pub fn structure(workspace: &Workspace, files: &[Ptx]) -> Result<()> {
    let expected = entries::expected(&workspace.kernels()?.join("src"))?;
    let mut wrong = Vec::new();
    for file in files {
        let found = lint::lint(&text::parse(&file.text), file.architecture, &expected);
        wrong.extend(found.into_iter().map(|finding| format!("{}: {finding}", file.architecture.file())));
    }
    if !wrong.is_empty() {
        bail!("the PTX is not as it must be:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// Assembles files, shows what their kernels cost, and fails with all that is over budget.
fn costs(ptxas: &Path, files: &[Ptx]) -> Result<()> {
    let mut table = Table::new();
    table.set_header(["PTX", "GPU", "kernel", "registers", "stack", "spills", "static shared", "barriers"]);
    let mut wrong = Vec::new();
    for file in files {
        let name = file.architecture.name;
        for gpu in file.architecture.gpus {
            for usage in ptxas::assemble(ptxas, &file.text, gpu)? {
                let numbers = [usage.registers, usage.stack, usage.spills, usage.shared, usage.barriers];
                let words = [name, gpu, &usage.kernel].map(str::to_owned);
                table.add_row(words.into_iter().chain(numbers.map(|number| number.to_string())));
                let over = budget::exceeded(&usage).into_iter();
                wrong.extend(over.map(|finding| format!("{} on {gpu}: {finding}", usage.kernel)));
            }
        }
    }
    eprintln!("{table}");
    if !wrong.is_empty() {
        bail!("kernels over budget:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}
