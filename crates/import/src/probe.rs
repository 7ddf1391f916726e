//! Where an import may be killed, so that tests can kill it there.

/// A place between two durable steps of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrashPoint {
    /// The session exists, hidden and empty.
    Prepared,
    /// A batch, by its number from 1, is translated and not yet appended.
    Translated(u64),
    /// A batch is appended.
    Committed,
    /// What was stored shows what the source says.
    Verified,
    /// The session is about to become readable.
    BeforeMark,
    /// The session is readable.
    AfterMark,
}

/// Is told of every [`CrashPoint`] that an import passes.
pub trait Probe: Send + Sync {
    /// The import is there now.
    fn reached(&self, point: CrashPoint);
}

/// A probe that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    fn reached(&self, _point: CrashPoint) {}
}
