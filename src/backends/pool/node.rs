//! NUMA nodes: which a GPU is at, and which processors are at it.
//!
//! Memory comes to lie on the node of the thread that touches it first. That needs no right that containers are often
//! without, as `mbind` and `set_mempolicy` do, and it zeroes the pages where they lie.

use std::fs;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity};

/// Where the system says it.
const SYSFS: &str = "/sys";

/// The node of a PCI device (`0000:1B:00.0`, as the driver writes it), where there are several and the system knows.
pub(crate) fn of_device(bus: &str) -> Option<u32> {
    of_device_in(Path::new(SYSFS), bus)
}

fn of_device_in(sysfs: &Path, bus: &str) -> Option<u32> {
    if list(sysfs, "devices/system/node/online")?.len() < 2 {
        return None;
    }
    let device = sysfs.join("bus/pci/devices").join(bus.to_lowercase()).join("numa_node");
    // -1 where it does not know.
    fs::read_to_string(device).ok()?.trim().parse().ok()
}

/// The processors of a node that this thread may run on; `None` where there is none, or the system does not say.
pub(super) fn processors(node: u32) -> Option<CpuSet> {
    let near = list(Path::new(SYSFS), &format!("devices/system/node/node{node}/cpulist"))?;
    let allowed = sched_getaffinity(None).ok()?;
    let mut processors = CpuSet::new();
    near.into_iter()
        .filter(|cpu| *cpu < CpuSet::MAX_CPU && allowed.is_set(*cpu))
        .for_each(|cpu| processors.set(cpu));
    (processors.count() > 0).then_some(processors)
}

/// Reads a list of numbers as the kernel writes it, `0-3,8,10-11`.
fn list(sysfs: &Path, file: &str) -> Option<Vec<usize>> {
    let text = fs::read_to_string(sysfs.join(file)).ok()?;
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        numbers.extend(first..=last.min(first.saturating_add(CpuSet::MAX_CPU)));
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system of these nodes, with one device.
    fn system(online: &str, node: &str) -> tempfile::TempDir {
        let sysfs = tempfile::tempdir().unwrap();
        let device = sysfs.path().join("bus/pci/devices/0000:1b:00.0");
        let nodes = sysfs.path().join("devices/system/node");
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(&nodes).unwrap();
        fs::write(device.join("numa_node"), node).unwrap();
        fs::write(nodes.join("online"), online).unwrap();
        sysfs
    }

    #[test]
    fn a_gpu_is_at_the_node_that_the_system_says() {
        let node = |online, node, bus| of_device_in(system(online, node).path(), bus);
        assert_eq!(node("0-1\n", "1\n", "0000:1B:00.0"), Some(1));
        assert_eq!(node("0-1\n", "-1\n", "0000:1B:00.0"), None);
        assert_eq!(node("0\n", "0\n", "0000:1B:00.0"), None, "there is nothing to choose");
        assert_eq!(node("0-1\n", "1\n", "0000:1C:00.0"), None);
        assert_eq!(of_device_in(Path::new("/nowhere"), "0000:1B:00.0"), None);
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        let read = |text: &str| {
            let sysfs = system(text, "0");
            list(sysfs.path(), "devices/system/node/online")
        };
        assert_eq!(read("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(read("\n"), Some(vec![]));
        assert_eq!(read("0-x\n"), None);
        assert_eq!(read("5-3\n"), Some(vec![]));
    }

    #[test]
    fn processors_of_a_node_are_some_that_we_may_use() {
        if let Some(processors) = processors(0) {
            let allowed = sched_getaffinity(None).unwrap();
            assert!((0..CpuSet::MAX_CPU).all(|cpu| !processors.is_set(cpu) || allowed.is_set(cpu)));
        }
        assert!(processors(u32::MAX).is_none());
    }
}
