//! What the system counts and keeps for this process and its files.

use crate::Failure;
use std::path::Path;

/// The bytes that a process had read from disks and caused to be written to
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskBytes {
    /// Read.
    pub read: u64,
    /// Written: a page counts when it is made dirty.
    pub written: u64,
}

/// What this process has read and written so far.
///
/// # Errors
/// Why the system does not say.
pub fn disk_bytes() -> Result<DiskBytes, String> {
    let path = "/proc/self/io";
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    parse(&text).ok_or_else(|| format!("{path} does not name the bytes"))
}

fn parse(text: &str) -> Option<DiskBytes> {
    let number = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some(DiskBytes {
        read: number("read_bytes:")?,
        written: number("write_bytes:")?,
    })
}

/// Lets the system forget what it keeps of a file in memory.
///
/// # Errors
/// Those of the system.
#[cfg(target_os = "linux")]
pub fn forget(path: &Path) -> Result<(), Failure> {
    use rustix::fs::{Advice, fadvise};
    let file = std::fs::File::open(path)?;
    // Only what is on the disk can be forgotten.
    file.sync_all()?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

/// Lets the system forget what it keeps of a file in memory.
///
/// # Errors
/// Always: there is no call for it.
#[cfg(not(target_os = "linux"))]
pub fn forget(_: &Path) -> Result<(), Failure> {
    Err("this system has no call to drop a file from memory".into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_bytes_of_disks_are_found_among_others() {
        let text = "rchar: 9\nread_bytes: 12\nwrite_bytes: 34\ncancelled_write_bytes: 5\n";
        let bytes = super::parse(text).expect("both are there");
        assert_eq!((bytes.read, bytes.written), (12, 34));
        assert_eq!(super::parse("rchar: 9\n"), None);
    }
}
