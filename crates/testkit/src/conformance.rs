//! The registry of cases, and the harness that runs them as real tests.
//!
//! A case may need what not every adapter has ([`Need`]). Where an adapter
//! lacks it the case is not left out: it runs as the assertion that the
//! adapter says so by a typed error, and is listed and reported with the kind
//! `unsupported`.

use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::engine::{Capabilities, Erase, WriteTxn, Writes};
use folio_store::{BlobId, ErrorKind, NOTES, Store, StoreError};
use libtest_mimic::{Arguments, Failed, Trial};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

/// A place where stores can be opened, closed and opened again.
///
/// What a place cannot do is an error of kind [`ErrorKind::Unsupported`]; the
/// default answers are made of its capabilities.
#[async_trait]
pub trait StorePlace: Send + Sync {
    /// What the stores of this place can do: what they say themselves.
    fn capabilities(&self) -> Capabilities;

    /// Whether a case with this need can run here. A place that damages rows
    /// or fails commits says so here.
    fn has(&self, need: Need) -> bool {
        match need {
            Need::Durable => self.capabilities().durable,
            Need::MultiProcess => self.capabilities().multi_process,
            Need::Damage | Need::FailedCommit => false,
        }
    }

    /// Opens the store of this place, which is empty the first time.
    async fn open(&self) -> Result<Arc<dyn Store>, StoreError>;

    /// Opens the store anew when every handle was closed or dropped: everything
    /// that was acknowledged is there.
    async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError> {
        if self.has(Need::Durable) {
            self.open().await
        } else {
            Err(unsupported("this store is gone when it is closed"))
        }
    }

    /// Another handle on the open store, as another process would have it.
    ///
    /// Where one process at a time may write, the answer is either an error of
    /// kind `Unsupported`, because nothing outside the process could share the
    /// store, or `store_locked`, as the adapter answers another process. In
    /// both cases the open handle is none the worse for it.
    async fn second(&self) -> Result<Arc<dyn Store>, StoreError> {
        if self.has(Need::MultiProcess) {
            self.open().await
        } else {
            Err(unsupported("this store belongs to one process"))
        }
    }

    /// Damages a row below the store, while no handle is open.
    ///
    /// An adapter whose place cannot do this has tests of its own about damage.
    async fn damage(&self, damage: Damage<'_>) -> Result<(), StoreError> {
        let _ = damage;
        Err(unsupported("this place damages no rows"))
    }

    /// Makes the sync of the next commit fail, so that its outcome is unknown.
    ///
    /// An adapter whose place cannot do this has tests of its own about failed
    /// commits.
    async fn fail_next_commit(&self) -> Result<(), StoreError> {
        Err(unsupported("this place fails no commits"))
    }
}

fn unsupported(what: &str) -> StoreError {
    StoreError::new(ErrorKind::Unsupported, "unsupported", what)
}

/// What to damage below a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage<'a> {
    /// The bytes of an event change; its checksum does not.
    Event(&'a SessionId, u64),
    /// The bytes of the index row of the item that begins at an ordinal
    /// change; its checksum does not.
    Item(&'a SessionId, u64),
    /// The index row of the item that begins at an ordinal is gone.
    LostItem(&'a SessionId, u64),
    /// The index is one that another build made: [`let_index_age`].
    OldIndex(&'a SessionId),
    /// The session's notes are gone, and the log's row knows of them:
    /// [`lose_notes`].
    LostNotes(&'a SessionId),
    /// The bytes of a piece of a blob change; its checksum does not.
    Piece(&'a BlobId, u32),
}

/// Marks the index of a session as made by another build.
///
/// # Errors
/// `session_not_found`, and what the transaction answers.
pub fn let_index_age(txn: &mut dyn WriteTxn, id: &SessionId) -> Result<(), StoreError> {
    let missing = || StoreError::no_session(id.as_str());
    let session = txn.session(id.as_str())?.ok_or_else(missing)?;
    let mut log = txn.log(session.log_no)?.ok_or_else(missing)?;
    log.index_version = 0;
    txn.apply(&Writes {
        log: Some(log),
        ..Writes::default()
    })
}

/// Removes the notes of a session as if their rows were lost: nothing else
/// hears of it.
///
/// # Errors
/// `session_not_found`, and what the transaction answers.
pub fn lose_notes(txn: &mut dyn WriteTxn, id: &SessionId) -> Result<(), StoreError> {
    let missing = || StoreError::no_session(id.as_str());
    let session = txn.session(id.as_str())?.ok_or_else(missing)?;
    let notes = txn.contrib_log(session.log_no, NOTES)?;
    txn.apply(&Writes {
        erase: notes.map(Erase::Contributions).into_iter().collect(),
        ..Writes::default()
    })
}

/// What a case needs and not every place has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The store is there after it was closed.
    Durable,
    /// Several processes write one store.
    MultiProcess,
    /// The place can damage rows.
    Damage,
    /// The place can make a commit fail.
    FailedCommit,
}

impl Need {
    /// Asserts that a place which lacks this says so by a typed error, and
    /// goes on.
    async fn is_refused_by(self, place: &dyn StorePlace) -> Result<(), String> {
        let said = |what: &str, error: Option<StoreError>| match error {
            Some(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            Some(error) if self == Self::MultiProcess && error.code() == "store_locked" => Ok(()),
            Some(error) => Err(format!("{what}: {}, not `unsupported`", error.code())),
            None => Err(format!("{what}: it works, although the place denies it")),
        };
        let told = |error: StoreError| error.to_string();
        let store = place.open().await.map_err(told)?;
        let id = crate::check::create(&*store, "s1").await;
        match self {
            Self::Durable => {
                store.close().await.map_err(told)?;
                drop(store);
                return said("to reopen it", place.reopen().await.err());
            }
            Self::MultiProcess => said("a second handle", place.second().await.err())?,
            Self::Damage => {
                let damage = place.damage(Damage::Event(&id, 1)).await;
                said("to damage a row", damage.err())?;
            }
            Self::FailedCommit => {
                let failed = place.fail_next_commit().await;
                said("to fail a commit", failed.err())?;
            }
        }
        let event = crate::event::Events::new("s1").user("a", "1");
        crate::check::append(&*store, &id, vec![event]).await;
        Ok(())
    }
}

/// Makes fresh places, one for each case.
pub type Factory = fn() -> Box<dyn StorePlace>;

/// What a case gives its harness: nothing, or why it failed.
pub type Outcome = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A named case of the suite.
#[derive(Clone, Copy)]
pub struct Case {
    /// `group/what_holds`, such as `append/is_atomic_per_batch`.
    pub name: &'static str,
    /// What the place must have for it.
    pub needs: Option<Need>,
    /// The test.
    pub run: fn(Box<dyn StorePlace>) -> Outcome,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Case {
    /// The need of the case that a place lacks, if it does.
    pub fn lacks(&self, place: &dyn StorePlace) -> Option<Need> {
        self.needs.filter(|need| !place.has(*need))
    }

    /// Runs the case, or the assertion that the place refuses what it lacks.
    ///
    /// # Errors
    /// Why it failed; most cases panic instead.
    pub fn check(&self, place: Box<dyn StorePlace>) -> Result<(), String> {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|error| error.to_string())?
            .block_on(async {
                match self.lacks(&*place) {
                    Some(need) => need.is_refused_by(&*place).await,
                    None => (self.run)(place).await,
                }
            })
    }
}

/// Every case of the suite.
pub fn cases() -> Vec<Case> {
    crate::cases::all()
}

/// Runs the suite against an adapter, with the arguments of a test binary.
pub fn run(factory: Factory) -> ExitCode {
    let arguments = Arguments::from_args();
    let place = factory();
    let trials = cases()
        .into_iter()
        .map(|case| {
            let lacks = case.lacks(&*place);
            let trial = Trial::test(case.name, move || {
                case.check(factory()).map_err(Failed::from)
            });
            match lacks {
                Some(_) => trial.with_kind("unsupported"),
                None => trial,
            }
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Makes a [`Case`] of an async function that takes the place and may panic or
/// answer an error.
#[macro_export]
macro_rules! case {
    ($group:literal, $function:ident) => {
        $crate::conformance::Case {
            name: concat!($group, "/", stringify!($function)),
            needs: None,
            run: |place| Box::pin($function(place)),
        }
    };
}

/// Makes the cases of a group of async functions that take the place and say
/// by a panic that something does not hold. `function: Need` names what a case
/// needs.
#[macro_export]
macro_rules! cases {
    ($group:literal: $($function:ident $(: $need:ident)?),* $(,)?) => {
        &[$($crate::conformance::Case {
            name: concat!($group, "/", stringify!($function)),
            needs: $crate::cases!(@need $($need)?),
            run: |place| Box::pin(async move {
                $function(place).await;
                Ok(())
            }),
        }),*]
    };
    (@need) => { None };
    (@need $need:ident) => { Some($crate::conformance::Need::$need) };
}
