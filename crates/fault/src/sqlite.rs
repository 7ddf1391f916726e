//! SQLite over a [`Disk`].

use crate::Disk;
use std::path::Path;
use std::{fmt, io};

mod vfs;

/// A file system of SQLite that leads the files of one folder through a
/// [`Disk`] and stands under a name of its own until it is dropped.
///
/// Locks, shared memory and reads are those of the system's file system, so
/// processes see each other as ever. Syncs are recorded and not carried out:
/// nothing here loses power, and a sweep is many times faster so.
///
/// ```
/// use folio_fault::{Disk, Fault, sqlite::Vfs};
/// use rusqlite::{Connection, OpenFlags};
///
/// let folder = folio_fault::folder()?;
/// let disk = Disk::of_folder(folder.path())?;
/// let vfs = Vfs::register(folder.path(), disk.clone())?;
/// let path = folder.path().join("test.db");
/// let conn = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), vfs.name())?;
/// conn.execute_batch("CREATE TABLE t (x)")?;
/// disk.arm(Fault::once(1));
/// conn.execute_batch("INSERT INTO t VALUES (1)").unwrap_err();
/// conn.execute_batch("INSERT INTO t VALUES (2)")?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Vfs {
    registered: vfs::Registered,
    disk: Disk,
}

impl fmt::Debug for Vfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vfs")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Vfs {
    /// Registers a file system for the files of a folder. Files elsewhere are
    /// passed through.
    ///
    /// # Errors
    /// Where SQLite has no file system to build on, or takes no other.
    pub fn register(folder: &Path, disk: Disk) -> io::Result<Self> {
        let folder = fs_path(folder)?;
        Ok(Self {
            registered: vfs::Registered::new(folder, disk.clone())?,
            disk,
        })
    }

    /// The name to open connections with.
    #[must_use]
    pub fn name(&self) -> &str {
        self.registered.name()
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &Disk {
        &self.disk
    }
}

impl Drop for Vfs {
    fn drop(&mut self) {
        // A connection may outlive this; what is large need not.
        self.disk.stop_recording();
    }
}

/// The folder as SQLite spells it: absolute, and without links.
fn fs_path(folder: &Path) -> io::Result<std::path::PathBuf> {
    folder.canonicalize()
}
