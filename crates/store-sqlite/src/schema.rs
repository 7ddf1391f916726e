//! What is in the file, and how it is opened.
//!
//! Opening looks before it touches: the first look at a file that exists is
//! through a connection that takes no locks, reads no WAL and cannot write, so
//! a file that is not a store stays byte for byte as it was.

use crate::config::SqliteConfig;
use crate::error::{Error, Refusal};
use crate::lock::{WriterLock, beside};
use crate::owner;
use folio_codec::FORMAT_VERSION;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// `Foli`: marks a database as a store.
const APPLICATION_ID: u32 = 0x466f_6c69;
/// The version of the tables below.
const SCHEMA_VERSION: u32 = 1;
/// The first SQLite without the WAL reset fault.
const OLDEST_SQLITE: i32 = 3_051_003;
/// The longest wait that SQLite counts.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);
/// The most memory for pages of the connection that writes. Pages of a long
/// transaction that find no room are written before their time, and again.
const WRITER_CACHE_KIB: u32 = 32 << 10;
/// Every statement of the adapter fits.
const CACHED_STATEMENTS: usize = 128;

/// The tables.
///
/// Bodies that may be large stand in rowid tables, whose leaves hold them
/// whole; small rows that are only looked up need no rowid. Keys that hold two
/// numbers are packed (`keys`). `sum` is the checksum of the row.
const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- The commit journal: one row for a group commit.
CREATE TABLE commits (seq INTEGER PRIMARY KEY, sum INTEGER NOT NULL, body BLOB NOT NULL) STRICT;

CREATE TABLE sessions (
  session_no INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, log_no INTEGER NOT NULL UNIQUE,
  incarnation INTEGER NOT NULL, generation INTEGER NOT NULL, authority INTEGER NOT NULL,
  authority_rev INTEGER NOT NULL, followed INTEGER NOT NULL, import_ref TEXT,
  lease_owner INTEGER NOT NULL, lease_epoch INTEGER NOT NULL, lease_holder TEXT NOT NULL,
  created_at INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;

CREATE TABLE logs (
  log_no INTEGER PRIMARY KEY, family INTEGER NOT NULL, head INTEGER NOT NULL,
  base INTEGER NOT NULL, chain BLOB NOT NULL, drained_seq INTEGER NOT NULL, runs INTEGER NOT NULL,
  index_no INTEGER NOT NULL, index_version INTEGER NOT NULL, index_head INTEGER NOT NULL,
  items INTEGER NOT NULL, sources INTEGER NOT NULL, tail BLOB NOT NULL,
  sum INTEGER NOT NULL) STRICT;

-- Which other log holds a fork's events up to an ordinal.
CREATE TABLE spans (
  log_no INTEGER NOT NULL, upto INTEGER NOT NULL, src INTEGER NOT NULL, runs INTEGER NOT NULL,
  sum INTEGER NOT NULL, PRIMARY KEY (log_no, upto)) STRICT, WITHOUT ROWID;
CREATE INDEX spans_src ON spans (src, upto);

-- k: log_no << 33 | ordinal
CREATE TABLE events (
  k INTEGER PRIMARY KEY, sum INTEGER NOT NULL, body BLOB NOT NULL) STRICT;

-- Chunks that are packed together; k as for events, of the first chunk.
CREATE TABLE segs (
  k INTEGER PRIMARY KEY, sum INTEGER NOT NULL, body BLOB NOT NULL) STRICT;

CREATE TABLE event_ids (
  family INTEGER NOT NULL, h INTEGER NOT NULL, log_no INTEGER NOT NULL, ordinal INTEGER NOT NULL,
  PRIMARY KEY (family, h, log_no, ordinal)) STRICT, WITHOUT ROWID;

-- Ids of one stem with running numbers. seg: the first ordinal of the segment.
CREATE TABLE id_runs (
  log_no INTEGER NOT NULL, stem TEXT NOT NULL, first INTEGER NOT NULL, n INTEGER NOT NULL,
  seg INTEGER NOT NULL, sum INTEGER NOT NULL,
  PRIMARY KEY (log_no, stem, first)) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  log_no INTEGER NOT NULL, run_no INTEGER NOT NULL, run_id TEXT NOT NULL, turn_id TEXT NOT NULL,
  invocation_id TEXT NOT NULL, opened INTEGER NOT NULL, terminal INTEGER,
  open_before BLOB NOT NULL, inline INTEGER NOT NULL, output INTEGER NOT NULL,
  facts BLOB NOT NULL, sum INTEGER NOT NULL,
  PRIMARY KEY (log_no, run_no)) STRICT, WITHOUT ROWID;
CREATE INDEX runs_id ON runs (log_no, run_id, run_no);
CREATE INDEX runs_inv ON runs (log_no, invocation_id, run_no);
CREATE INDEX runs_turn ON runs (log_no, turn_id, run_no);
CREATE INDEX runs_open ON runs (log_no, run_no) WHERE terminal IS NULL;

-- p: index_no << 36 | ordinal << 3 | slot
CREATE TABLE items (
  p INTEGER PRIMARY KEY, sum INTEGER NOT NULL, body BLOB NOT NULL, row_len INTEGER,
  row_sha BLOB) STRICT;

-- What an item needs beyond what its row holds.
CREATE TABLE item_more (
  p INTEGER NOT NULL, ordinal INTEGER NOT NULL, what INTEGER NOT NULL,
  PRIMARY KEY (p, ordinal)) STRICT, WITHOUT ROWID;

-- The chunks of an item, by lane.
CREATE TABLE item_segs (
  p INTEGER NOT NULL, lane INTEGER NOT NULL, part INTEGER NOT NULL, seg INTEGER NOT NULL,
  before INTEGER NOT NULL, bytes INTEGER NOT NULL, n INTEGER NOT NULL, last INTEGER NOT NULL,
  sum INTEGER NOT NULL, PRIMARY KEY (p, lane, part, seg)) STRICT, WITHOUT ROWID;

CREATE TABLE item_keys (
  index_no INTEGER NOT NULL, h INTEGER NOT NULL, p INTEGER NOT NULL,
  PRIMARY KEY (index_no, h, p)) STRICT, WITHOUT ROWID;

CREATE TABLE blobs (
  sha BLOB PRIMARY KEY, blob_no INTEGER NOT NULL UNIQUE, len INTEGER NOT NULL,
  stager INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
-- Blobs that are still arriving.
CREATE TABLE stages (
  blob_no INTEGER PRIMARY KEY, stager INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;
-- k: blob_no << 20 | piece
CREATE TABLE pieces (k INTEGER PRIMARY KEY, sum INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TABLE blob_refs (
  sha BLOB NOT NULL, log_no INTEGER NOT NULL, ordinal INTEGER NOT NULL,
  PRIMARY KEY (sha, log_no, ordinal)) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_log ON blob_refs (log_no, ordinal, sha);

-- scope: the log of the session that the facts belong to.
CREATE TABLE contrib_logs (
  c INTEGER PRIMARY KEY, source TEXT NOT NULL, scope INTEGER NOT NULL, rank INTEGER NOT NULL,
  head INTEGER NOT NULL, chain BLOB NOT NULL, sum INTEGER NOT NULL,
  UNIQUE (scope, source)) STRICT;
-- k: c << 33 | seq
CREATE TABLE contrib_facts (
  k INTEGER PRIMARY KEY, anchor INTEGER NOT NULL, id TEXT NOT NULL, chain BLOB NOT NULL,
  body TEXT NOT NULL, withheld BLOB, sum INTEGER NOT NULL) STRICT;
CREATE TABLE contrib_items (
  c INTEGER NOT NULL, anchor INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (c, anchor, seq)) STRICT, WITHOUT ROWID;
CREATE TABLE contrib_ids (
  c INTEGER NOT NULL, h INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (c, h, seq)) STRICT, WITHOUT ROWID;

CREATE TABLE views (
  view INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, version INTEGER NOT NULL,
  sum INTEGER NOT NULL) STRICT;
-- log_no: the log that an entry was computed from and goes with.
CREATE TABLE view_rows (
  view INTEGER NOT NULL, key BLOB NOT NULL, log_no INTEGER NOT NULL, value BLOB NOT NULL,
  sum INTEGER NOT NULL, PRIMARY KEY (view, key)) STRICT, WITHOUT ROWID;
CREATE INDEX view_rows_log ON view_rows (log_no);
CREATE TABLE view_marks (
  view INTEGER NOT NULL, log_no INTEGER NOT NULL, head INTEGER NOT NULL, sum INTEGER NOT NULL,
  PRIMARY KEY (view, log_no)) STRICT, WITHOUT ROWID;
CREATE INDEX view_marks_log ON view_marks (log_no);

-- Erasures that are not complete. log_no: the log whose rows go, 0 where only
-- bytes are left.
CREATE TABLE scrub (
  seq INTEGER PRIMARY KEY, log_no INTEGER NOT NULL, since INTEGER NOT NULL,
  sum INTEGER NOT NULL) STRICT;
";

/// How connections to an open store are made.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    busy_timeout: Duration,
    checkpoint_pages: u32,
    vfs: Option<String>,
    /// The file stands where nothing can be created beside it, and nobody
    /// writes it.
    immutable: bool,
}

/// What writing takes.
pub struct Opened {
    /// A connection.
    pub conn: Connection,
    /// Whether what it commits is on the disk. Otherwise it has to be made so
    /// before it writes.
    pub durable: bool,
    /// A connection that has read, where there was something to read.
    pub reader: Option<Connection>,
    /// A place among the writers.
    pub lock: WriterLock,
    /// A WAL with something in it was there: others are at work, or did not end
    /// their work.
    pub has_wal: bool,
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    Store,
}

/// Opens a store: how to connect to it, and the write connection unless it is
/// opened for reading alone.
pub fn open(config: &SqliteConfig) -> Result<(Source, Option<Opened>), Error> {
    let path = std::path::absolute(&config.path).unwrap_or_else(|_| config.path.clone());
    let refuse = |why| Error::Open {
        path: config.path.clone(),
        why,
    };
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(refuse(Refusal::OldSqlite(rusqlite::version())));
    }
    let mut source = Source {
        path,
        busy_timeout: config.busy_timeout.min(LONGEST_TIMEOUT),
        checkpoint_pages: config.checkpoint_pages,
        vfs: config.vfs.clone(),
        immutable: false,
    };
    let opened = if config.read_only {
        source.check_reader().map(|()| None)
    } else {
        source.open_writer(config.create).map(Some)
    };
    match opened {
        Ok(writer) => Ok((source, writer)),
        Err(Failure::Refused(why)) => Err(refuse(why)),
        Err(Failure::Failed(Error::Busy(holder))) => Err(refuse(Refusal::Locked(holder))),
        Err(Failure::Failed(Error::Lock { source, .. })) if forbids_writing(&source) => {
            Err(refuse(Refusal::ReadOnly))
        }
        Err(Failure::Failed(error)) => Err(match error.sqlite_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                refuse(Refusal::Locked(None))
            }
            Some(ErrorCode::NotADatabase) => refuse(Refusal::NotAStore),
            Some(ErrorCode::ReadOnly) => refuse(Refusal::ReadOnly),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                refuse(Refusal::Unreachable)
            }
            _ => match error {
                Error::Sql(error) => Error::Opening {
                    path: config.path.clone(),
                    error,
                },
                error => error,
            },
        }),
    }
}

/// Why opening went no further.
enum Failure {
    Refused(Refusal),
    Failed(Error),
}

impl From<Refusal> for Failure {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Source {
    /// How long connections wait for others.
    pub fn busy_timeout(&self) -> Duration {
        self.busy_timeout
    }

    fn connect(&self, path: impl AsRef<Path>, flags: OpenFlags) -> Result<Connection, Error> {
        Ok(match &self.vfs {
            None => Connection::open_with_flags(path, flags)?,
            Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str())?,
        })
    }

    /// A connection that reads the file alone: no locks, no WAL, no writing.
    fn connect_immutable(&self) -> Result<Connection, Error> {
        self.connect(
            format!("{}?immutable=1", uri(&self.path)),
            OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_URI,
        )
    }

    /// A connection for reading.
    pub fn connect_reader(&self) -> Result<Connection, Error> {
        let conn = if self.immutable {
            self.connect_immutable()?
        } else {
            self.connect(
                &self.path,
                OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?
        };
        self.configure(&conn)?;
        conn.execute_batch("PRAGMA query_only = ON")?;
        Ok(conn)
    }

    /// Whether the file is there and no stranger's, without touching it.
    /// Answers the connection that has looked, where it saw a store.
    fn look(&self) -> Result<Option<Connection>, Failure> {
        let meta = match fs::metadata(&self.path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Refusal::Missing.into());
            }
            Err(_) => return Err(Refusal::Unreachable.into()),
        };
        if meta.is_dir() {
            return Err(Refusal::Directory.into());
        }
        // SQLite takes a file of one byte for an empty one.
        if !meta.is_file() || meta.len() == 1 {
            return Err(Refusal::NotAStore.into());
        }
        if meta.len() == 0 {
            return Ok(None);
        }
        let conn = self.connect_immutable()?;
        let held = refusals(inspect(&conn))?;
        Ok((held == Some(Holds::Store)).then_some(conn))
    }

    fn check_reader(&mut self) -> Result<(), Failure> {
        if let Some(conn) = self.look()? {
            refusals(check_format(&conn))?;
        }
        // A reader of a WAL database needs files beside it. Where it cannot make
        // them, the file can be read as it is, if no WAL holds newer rows.
        let has_wal = self.has_wal();
        self.immutable = !has_wal && is_in_read_only_directory(&self.path);
        let checked = self.check_connection();
        if let Err(Failure::Failed(error)) = &checked
            && !has_wal
            && !self.immutable
            && matches!(
                error.sqlite_code(),
                Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
            )
        {
            self.immutable = true;
            return self.check_connection();
        }
        checked
    }

    /// Whether a read connection finds a store.
    fn check_connection(&self) -> Result<(), Failure> {
        let conn = self.connect_reader()?;
        match inspect(&conn)? {
            Holds::Store => check_format(&conn),
            Holds::Nothing => Err(Refusal::Missing.into()),
        }
    }

    /// Makes an empty file, where there is none, that only its owner can look
    /// into: sessions are private. SQLite gives the files beside it its mode.
    fn make_private(&self) -> Result<(), Failure> {
        // Another file system than the system's makes its own files.
        if self.vfs.is_some() {
            return Ok(());
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&self.path) {
            Err(error) if forbids_writing(&error) => Err(Refusal::ReadOnly.into()),
            // What else is wrong SQLite says, with its own code.
            _ => Ok(()),
        }
    }

    fn open_writer(&self, create: bool) -> Result<Opened, Failure> {
        match self.look() {
            Ok(_) => {
                let meta = fs::metadata(&self.path).map_err(|_| Refusal::Unreachable)?;
                if meta.permissions().readonly() {
                    return Err(Refusal::ReadOnly.into());
                }
                if has_other_names(&meta) {
                    return Err(Refusal::Linked.into());
                }
                if meta.len() == 0 && !create {
                    return Err(Refusal::Missing.into());
                }
            }
            Err(Failure::Refused(Refusal::Missing)) if create => {
                if !self.path.parent().is_some_and(Path::is_dir) {
                    return Err(Refusal::NoDirectory.into());
                }
            }
            Err(failure) => return Err(failure),
        }
        if is_in_read_only_directory(&self.path) {
            return Err(Refusal::ReadOnly.into());
        }
        if create {
            self.make_private()?;
        }
        let has_wal = self.has_wal();
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
        let mut conn = self.connect(&self.path, flags)?;
        // SQLite falls back to reading where it may not write.
        if conn.is_readonly(c"main")? {
            return Err(Refusal::ReadOnly.into());
        }
        self.configure(&conn)?;
        // The first look did not see what stands in the WAL alone. Until it is
        // known whose file this is, closing it must not fold the WAL in.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let held = inspect(&conn)?;
        // The form of the rows stands in a table. Reading that takes the schema,
        // which costs more than all else, so the connection that reads pages
        // does it, and the one that writes when it first does.
        let reader = match held {
            Holds::Store => Some(self.connect_reader()?),
            Holds::Nothing => None,
        };
        if let Some(reader) = &reader
            && let Err(failure) = check_format(reader)
        {
            // The files that reading made go again, unless they were there.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_wal)?;
            return Err(failure);
        }
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        if held == Holds::Nothing && !create {
            return Err(Refusal::Missing.into());
        }
        let files = self.files();
        let lock = WriterLock::open(&files, self.busy_timeout)?;
        let turn = lock.acquire()?;
        let durable = held == Holds::Nothing || has_wal;
        if durable {
            self.set_up(&conn)?;
        }
        if held == Holds::Nothing {
            create_tables(&mut conn)?;
        }
        drop(turn);
        owner::sweep(&files);
        Ok(Opened {
            conn,
            durable,
            reader,
            lock,
            has_wal,
        })
    }

    /// The path that the names of the files beside the database begin with:
    /// the same by whatever link the file was reached.
    pub fn files(&self) -> PathBuf {
        fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone())
    }

    fn has_wal(&self) -> bool {
        fs::metadata(beside(&self.files(), "-wal")).is_ok_and(|meta| meta.len() > 0)
    }

    fn configure(&self, conn: &Connection) -> Result<(), Error> {
        conn.busy_timeout(self.busy_timeout)?;
        conn.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        // Plans must not depend on values: without this, binding another bound
        // of a range compiles the statement anew.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        conn.execute_batch(
            "PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; \
             PRAGMA mmap_size = 0; PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY",
        )?;
        // An fsync of macOS does not reach the platter. Closing syncs, too, what
        // others have written.
        #[cfg(target_os = "macos")]
        conn.execute_batch("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")?;
        Ok(())
    }

    /// Puts the file into the state in which a commit is on the disk.
    ///
    /// # Errors
    /// `store_not_durable` where it cannot be, and what SQLite says.
    pub fn make_durable(&self, conn: &Connection) -> Result<(), Error> {
        self.set_up(conn).map_err(|failure| match failure {
            Failure::Refused(why) => Error::Open {
                path: self.path.clone(),
                why,
            },
            Failure::Failed(error) => error,
        })
    }

    /// The same, on opening.
    fn set_up(&self, conn: &Connection) -> Result<(), Failure> {
        // The page size has an effect on an empty file alone.
        conn.execute_batch("PRAGMA page_size = 4096")?;
        let start = Instant::now();
        let mode: String = loop {
            match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)) {
                Ok(mode) => break mode,
                // One who reads meanwhile makes SQLite refuse without waiting.
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && start.elapsed() < self.busy_timeout =>
                {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(error.into()),
            }
        };
        conn.execute_batch(&format!(
            "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; \
             PRAGMA wal_autocheckpoint = {}; PRAGMA journal_size_limit = -1; \
             PRAGMA cache_size = -{WRITER_CACHE_KIB}",
            self.checkpoint_pages
        ))?;
        let synchronous: i64 = conn.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
        if !mode.eq_ignore_ascii_case("wal") || synchronous < 2 {
            let found = format!("the journal mode is {mode} and synchronous is {synchronous}");
            return Err(Refusal::NotDurable(found).into());
        }
        Ok(())
    }
}

/// What a look at the file without its WAL says: only a refusal counts. The
/// file alone may be in pieces, while a checkpoint is at work or after one was
/// interrupted; what is really broken shows when both are read.
fn refusals<T>(looked: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match looked {
        Ok(seen) => Ok(Some(seen)),
        Err(Failure::Refused(why)) => Err(why.into()),
        Err(Failure::Failed(_)) => Ok(None),
    }
}

/// Whose file this is. All of it is read in one transaction: another process
/// may be making the tables.
fn inspect(conn: &Connection) -> Result<Holds, Failure> {
    let read = conn.unchecked_transaction()?;
    let number = |pragma: &str| read.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    if application != i64::from(APPLICATION_ID) {
        let tables = number("SELECT EXISTS (SELECT 1 FROM sqlite_schema)")?;
        return if (application, version, tables) == (0, 0, 0) {
            Ok(Holds::Nothing)
        } else {
            Err(Refusal::NotAStore.into())
        };
    }
    match u32::try_from(version) {
        Ok(found) if found > SCHEMA_VERSION => Err(Refusal::Newer {
            found,
            known: SCHEMA_VERSION,
        }
        .into()),
        Ok(SCHEMA_VERSION) => Ok(Holds::Store),
        // Mark and version are written together.
        _ => Err(Error::damaged("header", "user_version").into()),
    }
}

fn create_tables(conn: &mut Connection) -> Result<(), Failure> {
    let write = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Whoever held the lock before may have made them.
    let version: i64 = write.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 0 {
        write.execute_batch(TABLES)?;
        write.execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}"
        ))?;
        let mut id = [0; 16];
        // The id only tells stores apart; without randomness it stays zero.
        let _ = getrandom::fill(&mut id);
        for (key, value) in [
            ("format", &FORMAT_VERSION.to_le_bytes()[..]),
            ("store_id", &id[..]),
            ("fence", &0_u64.to_le_bytes()[..]),
            (
                "counters",
                &crate::reader::encode_counters(folio_store::engine::Counters::default()),
            ),
        ] {
            write.execute(crate::sql::PUT_META, (key, value))?;
        }
    }
    write.commit()?;
    Ok(())
}

/// Whether this build knows the stored forms.
fn check_format(conn: &Connection) -> Result<(), Failure> {
    let bytes: Vec<u8> = conn.query_row(crate::sql::META, ["format"], |row| row.get(0))?;
    let found = <[u8; 4]>::try_from(&*bytes)
        .map(u32::from_le_bytes)
        .map_err(|_| Error::damaged("meta", "format"))?;
    if found > FORMAT_VERSION {
        let known = FORMAT_VERSION;
        return Err(Refusal::Newer { found, known }.into());
    }
    Ok(())
}

/// A path as SQLite's URIs spell it.
fn uri(path: &Path) -> String {
    let mut out = String::from("file:");
    if cfg!(windows) {
        out.push('/');
    }
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'\\' if cfg!(windows) => out.push('/'),
            b':' if cfg!(windows) => out.push(':'),
            b'/' | b'.' | b'_' | b'-' => out.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(*byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Whether this says that a file cannot be written or made.
fn forbids_writing(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Whether nothing can be created beside a file. The mode is asked, and not
/// what this user could do against it: a directory that is marked as read-only
/// is left alone even by root. Elsewhere than on Unix the mark means something
/// else.
fn is_in_read_only_directory(path: &Path) -> bool {
    cfg!(unix)
        && path
            .parent()
            .and_then(|parent| fs::metadata(parent).ok())
            .is_some_and(|meta| meta.permissions().readonly())
}

/// Whether a file has other names: SQLite finds its WAL by the name, so a store
/// that is written under two of them loses what stands in one WAL.
#[cfg(unix)]
fn has_other_names(meta: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(meta) > 1
}

/// Elsewhere the number of names is not told without opening the file.
#[cfg(not(unix))]
fn has_other_names(_: &fs::Metadata) -> bool {
    false
}
