//! `pagelift prefill` and `pagelift decode` where something is wrong: each ends by itself, says why, and leaves nothing behind.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::handoff::secret;
use crate::support::{command, small};

/// A command that has failed, by its code and its words.
fn failed(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Waits until something is so, for a minute at most.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// P of two ranks, which nobody will ask.
fn two_ranks(folder: &Path, ready: &Path) -> Child {
    let mut command = command(&["prefill", "--tp", "2", "--timeout", "60", "--backend", "cpu", "--ready"]);
    command.arg(ready).args(["--", &small("aligned.json")]);
    secret(&mut command, folder).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The processes of its ranks.
fn ranks_of(parent: &Child) -> Vec<String> {
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    std::fs::read_to_string(children).unwrap().split_whitespace().map(str::to_owned).collect()
}

/// Whether a process has not ended. One that has may wait to be heard of by whoever it belongs to now.
fn runs(id: &String) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/status")).is_ok_and(|text| !text.contains("State:\tZ"))
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_computed() {
    for (arguments, words) in [
        (&["prefill", "--listen", "127.0.0.1:65535", "--tp", "2"][..], "no port for rank 1"),
        (&["decode", "--from", "127.0.0.1:65535", "--tp", "2"], "no port for rank 1"),
        (&["decode", "--from", "127.0.0.1:7,127.0.0.1:8"], "--from has 2 addresses for --tp 1"),
        (&["decode", "--from", "127.0.0.1:7,127.0.0.1:8", "--tp", "3"], "--from has 2 addresses for --tp 3"),
        (&["prefill", "--tp", "2", "--rank", "2"], "--rank 2 is none of 2 ranks"),
        (&["decode", "--from", "127.0.0.1:1", "--rank", "1"], "--rank 1 is none of 1 rank"),
        (&["decode", "--from", "127.0.0.1:0"], "nobody listens at port 0"),
        (&["decode", "--from", "localhost:7700"], "expected an IP address and a port"),
        (&["prefill", "--listen", "7700"], "expected an IP address and a port"),
        (&["prefill", "--parameter", "num_threads"], "expected a name and a value"),
        (&["prefill", "--ready", "/nowhere/at/all"], "there is no folder /nowhere/at"),
        (&["prefill", "--ready", "/dev/null"], "is no file"),
        (&["prefill", "--lease", "5"], "a lease of 5ms with heartbeats every 5s"),
    ] {
        let (code, said) = failed(command(arguments).arg(small("aligned.json")));
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn a_rank_that_fails_ends_the_others_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    // The port of the second is taken.
    let (first, _taken) = (0..100)
        .find_map(|_| {
            let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
            let next = first.port().checked_add(1)?;
            Some((first, TcpListener::bind((Ipv4Addr::LOCALHOST, next)).ok()?))
        })
        .unwrap();
    let start = Instant::now();
    let mut command = command(&["prefill", &small("aligned.json"), "--tp", "2", "--timeout", "600"]);
    command.args(["--listen", &first.to_string()]);
    let (code, said) = failed(secret(&mut command, folder.path()));
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("cannot listen at 127.0.0.1") && said.contains("rank 1: it has ended with"),
        "{said}"
    );
    assert!(start.elapsed() < Duration::from_secs(300), "the first would have waited for ten minutes");
}

#[test]
fn what_is_not_the_library_is_said_by_the_code_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let noise = folder.path().join("libnixl_capi.so");
    std::fs::write(&noise, [7; 4096]).unwrap();
    let another = Path::new("libc.so.6");
    let manifest = small("aligned.json");
    for (library, words) in [(noise.as_path(), "cannot be opened"), (another, "is another library")] {
        for arguments in [&["prefill", &manifest, "--tp", "2"][..], &["load", "--seconds", "0"]] {
            let mut command = command(arguments);
            command.env("PAGELIFT_NIXL", library);
            let (code, said) = failed(secret(&mut command, folder.path()));
            assert_eq!(code, Some(3), "{arguments:?}: {said}");
            assert!(said.contains(words), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn ranks_end_with_the_process_that_has_started_them() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    // What earlier runs have left is not believed.
    for stale in ["ready", "ready.rank0", "ready.rank1"] {
        std::fs::write(folder.path().join(stale), "192.0.2.1:1").unwrap();
    }
    let mut parent = two_ranks(folder.path(), &ready);
    until("all listen", || std::fs::read_to_string(&ready).is_ok_and(|text| !text.contains("192.0.2.1")));
    assert!(!folder.path().join("ready.rank0").exists());
    let children = ranks_of(&parent);
    assert_eq!(children.len(), 2);
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("no rank runs", || !children.iter().any(runs));
}

#[test]
fn a_rank_that_is_killed_ends_the_others_and_gave_no_reason() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let parent = two_ranks(folder.path(), &ready);
    until("all listen", || ready.exists());
    let children = ranks_of(&parent);
    let second = Pid::from_raw(children[1].parse().unwrap()).unwrap();
    kill_process(second, Signal::KILL).unwrap();
    let output = parent.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("rank 1: it was ended by signal: 9"), "{said}");
    assert!(!said.contains("the reason that it gave"), "{said}");
    until("no rank runs", || !children.iter().any(runs));
}

#[test]
fn a_secret_that_others_have_made_is_none() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("pagelift");
    std::fs::create_dir(&own).unwrap();
    let path = own.join("secret");
    std::fs::write(&path, [7; 32]).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = command(&["prefill", &small("aligned.json"), "--timeout", "1"]);
    let (code, said) = failed(secret(&mut command, folder.path()));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("it is not this user's alone"), "{said}");
    // One that is named is taken, and that it is known to all is said.
    let (code, said) = failed(command.arg("--secret-file").arg(&path));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("every user of this machine can read"), "{said}");
}
