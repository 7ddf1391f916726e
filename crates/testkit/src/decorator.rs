//! Stores around another store: to watch it, or to answer in its place.
//!
//! [`Decorator`] has a method for each of the port's, which asks the store
//! within; a decorator overrides what it changes. The macro below is the one
//! place that names them all.

use async_trait::async_trait;
use folio_core::{EventId, SessionId};
use folio_store::engine::Capabilities;
use folio_store::rows::RunRow;
use folio_store::{
    Admin, AppendBatch, AuthorityChange, BlobId, BlobInfo, BlobUpload, Blobs, Committed,
    ContributionQuery, ContributionStatus, Contributions, IndexStatus, ItemIndex, ItemPage,
    ItemQuery, KnownEvent, Lease, LeaseInfo, Leases, Ledger, NewSession, RangeQuery, Redaction,
    Room, Scrub, SessionFilter, SessionInfo, Store, StoreError, StoredEvent, StoredFact,
    VerifyReport, ViewBatch, ViewQuery, Views,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A store that asks another one, by way of a [`Decorator`].
pub struct Decorated<D> {
    inner: Arc<dyn Store>,
    by: D,
}

impl<D> std::fmt::Debug for Decorated<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decorated").finish_non_exhaustive()
    }
}

impl<D: Decorator> Decorated<D> {
    /// Puts a decorator around a store.
    pub fn by(by: D, inner: Arc<dyn Store>) -> Self {
        Self { inner, by }
    }
}

// `$d` is the dollar sign of the macro that this one makes.
macro_rules! decorated {
    ($d:tt $($port:ident {
        $(fn $plain:ident() -> $answer:ty;)*
        $(async fn $method:ident($($name:ident: $type:ty),*) -> $out:ty;)*
    })*) => {
        /// What is put around a store. Every method asks `inner` until it is
        /// overridden.
        #[async_trait]
        pub trait Decorator: Send + Sync + 'static {
            /// Told of every call before it is made.
            fn called(&self, method: &'static str) {
                let _ = method;
            }
            $($(
                #[doc = concat!("Answers `", stringify!($plain), "`.")]
                fn $plain(&self, inner: &dyn Store) -> $answer {
                    inner.$plain()
                }
            )*)*
            $($(
                #[doc = concat!("Answers `", stringify!($method), "`.")]
                async fn $method(
                    &self,
                    inner: &dyn Store,
                    $($name: $type),*
                ) -> Result<$out, StoreError> {
                    inner.$method($($name),*).await
                }
            )*)*
        }
        $(
            #[async_trait]
            impl<D: Decorator> $port for Decorated<D> {
                $(fn $plain(&self) -> $answer {
                    self.by.called(stringify!($plain));
                    self.by.$plain(&*self.inner)
                })*
                $(async fn $method(&self, $($name: $type),*) -> Result<$out, StoreError> {
                    self.by.called(stringify!($method));
                    self.by.$method(&*self.inner, $($name),*).await
                })*
            }
        )*

        /// Makes a decorator that overrides one method, and keeps nothing:
        /// `instead!(Name: method(inner, the, arguments) { what it does })`.
        /// The types of the method must be in scope.
        macro_rules! instead {
            $($((
                $d by:ident:
                $method($d inner:ident $(, $d $name:ident)*) { $d ($d body:tt)* }
            ) => {
                #[derive(Default)]
                struct $d by;

                #[async_trait::async_trait]
                impl $crate::decorator::Decorator for $d by {
                    async fn $method(
                        &self,
                        $d inner: &dyn folio_store::Store,
                        $($d $name: $type),*
                    ) -> Result<$out, folio_store::StoreError> {
                        $d ($d body)*
                    }
                }
            };)*)*
        }
        pub(crate) use instead;
    };
}

decorated! { $
    Ledger {
        async fn create_session(session: NewSession) -> SessionInfo;
        async fn session(id: &SessionId) -> SessionInfo;
        async fn sessions(
            filter: SessionFilter,
            after: Option<SessionId>,
            limit: usize
        ) -> Vec<SessionInfo>;
        async fn set_authority(id: &SessionId, change: AuthorityChange) -> SessionInfo;
        async fn discard_session(id: &SessionId, expected_rev: u64) -> ();
        async fn append(id: &SessionId, batch: AppendBatch) -> Committed;
        async fn reserve(bytes: usize) -> Room;
        async fn append_reserved(room: Room, id: &SessionId, batch: AppendBatch) -> Committed;
        async fn flush() -> ();
        async fn lookup_ids(id: &SessionId, ids: &[EventId]) -> Vec<Option<KnownEvent>>;
        async fn range(id: &SessionId, query: RangeQuery) -> Vec<StoredEvent>;
        async fn events(id: &SessionId, ordinals: &[u64]) -> Vec<StoredEvent>;
        async fn runs(id: &SessionId, after: u32, limit: usize) -> Vec<RunRow>;
        async fn wait(id: &SessionId, after: u64) -> u64;
    }
    ItemIndex {
        async fn index_status(id: &SessionId) -> IndexStatus;
        async fn read_items(id: &SessionId, query: ItemQuery) -> ItemPage;
        async fn rebuild_index(id: &SessionId) -> IndexStatus;
    }
    Contributions {
        async fn contribution_status(id: &SessionId, source: &str) -> ContributionStatus;
        async fn contribution_sources(id: &SessionId) -> Vec<String>;
        async fn contributions(
            id: &SessionId,
            source: &str,
            query: ContributionQuery
        ) -> Vec<StoredFact>;
    }
    Blobs {
        async fn put_blob(content: Vec<u8>) -> BlobInfo;
        async fn begin_blob() -> BlobUpload;
        async fn extend_blob(upload: BlobUpload, content: Vec<u8>) -> ();
        async fn finish_blob(upload: BlobUpload) -> BlobInfo;
        async fn blob(id: &BlobId) -> BlobInfo;
        async fn read_blob(id: &BlobId, offset: u64, max_bytes: usize) -> Vec<u8>;
        async fn citations(id: &SessionId, from: u64, limit: usize) -> Vec<(u64, BlobId)>;
    }
    Leases {
        async fn acquire_lease(id: &SessionId, holder: &str) -> Lease;
        async fn release_lease(id: &SessionId, lease: Lease) -> ();
        async fn lease(id: &SessionId) -> Option<LeaseInfo>;
    }
    Views {
        async fn put_view(batch: ViewBatch) -> ();
        async fn view_value(view: &str, version: u32, key: &[u8]) -> Option<Vec<u8>>;
        async fn view_entries(query: ViewQuery) -> Vec<(Vec<u8>, Vec<u8>)>;
        async fn view_mark(view: &str, version: u32, session: &SessionId) -> u64;
        async fn drop_view(view: &str) -> ();
    }
    Admin {
        fn capabilities() -> Capabilities;
        async fn fork_session(parent: &SessionId, at: u64, child: SessionId) -> SessionInfo;
        async fn delete_session(id: &SessionId, expected_rev: Option<u64>) -> ();
        async fn redact(id: &SessionId, keys: &[String]) -> Redaction;
        async fn pending_erasures() -> u64;
        async fn scrub() -> Scrub;
        async fn verify(id: &SessionId) -> VerifyReport;
        async fn check() -> ();
        async fn close() -> ();
    }
}

/// What was asked of a store, and what it read to answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Calls by method.
    pub calls: BTreeMap<&'static str, u64>,
    /// Index rows read.
    pub items: u64,
    /// Events read.
    pub events: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Record {
    /// How often a method was called.
    pub fn calls_of(&self, method: &str) -> u64 {
        self.calls.get(method).copied().unwrap_or_default()
    }
}

/// Keeps a [`Record`].
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Record>);

impl Recorder {
    fn note(&self, work: impl FnOnce(&mut Record)) {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn read(&self, events: &[StoredEvent]) {
        self.note(|record| {
            record.events += events.len() as u64;
            record.bytes += events.iter().map(|e| e.body.len() as u64).sum::<u64>();
        });
    }
}

/// Counts the calls that a store gets and what its reads cost.
///
/// ```
/// use folio_store::{Ledger, SessionFilter};
/// use folio_testkit::decorator::Recording;
/// use std::sync::Arc;
///
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let store = Recording::new(Arc::new(folio_store_memory::open()?));
/// runtime.block_on(store.sessions(SessionFilter::All, None, 10))?;
/// assert_eq!(store.take().calls_of("sessions"), 1);
/// assert_eq!(store.take().calls_of("sessions"), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Recording = Decorated<Recorder>;

impl Recording {
    /// Watches a store.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self::by(Recorder::default(), inner)
    }

    /// What was recorded since the last time.
    pub fn take(&self) -> Record {
        std::mem::take(&mut self.by.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Decorator for Recorder {
    fn called(&self, method: &'static str) {
        self.note(|record| *record.calls.entry(method).or_default() += 1);
    }

    async fn range(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        query: RangeQuery,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let events = inner.range(id, query).await?;
        self.read(&events);
        Ok(events)
    }

    async fn events(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        ordinals: &[u64],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let events = inner.events(id, ordinals).await?;
        self.read(&events);
        Ok(events)
    }

    async fn read_items(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        query: ItemQuery,
    ) -> Result<ItemPage, StoreError> {
        let page = inner.read_items(id, query).await?;
        self.note(|record| {
            record.items += page.stats.items;
            record.events += page.stats.events;
            record.bytes += page.stats.bytes;
        });
        Ok(page)
    }
}
