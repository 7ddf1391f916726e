//! Which operation fails, and how.

/// What an engine does to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Sets the length.
    Resize,
    /// Waits until what was written is on the disk.
    Sync,
    /// Removes the file.
    Remove,
    /// Opens the file, and makes it where there is none.
    Open,
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// Every kind.
    pub const ALL: Self = Self::of(&[
        Kind::Read,
        Kind::Write,
        Kind::Resize,
        Kind::Sync,
        Kind::Remove,
        Kind::Open,
    ]);
    /// Every kind but reads.
    pub const CHANGES: Self = Self::of(&[
        Kind::Write,
        Kind::Resize,
        Kind::Sync,
        Kind::Remove,
        Kind::Open,
    ]);

    /// These kinds.
    #[must_use]
    pub const fn of(kinds: &[Kind]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// Whether a kind is one of these.
    #[must_use]
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

/// A fault that waits for its moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The operation that fails, counted from 1 over the kinds below.
    pub at: u64,
    /// The kinds that are counted, and that fail.
    pub kinds: Kinds,
    /// Whether all later operations of these kinds fail as well.
    pub lasting: bool,
    /// Whether a write fails for want of room, with half of it written,
    /// instead of as an error of the device.
    pub full: bool,
}

impl Fault {
    /// One operation fails and the next one succeeds.
    #[must_use]
    pub const fn once(at: u64) -> Self {
        Self {
            at,
            kinds: Kinds::CHANGES,
            lasting: false,
            full: false,
        }
    }

    /// From an operation on, nothing can be changed.
    #[must_use]
    pub const fn lasting(at: u64) -> Self {
        Self {
            lasting: true,
            ..Self::once(at)
        }
    }

    /// From a write on, the disk is full.
    #[must_use]
    pub const fn full(at: u64) -> Self {
        Self {
            at,
            kinds: Kinds::of(&[Kind::Write]),
            lasting: true,
            full: true,
        }
    }

    /// The same fault over other kinds.
    #[must_use]
    pub const fn over(self, kinds: Kinds) -> Self {
        Self { kinds, ..self }
    }
}
