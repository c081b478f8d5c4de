//! PTX text, taken apart as far as its checks need it.

/// A PTX module.
#[derive(Debug, Default)]
pub struct Module {
    /// The argument of `.version`.
    pub version: String,
    /// The argument of `.target`.
    pub target: String,
    /// The paths that `.file` directives name.
    pub files: Vec<String>,
    pub kernels: Vec<Kernel>,
    /// Functions that are not kernels: what was not inlined.
    pub functions: Vec<String>,
}

/// An entry and what it does.
#[derive(Debug)]
pub struct Kernel {
    pub name: String,
    /// Its statements: without labels, predicates, comments and semicolons.
    pub statements: Vec<String>,
}

impl Kernel {
    /// The statements' first words.
    pub fn mnemonics(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().filter_map(|statement| statement.split_whitespace().next())
    }
}

/// Takes PTX apart.
pub fn parse(text: &str) -> Module {
    let mut module = Module::default();
    let mut inside = None;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        if let Some(name) = name_after(line, ".entry ") {
            inside = Some(Kernel { name, statements: Vec::new() });
        } else if let Some(name) = name_after(line, ".func ") {
            module.functions.push(name);
        } else if let Some(version) = line.strip_prefix(".version ") {
            module.version = version.trim().to_owned();
        } else if let Some(target) = line.strip_prefix(".target ") {
            module.target = target.trim().to_owned();
        } else if let Some(path) = line.strip_prefix(".file").and_then(|rest| rest.split('"').nth(1)) {
            module.files.push(path.to_owned());
        } else if let Some(kernel) = &mut inside {
            kernel.statements.extend(statements(line));
        }
        // The compiler closes a kernel at the beginning of a line; braces of inline assembly are never alone there
        // with the `$L__func_end` label before them, so the label is what ends it.
        if line.starts_with("$L__func_end") {
            module.kernels.extend(inside.take());
        }
    }
    module.kernels.extend(inside);
    module
}

/// The name that follows a word, up to the parameter list.
fn name_after(line: &str, word: &str) -> Option<String> {
    let (_, rest) = line.split_once(word)?;
    // A function's return value stands in parentheses before its name.
    let rest = rest.trim_start();
    let rest = if rest.starts_with('(') { rest.split_once(')').map_or("", |(_, after)| after) } else { rest };
    Some(rest.split(['(', ' ']).find(|part| !part.is_empty()).unwrap_or_default().to_owned())
}

/// The statements of one line. Inline assembly may put several on one, within braces.
fn statements(line: &str) -> impl Iterator<Item = String> {
    line.split(';').map(bare).filter(|statement| !statement.is_empty()).map(str::to_owned)
}

/// A statement without its scope's braces, label and predicate.
fn bare(statement: &str) -> &str {
    let statement = statement.trim().trim_start_matches(['{', '}']).trim_start();
    if statement.ends_with(':') && !statement.contains(' ') {
        return "";
    }
    match statement.strip_prefix('@').and_then(|rest| rest.split_once(char::is_whitespace)) {
        Some((_, guarded)) => guarded.trim_start(),
        None => statement,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//\n.version 8.0\n.target sm_90\n.address_size 64\n.func  (.param .b32 r) helper(\n)\n\
        \t// .globl\tone\n.visible .entry one(\n\t.param .align 8 .b8 one_param_0[48]\n)\n{\n\t.reg .pred \t%p<2>;\n\
        $L__func_begin0:\n\t.loc\t1 39 0\n$L__BB0_1:\n\t@%p1 bra \t$L__BB0_1;\n\t// begin inline asm\n\
        \t{ .reg .u64 t; mov.u64 t, smem; }\n\t// end inline asm\n\tret;\n$L__func_end0:\n\n}\n\
        .visible .entry two()\n{\n\tret;\n$L__func_end1:\n}\n\t.file\t1 \"/pagelift/lib.rs\"\n";

    #[test]
    fn a_module_is_taken_apart() {
        let module = parse(TEXT);
        assert_eq!((module.version.as_str(), module.target.as_str()), ("8.0", "sm_90"));
        assert_eq!(module.files, ["/pagelift/lib.rs"]);
        assert_eq!(module.functions, ["helper"]);
        let names: Vec<_> = module.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn statements_lose_labels_predicates_and_braces() {
        let module = parse(TEXT);
        let mnemonics: Vec<_> = module.kernels[0].mnemonics().collect();
        assert_eq!(mnemonics[2..], [".reg", ".loc", "bra", ".reg", "mov.u64", "ret"]);
    }
}
