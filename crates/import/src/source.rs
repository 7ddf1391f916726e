//! Where the bytes of a source come from.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Something that can be read from its start, more than once.
pub trait Source: Send + Sync {
    /// Its name for people: a path where it has one.
    fn path(&self) -> &Path;
    /// Its length in bytes, as far as known.
    ///
    /// # Errors
    /// What the system answers.
    fn len(&self) -> io::Result<u64>;
    /// Whether there is nothing in it.
    ///
    /// # Errors
    /// What the system answers.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Opens it at its start.
    ///
    /// # Errors
    /// What the system answers.
    fn open(&self) -> io::Result<Box<dyn BufRead + Send>>;
}

/// A file. What is appended to it while it is read is left for the next time.
#[derive(Debug, Clone)]
pub struct FileSource {
    path: PathBuf,
}

impl FileSource {
    /// The file at a path; it is opened when it is read.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl Source for FileSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> io::Result<u64> {
        Ok(std::fs::metadata(&self.path)?.len())
    }

    fn open(&self) -> io::Result<Box<dyn BufRead + Send>> {
        let file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        Ok(Box::new(BufReader::with_capacity(
            64 * 1024,
            file.take(length),
        )))
    }
}

/// Bytes under a name, which stands for the path of a file.
#[derive(Debug, Clone)]
pub struct BytesSource<B> {
    path: PathBuf,
    bytes: B,
}

impl<B: AsRef<[u8]> + Clone> BytesSource<B> {
    /// Bytes under a name.
    pub fn new(path: impl Into<PathBuf>, bytes: B) -> Self {
        Self {
            path: path.into(),
            bytes,
        }
    }
}

impl<B: AsRef<[u8]> + Clone + Send + Sync + 'static> Source for BytesSource<B> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.as_ref().len() as u64)
    }

    fn open(&self) -> io::Result<Box<dyn BufRead + Send>> {
        Ok(Box::new(BufReader::new(io::Cursor::new(
            self.bytes.clone(),
        ))))
    }
}
