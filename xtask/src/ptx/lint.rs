//! The structure that PTX must have, checked on its text: what no test on the CPU can see.

use std::collections::BTreeMap;

use super::recipe::{self, Architecture};
use super::text::{Kernel, Module};

/// What kernels must hold, by the beginning of their name: 16-byte accesses, whose loads the L1 cache is asked not to keep;
/// sums whose lanes do not lose each other's; an arrival that orders what the warp has written, since rustc's own
/// atomics lose their ordering; and the store that makes the completion visible to the host.
const HELD: &[(&str, &[&str])] = &[
    (
        "pagelift_copy_pages",
        &["ld.global.L1::no_allocate.v4.u32", "st.global.v4.u32", "atom.acq_rel.", "st.release.sys."],
    ),
    (
        "pagelift_copy_rows",
        &["cp.async.ca.shared.global", "st.global.v4.u32", "atom.acq_rel.", "st.release.sys."],
    ),
    (
        "pagelift_digest",
        &[
            "ld.global.L1::no_allocate.v4.u32",
            "red.relaxed.gpu.global.add.u64",
            "atom.acq_rel.",
            "st.release.sys.",
        ],
    ),
];
const LOCAL: &str = "local memory: something is indexed at run time, or spilled";

/// All that is wrong with a module, in words; nothing if it is sound.
pub fn lint(module: &Module, architecture: &Architecture, expected: &[String]) -> Vec<String> {
    let mut wrong = header(module, architecture);
    wrong.extend(names(module, expected));
    wrong.extend(lines(module));
    for kernel in &module.kernels {
        wrong.extend(body(kernel).into_iter().map(|finding| format!("{}: {finding}", kernel.name)));
    }
    wrong
}

fn header(module: &Module, architecture: &Architecture) -> Vec<String> {
    let wanted = [
        (".target", architecture.name, module.target.split(',').next().unwrap_or_default().trim()),
        (".version", architecture.version, module.version.as_str()),
    ];
    let differing = wanted.into_iter().filter(|(_, expected, found)| expected != found);
    differing.map(|(what, expected, found)| format!("{what} is {found:?}, expected {expected}")).collect()
}

fn names(module: &Module, expected: &[String]) -> Vec<String> {
    let found: Vec<&str> = module.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let missing = expected.iter().filter(|name| !found.contains(&name.as_str()));
    let missing = missing.map(|name| format!("no entry {name}, though the sources have that #[kernel]"));
    let unknown = found.iter().filter(|name| !expected.iter().any(|expected| expected == *name));
    let unknown = unknown.map(|name| format!("entry {name} is no #[kernel] function of the sources"));
    let outlined = module.functions.iter().map(|name| format!("function {name} was not inlined"));
    missing.chain(unknown).chain(outlined).collect()
}

/// Line directives are there for profilers, and say nothing of the machine that built them.
fn lines(module: &Module) -> Vec<String> {
    if module.files.is_empty() {
        return vec!["no .file directive: profilers could not show the Rust lines".to_owned()];
    }
    let known = [recipe::PROJECT, recipe::LIBRARY].map(|folder| format!("{folder}/"));
    let foreign = module.files.iter().filter(|path| !known.iter().any(|folder| path.starts_with(folder)));
    foreign.map(|path| format!(".file names {path:?}, a folder of the machine that built it")).collect()
}

fn body(kernel: &Kernel) -> Vec<String> {
    let mut wrong = all_forbidden(kernel);
    let bound = recipe::bound();
    if !kernel.statements.contains(&bound) {
        wrong.push(format!("has no {bound}: its registers might not suffice for so many threads"));
    }
    let held = |wanted: &str| kernel.mnemonics().any(|word| word.starts_with(wanted));
    let wanted =
        HELD.iter().filter(|(name, _)| kernel.name.starts_with(name)).flat_map(|(_, wanted)| *wanted);
    wrong.extend(wanted.filter(|wanted| !held(wanted)).map(|wanted| format!("has no {wanted}")));
    if !kernel.mnemonics().any(|word| word == ".loc") {
        wrong.push("no .loc directive: profilers could not show the Rust lines".to_owned());
    }
    wrong
}

/// What may not be in a kernel but is: of each kind the first statement, and how many there are.
fn all_forbidden(kernel: &Kernel) -> Vec<String> {
    let mut kinds: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for statement in &kernel.statements {
        if let Some(why) = forbidden(statement) {
            let (_, count) = kinds.entry(why).or_insert((statement, 0));
            *count = count.saturating_add(1);
        }
    }
    let kinds = kinds.into_iter();
    kinds.map(|(why, (first, count))| format!("{why}: `{first}` ({count} such)")).collect()
}

/// Why a statement may not be in a kernel, if it may not.
fn forbidden(statement: &str) -> Option<&'static str> {
    let word = statement.split_whitespace().next()?;
    let mut parts = word.split('.');
    match parts.next()? {
        _ if statement.contains("__local_depot") => Some(LOCAL),
        // A directive, or a load or store of that space.
        "" | "ld" | "st" | "cvta" if parts.any(|part| part == "local") => Some(LOCAL),
        "call" => Some("a call: something was not inlined"),
        "trap" => Some("a trap: something may panic, which would take the context"),
        // Waiting for the lanes of one warp is all that a kernel may do.
        "bar" if parts.next() == Some("warp") => None,
        "bar" | "barrier" => {
            Some("a block barrier: kernels must not block, and the compiler may duplicate it")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::recipe::ARCHITECTURES;
    use super::super::text::parse;
    use super::*;

    /// A sound module of one kernel.
    fn sound() -> String {
        ".version 7.4\n.target sm_80\n.visible .entry pagelift_copy_pages(\n\t.param .b64 pagelift_copy_pages_param_0\n)\n\
         .maxntid 768, 1, 1\n{\n\t.loc\t1 1 1\n\
         \tld.global.L1::no_allocate.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1];\n\
         \tst.global.v4.u32 [%rd2], {%r1,%r2,%r3,%r4};\n\tbar.warp.sync -1;\n\
         \tatom.acq_rel.gpu.global.inc.u32 %r1, [%rd1], %r2;\n\
         \tst.release.sys.global.u64 [%rd1], %rd2;\n\tret;\n$L__func_end:\n}\n\
         \t.file\t1 \"/pagelift/lib.rs\"\n\t.file\t2 \"/rustc/abc/core.rs\"\n"
            .to_owned()
    }

    /// What is wrong with a module for sm_80 that should have this kernel.
    fn check(text: &str, kernel: &str) -> Vec<String> {
        lint(&parse(text), &ARCHITECTURES[0], &[kernel.to_owned()])
    }

    #[test]
    fn sound_modules_pass() {
        assert_eq!(check(&sound(), "pagelift_copy_pages"), Vec::<String>::new());
    }

    #[test]
    fn each_fault_is_found() {
        let faults = [
            (".target sm_80", ".target sm_90", ".target is"),
            (".version 7.4", ".version 7.0", ".version is"),
            (".entry pagelift_copy_pages(", ".entry other(", "no entry pagelift_copy_pages"),
            (".entry pagelift_copy_pages(", ".entry other(", "entry other is no"),
            (".version 7.4", ".version 7.4\n.func helper()", "function helper"),
            ("\tret;", "\t.local .align 8 .b8 \t__local_depot0[16];\n\tret;", "local memory"),
            ("\tret;", "\tmov.b64 \t%SPL, __local_depot0;\n\tret;", "local memory"),
            ("\tret;", "\t@%p1 ld.local.b32 %r1, [%SP];\n\tret;", "local memory"),
            ("\tret;", "\tst.local.v4.b32 [%SP], {%r1};\n\tret;", "local memory"),
            ("\tret;", "\tcall.uni (retval0), helper, (param0);\n\tret;", "a call"),
            ("\tret;", "\t@%p1 trap;\n\tret;", "a trap"),
            ("\tret;", "\tbar.sync 0;\n\tret;", "block barrier"),
            ("\tret;", "\t{ .reg .u64 t; barrier.cta.sync.aligned 0; }\n\tret;", "block barrier"),
            (".maxntid 768, 1, 1\n", "", "has no .maxntid 768, 1, 1"),
            (".maxntid 768, 1, 1", ".maxntid 1024, 1, 1", "has no .maxntid 768, 1, 1"),
            ("\t.loc\t1 1 1\n", "", "no .loc"),
            ("/pagelift/lib.rs", "/home/me/lib.rs", "/home/me"),
            ("/rustc/abc/", "/usr/lib/", "/usr/lib"),
            ("ld.global.L1::no_allocate.v4", "ld.global.v2", "has no ld.global.L1"),
            ("st.global.v4", "st.global.v2", "has no st.global.v4"),
            ("atom.acq_rel.gpu", "atom.relaxed.gpu", "has no atom.acq_rel"),
            ("st.release.sys", "st.release.gpu", "has no st.release.sys"),
        ];
        for (sound_part, fault, finding) in faults {
            let text = sound();
            assert!(text.contains(sound_part), "{sound_part} is not in the sound module");
            let found = check(&text.replace(sound_part, fault), "pagelift_copy_pages");
            assert!(found.iter().any(|line| line.contains(finding)), "{fault}: {found:?}");
        }
    }

    #[test]
    fn a_digest_without_its_sums_is_found() {
        let digest =
            sound().replace("pagelift_copy_pages", "pagelift_digest").replace("st.global.v4", "st.global.v2");
        let found = check(&digest, "pagelift_digest");
        assert_eq!(found, ["pagelift_digest: has no red.relaxed.gpu.global.add.u64"]);
        let sums = digest.replace("\tret;", "\tred.relaxed.gpu.global.add.u64 [%rd1], %rd2;\n\tret;");
        assert_eq!(check(&sums, "pagelift_digest"), Vec::<String>::new());
    }

    #[test]
    fn without_line_information_there_is_no_profiling() {
        let text = sound().lines().filter(|line| !line.contains(".file")).collect::<Vec<_>>().join("\n");
        assert!(check(&text, "pagelift_copy_pages").iter().any(|line| line.contains("no .file")));
    }
}
