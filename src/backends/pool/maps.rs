//! What the system has mapped at an address, before a driver is asked to pin it: a driver only says that it cannot.

use std::fs;
use std::ops::Range;

use rustix::fs::statfs;

use crate::error::MemoryError;

/// File systems whose files are memory: `tmpfs`, `hugetlbfs`, `ramfs`.
const IN_MEMORY: [i64; 3] = [0x0102_1994, 0x9584_58f6, 0x8584_58f6];

/// Refuses memory that is not there, is read-only, or belongs to a file on a disk.
///
/// Where the system does not say what is mapped, the driver decides.
pub(super) fn check(range: &Range<usize>) -> Result<(), MemoryError> {
    fs::read_to_string("/proc/self/maps").map_or(Ok(()), |maps| check_in(&maps, range))
}

/// A line of `/proc/self/maps`: `7f00-7f80 rw-s 00000000 00:01 1234   /dev/shm/pool`.
struct Line<'m> {
    range: Range<usize>,
    access: &'m str,
    path: &'m str,
}

impl<'m> Line<'m> {
    fn read(line: &'m str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let range = address(start)?..address(end)?;
        Some(Self { range, access: words.next()?, path: words.nth(3).unwrap_or_default().trim_start() })
    }

    /// The file on a disk that writes go to, if they do.
    fn file(&self) -> Option<&'m str> {
        // A private mapping's writes stay in memory; what is no path, or deleted, is a memfd or the driver's to judge.
        let shared = self.access.ends_with('s') && self.path.starts_with('/');
        let path = Some(self.path).filter(|_| shared)?;
        let kind = statfs(path).ok()?.f_type;
        (!IN_MEMORY.contains(&kind)).then_some(path)
    }
}

fn check_in(maps: &str, range: &Range<usize>) -> Result<(), MemoryError> {
    let [start, end] = [range.start as u64, range.end as u64];
    let mut at = range.start;
    for line in maps.lines().filter_map(Line::read) {
        if at >= range.end || line.range.start > at {
            break;
        }
        if line.range.end <= at {
            continue;
        }
        let inside = at as u64..line.range.end.min(range.end) as u64;
        if !line.access.starts_with("rw") {
            return Err(MemoryError::ReadOnly { start: inside.start, end: inside.end });
        }
        if let Some(file) = line.file() {
            return Err(MemoryError::FileBacked { start, end, file: file.into() });
        }
        at = line.range.end;
    }
    if at < range.end { Err(MemoryError::NotMapped { start: at as u64, end }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};

    use super::*;
    use crate::backends::pool::mapping::Mapping;

    /// Three pages, the second of which is read-only.
    const MAPS: &str = "\
1000-2000 rw-p 00000000 00:00 0 \n2000-3000 r--p 00000000 00:00 0 \n3000-4000 rw-p 00000000 00:00 0    [heap]\n\
8000-9000 rw-s 00000000 00:01 7    /memfd:pool (deleted)\n";

    #[test]
    fn every_page_must_be_there_and_writable() {
        let check = |range| check_in(MAPS, &range);
        assert_eq!(check(0x1000..0x2000), Ok(()));
        assert_eq!(check(0x3001..0x3fff), Ok(()));
        assert_eq!(check(0x8000..0x9000), Ok(()));
        assert_eq!(check(0x1800..0x3800), Err(MemoryError::ReadOnly { start: 0x2000, end: 0x3000 }));
        assert_eq!(check(0x3800..0x4800), Err(MemoryError::NotMapped { start: 0x4000, end: 0x4800 }));
        assert_eq!(check(0x5000..0x6000), Err(MemoryError::NotMapped { start: 0x5000, end: 0x6000 }));
        assert_eq!(check(0x9000..0x9001), Err(MemoryError::NotMapped { start: 0x9000, end: 0x9001 }));
    }

    #[test]
    fn memory_of_this_process_is_judged_as_it_is() {
        let mapping = Mapping::anonymous(3 << 12, false).unwrap();
        let start = mapping.start();
        let range = start.addr().get()..start.addr().get() + (3 << 12);
        assert_eq!(check(&range), Ok(()));
        // SAFETY: the page is ours, and nobody looks into it.
        unsafe { mprotect(start.as_ptr().add(4096).cast(), 4096, MprotectFlags::READ) }.unwrap();
        let second = (range.start + 4096) as u64;
        assert_eq!(check(&range), Err(MemoryError::ReadOnly { start: second, end: second + 4096 }));
    }

    #[test]
    fn a_shared_mapping_of_a_file_on_a_disk_is_refused() {
        // Beside this program: a folder for temporary files may be in memory.
        let program = std::env::current_exe().unwrap();
        let mut file = tempfile::NamedTempFile::new_in(program.parent().unwrap()).unwrap();
        file.write_all(&[1; 4096]).unwrap();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        for (flags, refused) in [(MapFlags::SHARED, true), (MapFlags::PRIVATE, false)] {
            // SAFETY: the system chooses an address where nothing is.
            let start = unsafe { mmap(std::ptr::null_mut(), 4096, access, flags, file.as_file().as_fd(), 0) }
                .unwrap();
            let found = check(&(start.addr()..start.addr() + 4096));
            // SAFETY: it was mapped just now.
            unsafe { munmap(start, 4096) }.unwrap();
            assert_eq!(matches!(found, Err(MemoryError::FileBacked { .. })), refused, "{found:?}");
        }
    }
}
