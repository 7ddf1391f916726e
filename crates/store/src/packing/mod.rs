//! Streamed chunks, packed below everything that reads and writes rows.
//!
//! [`Packing`] stands between the decisions and an engine. What is written
//! goes through [`Txn`]: a batch of nothing but chunks of open streams becomes
//! an entry of the commit journal, one row for all sessions of a commit; any
//! other write to a log first moves its entries into segments, in the same
//! transaction. What is read goes through [`View`], which puts every chunk back
//! into a row of its own. So nobody above knows that chunks are packed.
//!
//! A *stream* is the event that opened it. That one is an ordinary row; the
//! chunks that follow differ from it in id, time and text alone, and are kept
//! as that. A chunk is packed only if casting it gives its stored form back
//! byte for byte, and only if indexing it changes nothing but what [`View`]
//! puts back.

/// Implements [`Snapshot`](crate::engine::Snapshot) by the methods that are
/// given, and the others by another state.
macro_rules! delegate {
    (impl Snapshot for $type:ty { $self:ident => $inner:expr; $($own:tt)* }) => {
        impl Snapshot for $type {
            $($own)*
            delegate! { $self => $inner;
                counters() -> Counters;
                session(id: &str) -> Option<SessionRow>;
                sessions(after: Option<&str>, limit: usize) -> Vec<SessionRow>;
                session_of_log(log_no: u64) -> Option<SessionRow>;
                spans(log_no: u64) -> Vec<SpanRow>;
                spans_of(src: u64, limit: usize) -> Vec<SpanRow>;
                event_ids(family: u64, hash: u64) -> Vec<(u64, u64)>;
                journal() -> Option<(u64, u64)>;
                commits(after: u64) -> Vec<CommitRow>;
                packs(log_no: u64, from: u64, to: u64) -> Vec<FoundPack>;
                id_run(log_no: u64, stem: &str, n: u64) -> Option<IdRunRow>;
                run(log_no: u64, run_no: u32) -> Option<RunRow>;
                runs(log_no: u64, after: u32, limit: usize) -> Vec<RunRow>;
                run_by_id(log_no: u64, run_id: &str) -> Option<RunRow>;
                run_by_invocation(log_no: u64, id: &str) -> Option<RunRow>;
                last_run_of_turn(log_no: u64, turn_id: &str, before: u32) -> Option<RunRow>;
                contrib_log(log_no: u64, source: &str) -> Option<ContribLogRow>;
                contrib_logs(log_no: u64) -> Vec<ContribLogRow>;
                facts(contrib_no: u64, from: u64, limit: usize) -> Vec<FactRow>;
                facts_by_anchor(
                    contrib_no: u64,
                    after: Option<(u64, u64)>,
                    direction: Direction,
                    limit: usize,
                ) -> Vec<FactRow>;
                facts_by_id(contrib_no: u64, hash: u64) -> Vec<FactRow>;
                blob(sha: &Digest) -> Option<BlobRow>;
                blobs(after: Option<&Digest>, limit: usize) -> Vec<BlobRow>;
                stages(after: u64, limit: usize) -> Vec<StageRow>;
                piece(blob_no: u64, piece: u32) -> Option<Vec<u8>>;
                is_cited(sha: &Digest) -> bool;
                citations(log_no: u64, from: u64, limit: usize) -> Vec<(u64, Digest)>;
                view(name: &str) -> Option<ViewRow>;
                view_value(view_no: u64, key: &[u8]) -> Option<Vec<u8>>;
                view_entries(
                    view_no: u64,
                    from: &[u8],
                    to: Option<&[u8]>,
                    direction: Direction,
                    limit: usize,
                ) -> Vec<ViewEntry>;
                view_mark(view_no: u64, log_no: u64) -> u64;
                scrubs() -> Vec<ScrubRow>;
            }
        }
    };
    ($self:ident => $inner:expr;
     $($name:ident($($arg:ident: $of:ty),* $(,)?) -> $answer:ty;)*) => {
        $(fn $name(&$self, $($arg: $of),*) -> Result<$answer, StoreError> {
            $inner.$name($($arg),*)
        })*
    };
}

mod chunks;
mod journal;
mod txn;
mod view;

use crate::StoreError;
use crate::engine::{Capabilities, Engine, ReadWork, Snapshot, WriteWork};
use crate::rows::{EventRef, EventRow, FoundEvent};
use folio_codec::{FORM_LENDING, decode_lending};
use journal::Journal;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use txn::Txn;
use view::{Memo, View};

/// Openers of streams that are kept in memory.
const KEPT_OPENERS: usize = 1_024;

/// An engine whose chunks are packed.
#[derive(Debug)]
pub(crate) struct Packing<E> {
    engine: E,
    shared: Shared,
}

/// What all states of a store share.
#[derive(Debug, Default)]
struct Shared {
    journal: Journal,
    /// By log and ordinal. An opener never changes while anything is cast from
    /// it.
    openers: Mutex<HashMap<(u64, u64), Arc<EventRow>>>,
}

impl Shared {
    fn opener(&self, log_no: u64, ordinal: u64) -> Option<Arc<EventRow>> {
        let openers = self.openers.lock().unwrap_or_else(PoisonError::into_inner);
        openers.get(&(log_no, ordinal)).cloned()
    }

    fn keep_opener(&self, log_no: u64, row: EventRow) -> Arc<EventRow> {
        let mut openers = self.openers.lock().unwrap_or_else(PoisonError::into_inner);
        if openers.len() == KEPT_OPENERS {
            openers.clear();
        }
        let row = Arc::new(row);
        openers.insert((log_no, row.ordinal), Arc::clone(&row));
        row
    }

    fn forget_openers(&self) {
        let mut openers = self.openers.lock().unwrap_or_else(PoisonError::into_inner);
        openers.clear();
    }
}

impl<E> Packing<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self {
            engine,
            shared: Shared::default(),
        }
    }

    /// The engine below.
    pub(crate) fn engine(&self) -> &E {
        &self.engine
    }
}

impl<E: Engine> Engine for Packing<E> {
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError> {
        self.engine.read(&mut |inner| {
            work(&View {
                inner,
                shared: &self.shared,
                memo: &Memo::default(),
                pending: &[],
            })
        })
    }

    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError> {
        let mut done = None;
        let kept = self.engine.write(&mut |inner| {
            let mut txn = Txn::new(inner, &self.shared);
            work(&mut txn)?;
            done = Some(txn.finish()?);
            Ok(())
        });
        match (&kept, done) {
            (Ok(()), Some(done)) => done.publish(&self.shared),
            // What was read in the transaction may never have been.
            _ => self.shared.forget_openers(),
        }
        kept
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.engine.settle()
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn now(&self) -> u64 {
        self.engine.now()
    }

    fn random(&self) -> u64 {
        self.engine.random()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.engine.check()
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        self.engine.rewrite()
    }

    fn owner(&self) -> Result<u64, StoreError> {
        self.engine.owner()
    }

    fn is_alive(&self, owner: u64) -> Result<bool, StoreError> {
        self.engine.is_alive(owner)
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.engine.version()
    }

    fn close(&self) {
        self.engine.close();
    }
}

/// An event row as it was before it lent its text.
fn unlent(mut row: EventRow) -> Result<EventRow, StoreError> {
    if row.form == FORM_LENDING {
        let lending = decode_lending(&row.body)?;
        (row.form, row.body) = (lending.form, lending.body);
    }
    Ok(row)
}

/// The same of a borrowed one; a damaged one is passed over.
fn with_unlent(row: EventRef<'_>, visit: &mut dyn FnMut(EventRef<'_>)) {
    if row.form != FORM_LENDING {
        visit(row);
    } else if let Ok(lending) = decode_lending(row.body) {
        visit(EventRef {
            form: lending.form,
            body: &lending.body,
            ..row
        });
    }
}

/// The stored form of an event that lends its text; `None` where it is lost.
fn lent(inner: &dyn Snapshot, log_no: u64, ordinal: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let found = inner.events(log_no, ordinal, ordinal, 1, usize::MAX)?.pop();
    let Some(FoundEvent::Whole(row)) = found else {
        return Ok(None);
    };
    Ok(unlent(row).ok().map(|row| row.body))
}
