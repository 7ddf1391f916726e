//! The table of C functions behind [`super::Vfs`]: every function asks the disk
//! and then calls the same function of the system's file system.
//!
//! # Safety
//!
//! SQLite calls these functions with what `xOpen` filled in and no other: a
//! file is [`SHIM_BYTES`] of [`ShimFile`] with the system's file behind it, in
//! one block of `szOsFile` bytes that SQLite allocates, aligned to 8 bytes, and
//! calls no method of a file from two threads at once. The file system's own
//! data ([`Run`]) is leaked, so that it lives as long as any connection.
#![allow(
    unsafe_code,
    reason = "a file system for SQLite is a table of C functions"
)]

use crate::{Disk, Fault, FileNo};
use rusqlite::ffi;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// What one file system knows.
struct Run {
    /// The system's file system.
    system: *mut ffi::sqlite3_vfs,
    folder: PathBuf,
    disk: Disk,
}

/// What stands before the system's file.
#[repr(C)]
struct ShimFile {
    base: ffi::sqlite3_file,
    run: *const Run,
    /// The number of the file, or -1 for one that is passed through.
    file: i64,
    /// The first sync takes the folder along.
    folder_due: bool,
}

/// The bytes before the system's file, which needs the strictest alignment.
const SHIM_BYTES: usize = size_of::<ShimFile>().next_multiple_of(16);

/// A registered file system.
pub struct Registered {
    vfs: *mut ffi::sqlite3_vfs,
    name: String,
}

// SAFETY: the pointer is only handed to SQLite, whose list of file systems has
// a mutex of its own.
unsafe impl Send for Registered {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Registered {}

impl Registered {
    pub fn new(folder: PathBuf, disk: Disk) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let name = format!("folio-fault-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let c_name = CString::new(name.clone())?.into_raw();
        // SAFETY: a null name asks for the default one, which is never removed.
        let system = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        if system.is_null() {
            return Err(io::Error::other("SQLite has no file system here"));
        }
        // SAFETY: SQLite answered a valid table.
        let (bytes, longest) = unsafe { ((*system).szOsFile, (*system).mxPathname) };
        let run = Box::leak(Box::new(Run {
            system,
            folder,
            disk,
        }));
        let before = c_int::try_from(SHIM_BYTES).map_err(io::Error::other)?;
        let vfs = Box::into_raw(Box::new(ffi::sqlite3_vfs {
            iVersion: 2,
            szOsFile: before + bytes,
            mxPathname: longest,
            pNext: ptr::null_mut(),
            zName: c_name,
            pAppData: ptr::from_mut(run).cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            // Extensions are never loaded here.
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: Some(current_time),
            xGetLastError: Some(get_last_error),
            xCurrentTimeInt64: Some(current_time_int64),
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        }));
        // SAFETY: the table and all that it points to are leaked.
        let code = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
        if code != ffi::SQLITE_OK {
            return Err(io::Error::other(format!("SQLite answered {code}")));
        }
        Ok(Self { vfs, name })
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // The table stays: connections may still be open.
        // SAFETY: it was registered by `new`.
        unsafe { ffi::sqlite3_vfs_unregister(self.vfs) };
    }
}

/// # Safety
/// The table is one that `Registered::new` made.
unsafe fn run_of<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a Run {
    // SAFETY: `pAppData` is a leaked `Run`.
    unsafe { &*(*vfs).pAppData.cast::<Run>() }
}

/// # Safety
/// The file is one that `open` filled in.
unsafe fn shim_of<'a>(file: *mut ffi::sqlite3_file) -> &'a mut ShimFile {
    // SAFETY: see the module; only one thread is in a method of this file.
    unsafe { &mut *file.cast::<ShimFile>() }
}

/// # Safety
/// The file is in a block of `szOsFile` bytes of our table.
unsafe fn inner(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: the system's file stands behind ours in the same block.
    unsafe { file.cast::<u8>().add(SHIM_BYTES).cast() }
}

/// The disk and the number of a file that is not passed through.
///
/// # Safety
/// The file is one that `open` filled in.
unsafe fn watched<'a>(file: *mut ffi::sqlite3_file) -> Option<(&'a Disk, FileNo)> {
    // SAFETY: as the caller promises; the run is leaked.
    let (shim, run) = unsafe {
        let shim = shim_of(file);
        (&*shim, &*shim.run)
    };
    let number = u32::try_from(shim.file).ok()?;
    Some((&run.disk, FileNo(number)))
}

/// The name of a file in the run's folder, if the path is one.
///
/// # Safety
/// The path is null or ends with a zero.
unsafe fn name_in(run: &Run, path: *const c_char) -> Option<String> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let path = Path::new(unsafe { CStr::from_ptr(path) }.to_str().ok()?);
    let folder = path.parent()?;
    // SQLite resolves links in the path; a test's folder may be spelled with one.
    let mine = folder == run.folder || folder.canonicalize().is_ok_and(|it| it == run.folder);
    mine.then(|| path.file_name()?.to_str().map(str::to_owned))?
}

fn failed(fault: Fault, code: c_int) -> c_int {
    if fault.full { ffi::SQLITE_FULL } else { code }
}

/// Calls a function of a table of the system.
macro_rules! system {
    ($table:expr, $function:ident ( $($argument:expr),* )) => {
        match (*$table).$function {
            Some(function) => function($($argument),*),
            None => ffi::SQLITE_IOERR,
        }
    };
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite hands out our table, a path that ends with a zero or none,
    // and a block of `szOsFile` bytes.
    unsafe {
        let run = run_of(vfs);
        ptr::write_bytes(file.cast::<u8>(), 0, SHIM_BYTES);
        let mut number = -1;
        if let Some(name) = name_in(run, path) {
            // SQLite's own question calls an empty file none.
            let exists = run.folder.join(&name).exists();
            if !exists && flags & ffi::SQLITE_OPEN_CREATE == 0 {
                return ffi::SQLITE_CANTOPEN;
            }
            match run.disk.open(&name, exists) {
                Ok(file) => number = i64::from(file.0),
                Err(_) => return ffi::SQLITE_CANTOPEN,
            }
        }
        let system = inner(file);
        let code = system!(run.system, xOpen(run.system, path, system, flags, out));
        if code != ffi::SQLITE_OK {
            if !(*system).pMethods.is_null() {
                system!((*system).pMethods, xClose(system));
            }
            return code;
        }
        let journal =
            ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL;
        *shim_of(file) = ShimFile {
            base: ffi::sqlite3_file {
                pMethods: &raw const METHODS,
            },
            run,
            file: number,
            // As in SQLite's own file system for Unix.
            folder_due: flags & journal != 0 && flags & ffi::SQLITE_OPEN_CREATE != 0,
        };
        ffi::SQLITE_OK
    }
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    sync_folder: c_int,
) -> c_int {
    // SAFETY: SQLite hands out our table and a path that ends with a zero.
    unsafe {
        let run = run_of(vfs);
        let Some(name) = name_in(run, path) else {
            return system!(run.system, xDelete(run.system, path, sync_folder));
        };
        if run.disk.remove(&name).is_err() {
            return ffi::SQLITE_IOERR_DELETE;
        }
        let code = system!(run.system, xDelete(run.system, path, 0));
        if code == ffi::SQLITE_OK {
            run.disk.removed(&name, sync_folder & 1 != 0);
        }
        code
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    at: i64,
) -> c_int {
    // SAFETY: a file of ours, and `count` bytes.
    unsafe {
        let system = inner(file);
        let Some((disk, number)) = watched(file) else {
            return system!((*system).pMethods, xWrite(system, bytes, count, at));
        };
        let length = usize::try_from(count).unwrap_or(0);
        let slice = std::slice::from_raw_parts(bytes.cast::<u8>(), length);
        match disk.write(number, at.cast_unsigned(), slice) {
            Ok(()) => system!((*system).pMethods, xWrite(system, bytes, count, at)),
            Err((fault, kept)) => {
                let kept = c_int::try_from(kept).unwrap_or(0);
                if kept > 0 {
                    system!((*system).pMethods, xWrite(system, bytes, kept, at));
                }
                failed(fault, ffi::SQLITE_IOERR_WRITE)
            }
        }
    }
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    bytes: *mut c_void,
    count: c_int,
    at: i64,
) -> c_int {
    // SAFETY: a file of ours, and room for `count` bytes.
    unsafe {
        let system = inner(file);
        if watched(file).is_some_and(|(disk, number)| disk.read(number).is_err()) {
            return ffi::SQLITE_IOERR_READ;
        }
        system!((*system).pMethods, xRead(system, bytes, count, at))
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    // SAFETY: a file of ours.
    unsafe {
        let system = inner(file);
        if let Some((disk, number)) = watched(file)
            && let Err(fault) = disk.resize(number, length.cast_unsigned())
        {
            return failed(fault, ffi::SQLITE_IOERR_TRUNCATE);
        }
        system!((*system).pMethods, xTruncate(system, length))
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: a file of ours.
    unsafe {
        let system = inner(file);
        let Some((disk, number)) = watched(file) else {
            return system!((*system).pMethods, xSync(system, flags));
        };
        let shim = shim_of(file);
        match disk.sync(number, shim.folder_due) {
            Ok(()) => {
                shim.folder_due = false;
                ffi::SQLITE_OK
            }
            Err(fault) => failed(fault, ffi::SQLITE_IOERR_FSYNC),
        }
    }
}

/// Methods of files that are the system's alone.
macro_rules! forward_file {
    ($($ours:ident = $theirs:ident ( $($argument:ident : $type:ty),* );)*) => { $(
        unsafe extern "C" fn $ours(file: *mut ffi::sqlite3_file $(, $argument: $type)*) -> c_int {
            // SAFETY: a file of ours; the other arguments are passed as they came.
            unsafe {
                let system = inner(file);
                system!((*system).pMethods, $theirs(system $(, $argument)*))
            }
        }
    )* };
}

forward_file! {
    close = xClose();
    file_size = xFileSize(size: *mut i64);
    lock = xLock(level: c_int);
    unlock = xUnlock(level: c_int);
    check_reserved_lock = xCheckReservedLock(out: *mut c_int);
    file_control = xFileControl(operation: c_int, argument: *mut c_void);
    sector_size = xSectorSize();
    device_characteristics = xDeviceCharacteristics();
    shm_map = xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void);
    shm_lock = xShmLock(offset: c_int, count: c_int, flags: c_int);
    shm_unmap = xShmUnmap(delete: c_int);
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: a file of ours.
    unsafe {
        let system = inner(file);
        if let Some(function) = (*(*system).pMethods).xShmBarrier {
            function(system);
        }
    }
}

/// Functions of the file system that are the system's alone.
macro_rules! forward_vfs {
    ($($ours:ident = $theirs:ident ( $($argument:ident : $type:ty),* );)*) => { $(
        unsafe extern "C" fn $ours(vfs: *mut ffi::sqlite3_vfs $(, $argument: $type)*) -> c_int {
            // SAFETY: our table; the other arguments are passed as they came.
            unsafe {
                let system = run_of(vfs).system;
                system!(system, $theirs(system $(, $argument)*))
            }
        }
    )* };
}

forward_vfs! {
    access = xAccess(path: *const c_char, flags: c_int, out: *mut c_int);
    full_pathname = xFullPathname(path: *const c_char, size: c_int, out: *mut c_char);
    randomness = xRandomness(count: c_int, out: *mut c_char);
    sleep = xSleep(microseconds: c_int);
    current_time = xCurrentTime(out: *mut f64);
    get_last_error = xGetLastError(count: c_int, out: *mut c_char);
    current_time_int64 = xCurrentTimeInt64(out: *mut i64);
}

/// Version 2: without memory maps, whose changes no file system sees.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
