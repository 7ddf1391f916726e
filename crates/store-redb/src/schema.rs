//! Whose file it is, and how it is opened.
//!
//! Opening looks before it touches: the first look at a file that exists is
//! through a backend that cannot write ([`Overlay`]), so a file that is not a
//! store stays byte for byte as it was.

use crate::config::RedbConfig;
use crate::error::{Error, Refusal};
use crate::health::caught;
use crate::overlay::Overlay;
use crate::rows::{Meta, Row, damaged};
use crate::tables::{Bytes, Reading, Writing, definition, get, put};
use folio_codec::FORMAT_VERSION;
use folio_store::engine::Counters;
use redb::backends::FileBackend;
use redb::{
    Builder, ConcurrencyMode, Database, DatabaseError, Durability, ReadableDatabase, ReadableTable,
    TableError, WriteTransaction,
};
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Marks a database as a store.
const APPLICATION: &[u8] = b"Folio";
/// The version of the tables.
const SCHEMA_VERSION: u32 = 1;
/// How every redb file begins.
const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

/// How an open store is opened again.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    cache_bytes: usize,
    read_only: bool,
    layer: Option<Arc<dyn Layer>>,
}

/// What a test puts between redb and the files that it writes.
#[doc(hidden)]
pub trait Layer: fmt::Debug + Send + Sync + 'static {
    /// Opens a database in a file of this path.
    ///
    /// # Errors
    /// What redb says.
    fn create(
        &self,
        builder: &Builder,
        file: FileBackend,
        path: &Path,
    ) -> Result<Database, DatabaseError>;
}

/// Opens a store.
pub fn open(
    config: &RedbConfig,
    layer: Option<Arc<dyn Layer>>,
) -> Result<(Source, Database), Error> {
    let source = Source {
        path: std::path::absolute(&config.path).unwrap_or_else(|_| config.path.clone()),
        cache_bytes: config.cache_bytes,
        read_only: config.read_only,
        layer,
    };
    let opened = if config.read_only {
        source.view()
    } else {
        source.open_or_create(config.create)
    };
    match opened {
        Ok(database) => Ok((source, database)),
        Err(failure) => Err(failure.at(&config.path)),
    }
}

/// Why opening went no further.
#[derive(Debug)]
enum Failure {
    Refused(Refusal),
    Failed(Error),
}

impl From<Refusal> for Failure {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Failure {
    /// The error, with its path.
    fn at(self, path: &Path) -> Error {
        let why = match self {
            Self::Refused(why) => why,
            Self::Failed(Error::Panicked(text)) => Refusal::Damaged(text),
            Self::Failed(Error::Redb(error)) => match refusal(&error) {
                Some(why) => why,
                None => {
                    let path = path.to_owned();
                    return Error::Opening { path, error };
                }
            },
            Self::Failed(error) => return error,
        };
        let path = path.to_owned();
        Error::Open { path, why }
    }
}

/// What an error of redb, or of the operating system, says about a file.
fn refusal(error: &redb::Error) -> Option<Refusal> {
    match error {
        redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
            Some(Refusal::Locked)
        }
        // Older formats of redb, which no store was ever kept in.
        redb::Error::UpgradeRequired(_) => Some(Refusal::NotAStore),
        redb::Error::Corrupted(text) => Some(Refusal::Damaged(text.clone())),
        redb::Error::Io(error) => match error.kind() {
            io::ErrorKind::NotFound => Some(Refusal::Missing),
            io::ErrorKind::IsADirectory => Some(Refusal::Directory),
            // What cannot even be read was refused by the first look.
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Some(Refusal::ReadOnly)
            }
            io::ErrorKind::NotADirectory => Some(Refusal::Unreachable),
            // Pages that the file says it has are not there.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                Some(Refusal::Damaged(error.to_string()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// What stands at a path.
enum Found {
    /// No file.
    Missing,
    /// A file without a byte, or a database without a table: a start that was
    /// interrupted.
    Empty,
    /// A store, open and unable to write.
    Store(Database),
}

impl Source {
    /// Opens the store again, as it was opened before.
    pub fn reopen(&self) -> Result<Database, Error> {
        let opened = if self.read_only {
            self.view()
        } else {
            self.open_writer(false)
        };
        opened.map_err(|failure| failure.at(&self.path))
    }

    /// Whether the store is only read.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn builder(&self) -> Builder {
        let mut builder = Builder::new();
        builder
            .set_cache_size(self.cache_bytes)
            .set_concurrency_mode(ConcurrencyMode::ExclusiveWriter);
        builder
    }

    /// The store, unable to write.
    fn view(&self) -> Result<Database, Failure> {
        match self.look()? {
            Found::Store(database) => Ok(database),
            Found::Missing | Found::Empty => Err(Refusal::Missing.into()),
        }
    }

    /// Looks at the file without touching it.
    fn look(&self) -> Result<Found, Failure> {
        let meta = match fs::metadata(&self.path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
            Err(_) => return Err(Refusal::Unreachable.into()),
        };
        if meta.is_dir() {
            return Err(Refusal::Directory.into());
        }
        if !meta.is_file() {
            return Err(Refusal::NotAStore.into());
        }
        let mut file = File::open(&self.path).map_err(|_| Refusal::Unreachable)?;
        let meta = file.metadata()?;
        if meta.len() == 0 {
            return Ok(Found::Empty);
        }
        let mut magic = [0; MAGIC.len()];
        match file.read_exact(&mut magic) {
            Ok(()) if magic == MAGIC => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
            _ => return Err(Refusal::NotAStore.into()),
        }
        let database = caught(|| {
            let overlay = Overlay::new(file)?;
            Ok(self.builder().create_with_backend(overlay)?)
        })?;
        let (database, is_store) = used(database, |database| {
            if !is_at(&meta, &self.path)? {
                return Err(Refusal::Locked.into());
            }
            inspect(database)
        })?;
        if is_store {
            return Ok(Found::Store(database));
        }
        release(database);
        Ok(Found::Empty)
    }

    fn open_or_create(&self, create: bool) -> Result<Database, Failure> {
        let is_there = match self.look()? {
            Found::Missing => false,
            Found::Empty if !create => return Err(Refusal::Missing.into()),
            Found::Empty => true,
            Found::Store(view) => {
                // It holds the file against writers.
                release(view);
                true
            }
        };
        if is_there {
            let meta = fs::metadata(&self.path).map_err(|_| Refusal::Unreachable)?;
            if meta.permissions().readonly() {
                return Err(Refusal::ReadOnly.into());
            }
        } else if create {
            self.create()?;
        } else {
            return Err(Refusal::Missing.into());
        }
        self.open_writer(create)
    }

    /// Opens the file for writing, and makes the tables if there is none.
    fn open_writer(&self, create: bool) -> Result<Database, Failure> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let meta = file.metadata()?;
        let database = caught(|| self.create_in(file, &self.path))?;
        let (database, ()) = used(database, |database| {
            if !is_at(&meta, &self.path)? {
                return Err(Refusal::Locked.into());
            }
            // Another may have been faster since the first look.
            match inspect(database)? {
                true => Ok(()),
                false if create => create_tables(database),
                false => Err(Refusal::Missing.into()),
            }
        })?;
        // Of a rewrite that was killed.
        if let Ok(place) = fs::canonicalize(&self.path) {
            let _ = remove(&draft_of(&place));
        }
        Ok(database)
    }

    /// Opens a database in a file, which is locked from here on.
    fn create_in(&self, file: File, path: &Path) -> Result<Database, Error> {
        let (builder, file) = (self.builder(), FileBackend::new(file)?);
        Ok(match &self.layer {
            None => builder.create_with_backend(file)?,
            Some(layer) => layer.create(&builder, file, path)?,
        })
    }

    /// Copies a store into a new file, which then takes the place of the old
    /// one. However it ends, one of the two stands there, whole.
    ///
    /// The folder must be synced before anything is committed to the copy.
    pub fn rewrite(&self, from: &Database) -> Result<Database, Error> {
        let rewritten = self.replace(from);
        rewritten.map_err(|error| Failure::Failed(error).at(&self.path))
    }

    fn replace(&self, from: &Database) -> Result<Database, Error> {
        // A link stays one: the file that it names is replaced.
        let place = fs::canonicalize(&self.path)?;
        let draft = draft_of(&place);
        remove(&draft)?;
        let made = caught(|| {
            let copy = self.copy(from, &place, &draft)?;
            fs::rename(&draft, &place)?;
            Ok(copy)
        });
        if made.is_err() {
            // The next opening tries again.
            let _ = remove(&draft);
        }
        made
    }

    fn copy(&self, from: &Database, place: &Path, draft: &Path) -> Result<Database, Error> {
        let mut options = private();
        let file = options.read(true).create_new(true).open(draft)?;
        file.set_permissions(fs::metadata(place)?.permissions())?;
        let copy = self.create_in(file, draft)?;
        let txn = begin_write(&copy)?;
        Writing::open(&txn)?.copy_all(&Reading::new(from.begin_read()?))?;
        txn.commit()?;
        Ok(copy)
    }

    /// Makes sure that the folder keeps which file has the store's name.
    pub fn sync_folder(&self) -> io::Result<()> {
        let place = fs::canonicalize(&self.path)?;
        place.parent().map_or(Ok(()), sync_folder)
    }

    /// Makes a store where there is nothing, whole or not at all: it is made
    /// beside its place and linked there. What an interrupted start leaves is
    /// never taken for a foreign file.
    fn create(&self) -> Result<(), Failure> {
        let Some(folder) = self.path.parent().filter(|folder| folder.is_dir()) else {
            return Err(Refusal::NoDirectory.into());
        };
        // The mode is asked, and not what this user could do against it.
        if cfg!(unix) && fs::metadata(folder)?.permissions().readonly() {
            return Err(Refusal::ReadOnly.into());
        }
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{:016x}.new", random()));
        let draft = Source {
            path: name.into(),
            ..self.clone()
        };
        let made = draft.make().and_then(|()| self.take(&draft.path));
        // A draft that stays is not in the way of anything.
        let _ = fs::remove_file(&draft.path);
        made?;
        sync_folder(folder)?;
        Ok(())
    }

    /// Gives a store its place, unless something stands there by now.
    fn take(&self, draft: &Path) -> Result<(), Failure> {
        match fs::hard_link(draft, &self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // Where nothing can be linked, the store is made in its place.
                private().create(true).truncate(false).open(&self.path)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Makes a store in a file of its own.
    fn make(&self) -> Result<(), Failure> {
        drop(private().create_new(true).open(&self.path)?);
        let database = self.open_writer(true)?;
        caught(|| Ok(database.close()?))?;
        Ok(())
    }
}

/// How files are made: sessions are private, so only their owner can look into
/// them.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Where a copy is made that is to take a file's place.
fn draft_of(place: &Path) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(".rewrite");
    name.into()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether a file that was opened still stands at its path. One that was
/// rewritten between opening and locking does not: its lock says nothing.
#[cfg(unix)]
fn is_at(opened: &Metadata, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let there = fs::metadata(path)?;
    Ok((opened.dev(), opened.ino()) == (there.dev(), there.ino()))
}

/// Elsewhere a file that somebody has open cannot be replaced.
#[cfg(not(unix))]
fn is_at(_: &Metadata, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// What tells a file from all others.
pub type FileId = (u64, u64);

/// The file that stands at a path now.
#[cfg(unix)]
pub fn file_at(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Elsewhere an open file cannot be removed or replaced.
#[cfg(not(unix))]
pub fn file_at(_: &Path) -> Option<FileId> {
    None
}

/// Makes the name of a new file durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// A random number; names drafts and tells stores apart.
fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}

/// Calls into a database, of which no panic comes out; it is given up where
/// they fail.
fn used<T>(
    database: Database,
    work: impl FnOnce(&Database) -> Result<T, Failure>,
) -> Result<(Database, T), Failure> {
    match caught(|| Ok(work(&database))).unwrap_or_else(|error| Err(error.into())) {
        Ok(done) => Ok((database, done)),
        Err(failure) => {
            release(database);
            Err(failure)
        }
    }
}

/// Gives a database up. Closing writes, and may panic on a damaged file; one
/// that was not closed well is recovered by the next start.
pub fn release<D>(database: D) {
    let _ = caught(|| {
        drop(database);
        Ok(())
    });
}

/// Begins a transaction whose commit is on the disk when it answers, and after
/// which a restart has nothing to repair.
pub fn begin_write(database: &Database) -> Result<WriteTransaction, Error> {
    let mut txn = database.begin_write()?;
    txn.set_durability(Durability::Immediate)?;
    txn.set_quick_repair(true);
    Ok(txn)
}

/// Whether the file is a store of this build's; an error if it is another's,
/// `false` if it has no table at all.
fn inspect(database: &Database) -> Result<bool, Failure> {
    let txn = database.begin_read()?;
    if txn.list_tables()?.next().is_none() && txn.list_multimap_tables()?.next().is_none() {
        return Ok(false);
    }
    let meta = match txn.open_table(definition::meta) {
        Ok(meta) => meta,
        Err(TableError::Storage(error)) => return Err(error.into()),
        Err(_) => return Err(Refusal::NotAStore.into()),
    };
    // A table of that name may be anybody's, so what does not read as a row of
    // ours is no damage yet.
    let mark = ReadableTable::get(&meta, "application")?;
    let is_ours = mark.is_some_and(|mark| mark.value().ends_with(APPLICATION));
    if !is_ours {
        return Err(Refusal::NotAStore.into());
    }
    let application: Option<Meta> = get(&meta, "application")?;
    if application != Some(Meta(APPLICATION.to_vec())) {
        return Err(damaged::<Meta>(&"application").into());
    }
    for (name, known) in [("schema", SCHEMA_VERSION), ("format", FORMAT_VERSION)] {
        let found = version(&meta, name)?;
        if found > known {
            return Err(Refusal::Newer { found, known }.into());
        }
    }
    Ok(true)
}

/// A version among the facts about the store.
fn version(
    meta: &impl ReadableTable<<Meta as Row>::Key, Bytes>,
    name: &'static str,
) -> Result<u32, Error> {
    let row: Option<Meta> = get(meta, name)?;
    row.and_then(|Meta(bytes)| bytes.try_into().ok())
        .map(u32::from_le_bytes)
        .filter(|version| *version > 0)
        .ok_or_else(|| damaged::<Meta>(&name))
}

fn create_tables(database: &Database) -> Result<(), Failure> {
    let txn = begin_write(database)?;
    {
        let mut tables = Writing::open(&txn)?;
        for (name, value) in [
            ("application", APPLICATION),
            ("schema", &SCHEMA_VERSION.to_le_bytes()),
            ("format", &FORMAT_VERSION.to_le_bytes()),
            ("store_id", &random().to_le_bytes()),
            ("fence", &0_u64.to_le_bytes()),
        ] {
            put(&mut tables.meta, name, &Meta(value.to_vec()))?;
        }
        put(&mut tables.meta, "counters", &Counters::default())?;
    }
    txn.commit()?;
    Ok(())
}

/// Commits a row of no meaning after a commit that failed: what the file says
/// of the failed one from here on, it says for good.
pub fn commit_fence(database: &Database) -> Result<(), Error> {
    let txn = begin_write(database)?;
    {
        let mut meta = txn.open_table(definition::meta)?;
        let last: Option<Meta> = get(&meta, "fence")?;
        let last = last
            .and_then(|Meta(bytes)| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes);
        let next = Meta(last.wrapping_add(1).to_le_bytes().to_vec());
        put(&mut meta, "fence", &next)?;
    }
    Ok(txn.commit()?)
}
