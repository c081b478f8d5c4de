//! Which kernels the sources define: every function marked `#[kernel]` that is compiled for GPUs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cfg_expr::targets::{TargetInfo, get_builtin_target_by_triple};
use cfg_expr::{Expression, Predicate};
use quote::ToTokens;
use syn::{Attribute, Item};

use super::recipe;

/// The names of the kernels of the crate whose sources are in a folder, sorted.
pub fn expected(sources: &Path) -> Result<Vec<String>> {
    let triple = recipe::TRIPLE;
    let target = get_builtin_target_by_triple(triple).with_context(|| format!("{triple} is not a target"))?;
    let mut reader = Reader { target, names: Vec::new() };
    reader.file(&sources.join("lib.rs"), sources)?;
    reader.names.sort();
    Ok(reader.names)
}

/// Walks a crate's modules as the compiler would.
struct Reader {
    target: &'static TargetInfo,
    names: Vec<String>,
}

impl Reader {
    /// Reads a file whose modules are in `folder`.
    fn file(&mut self, path: &Path, folder: &Path) -> Result<()> {
        let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
        let file = syn::parse_file(&text).with_context(|| format!("could not parse {}", path.display()))?;
        self.items(&file.items, folder).with_context(|| format!("in {}", path.display()))
    }

    fn items(&mut self, items: &[Item], folder: &Path) -> Result<()> {
        for item in items {
            match item {
                Item::Fn(function) if is_kernel(&function.attrs) && self.compiled(&function.attrs)? => {
                    self.names.push(function.sig.ident.to_string());
                }
                Item::Mod(module) if self.compiled(&module.attrs)? => {
                    let inner = folder.join(module.ident.to_string());
                    match &module.content {
                        Some((_, items)) => self.items(items, &inner)?,
                        None => self.file(&module_file(&inner)?, &inner)?,
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether all `#[cfg(…)]` of an item hold.
    fn compiled(&self, attributes: &[Attribute]) -> Result<bool> {
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")) {
            let text = attribute.meta.require_list()?.tokens.to_token_stream().to_string();
            let expression = Expression::parse(&text).with_context(|| format!("cfg({text})"))?;
            let holds = expression.eval(|predicate| match predicate {
                Predicate::Target(target) => target.matches(self.target),
                _ => false,
            });
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn is_kernel(attributes: &[Attribute]) -> bool {
    let mut last = attributes.iter().filter_map(|attribute| attribute.path().segments.last());
    last.any(|segment| segment.ident == "kernel")
}

fn module_file(folder: &Path) -> Result<PathBuf> {
    let candidates = [folder.with_extension("rs"), folder.join("mod.rs")];
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => bail!("module {} has neither file", folder.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_through_modules_and_conditions() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        fs::create_dir(root.path().join("deep")).unwrap();
        write(
            "lib.rs",
            "mod rows; mod deep; #[cfg(test)] mod tests { #[kernel] pub fn never() {} }\n\
             #[cfg(any(target_arch = \"nvptx64\", test))] mod gpu;\n\
             #[cfg(not(target_arch = \"nvptx64\"))] mod host;\n pub fn no_kernel() {}",
        );
        write("rows.rs", "#[cuda_std::kernel] pub unsafe fn rows(a: A) {}");
        write("gpu.rs", "#[kernel] pub unsafe fn gpu(a: A) {}");
        write("deep/mod.rs", "mod inner;");
        write("deep/inner.rs", "#[kernel] pub unsafe fn pages(a: A) {}");
        assert_eq!(expected(root.path()).unwrap(), ["gpu", "pages", "rows"]);
    }

    #[test]
    fn a_missing_module_is_an_error_that_names_it() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("lib.rs"), "mod gone;").unwrap();
        let error = expected(root.path()).unwrap_err();
        assert!(format!("{error:#}").contains("gone"), "{error:#}");
    }
}
