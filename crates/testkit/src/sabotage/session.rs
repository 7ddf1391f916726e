//! Wrong answers about sessions and the store as a whole.

use super::{Mutant, answers};
use crate::decorator::Decorator;
use async_trait::async_trait;
use folio_core::{Authority, SessionId};
use folio_store::engine::Capabilities;
use folio_store::{
    AuthorityChange, ErrorKind, NewSession, SessionFilter, SessionInfo, Store, StoreError,
    VerifyReport,
};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "lists_preparing_sessions",
        wrong: "sessions that cannot be read are listed",
        caught_by: "session/listing_hides_what_cannot_be_read",
        place: answers::<ListsEverything>,
    },
    Mutant {
        name: "listings_ignore_their_limit",
        wrong: "a listing has every session",
        caught_by: "session/listing_is_paged_and_bounded",
        place: answers::<ListsWithoutLimit>,
    },
    Mutant {
        name: "creates_what_exists",
        wrong: "creating a session that exists answers it",
        caught_by: "session/creating_twice_is_a_conflict",
        place: answers::<CreatesWhatExists>,
    },
    Mutant {
        name: "creates_rejected_sessions",
        wrong: "a session may begin as rejected",
        caught_by: "session/none_begins_rejected",
        place: answers::<CreatesRejected>,
    },
    Mutant {
        name: "a_new_session_has_an_event",
        wrong: "a session begins at ordinal 1",
        caught_by: "session/a_new_session_is_empty",
        place: answers::<BeginsAtOne>,
    },
    Mutant {
        name: "changes_authority_blindly",
        wrong: "a change of authority does not look at its revision",
        caught_by: "session/authority_is_compared_and_swapped",
        place: answers::<ChangesBlindly>,
    },
    Mutant {
        name: "takes_any_step_of_authority",
        wrong: "a step that does not exist is answered as done",
        caught_by: "session/only_known_steps_of_authority_exist",
        place: answers::<TakesAnyStep>,
    },
    Mutant {
        name: "discards_blindly",
        wrong: "a session is discarded whatever its revision",
        caught_by: "session/discarding_is_compared_and_refused_for_real_sessions",
        place: answers::<DiscardsBlindly>,
    },
    Mutant {
        name: "discards_another_session",
        wrong: "discarding a session discards its neighbours in preparation",
        caught_by: "session/discarding_touches_nothing_else",
        place: answers::<DiscardsNeighbours>,
    },
    Mutant {
        name: "stays_open",
        wrong: "a closed store goes on",
        caught_by: "close/a_closed_store_refuses_writes",
        place: answers::<StaysOpen>,
    },
    Mutant {
        name: "closes_once",
        wrong: "closing a closed store is an error",
        caught_by: "close/closing_twice_is_closing_once",
        place: answers::<ClosesOnce>,
    },
    Mutant {
        name: "denies_other_processes",
        wrong: "the store says that it cannot what its place says that it can",
        caught_by: "close/a_store_says_what_its_place_says",
        place: answers::<DeniesOthers>,
    },
    Mutant {
        name: "verifies_without_looking",
        wrong: "verify finds nothing, whatever there is",
        caught_by: "damage/verify_names_what_is_damaged",
        place: answers::<VerifiesBlindly>,
    },
    Mutant {
        name: "verify_cries_wolf",
        wrong: "verify counts what is not there",
        caught_by: "index/verify_finds_nothing_in_mixed_histories",
        place: answers::<MiscountsEvents>,
    },
];

type Session = Result<SessionInfo, StoreError>;

#[derive(Default)]
struct ListsEverything;

#[async_trait]
impl Decorator for ListsEverything {
    async fn sessions(
        &self,
        inner: &dyn Store,
        _: SessionFilter,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        inner.sessions(SessionFilter::All, after, limit).await
    }
}

#[derive(Default)]
struct ListsWithoutLimit;

#[async_trait]
impl Decorator for ListsWithoutLimit {
    async fn sessions(
        &self,
        inner: &dyn Store,
        filter: SessionFilter,
        after: Option<SessionId>,
        _: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        inner.sessions(filter, after, usize::MAX).await
    }
}

#[derive(Default)]
struct CreatesWhatExists;

#[async_trait]
impl Decorator for CreatesWhatExists {
    async fn create_session(&self, inner: &dyn Store, session: NewSession) -> Session {
        let id = session.id.clone();
        match inner.create_session(session).await {
            Err(error) if error.code() == "session_exists" => inner.session(&id).await,
            done => done,
        }
    }
}

#[derive(Default)]
struct CreatesRejected;

#[async_trait]
impl Decorator for CreatesRejected {
    async fn create_session(&self, inner: &dyn Store, mut session: NewSession) -> Session {
        if session.authority != Authority::Rejected {
            return inner.create_session(session).await;
        }
        session.authority = Authority::Preparing;
        let info = inner.create_session(session).await?;
        let change = AuthorityChange {
            expected_rev: info.authority_rev,
            to: Authority::Rejected,
            import_ref: None,
        };
        inner.set_authority(&info.id, change).await
    }
}

#[derive(Default)]
struct BeginsAtOne;

#[async_trait]
impl Decorator for BeginsAtOne {
    async fn session(&self, inner: &dyn Store, id: &SessionId) -> Session {
        let mut info = inner.session(id).await?;
        info.head = info.head.max(1);
        Ok(info)
    }
}

#[derive(Default)]
struct ChangesBlindly;

#[async_trait]
impl Decorator for ChangesBlindly {
    async fn set_authority(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        mut change: AuthorityChange,
    ) -> Session {
        loop {
            let done = inner.set_authority(id, change.clone()).await;
            if !done
                .as_ref()
                .is_err_and(|error| error.code() == "authority_changed")
            {
                return done;
            }
            // Somebody else was faster: what they did is as good as done, and
            // otherwise it is done over theirs.
            let info = inner.session(id).await?;
            if info.authority == change.to {
                return Ok(info);
            }
            change.expected_rev = info.authority_rev;
        }
    }
}

#[derive(Default)]
struct TakesAnyStep;

#[async_trait]
impl Decorator for TakesAnyStep {
    async fn set_authority(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        change: AuthorityChange,
    ) -> Session {
        match inner.set_authority(id, change).await {
            Err(error) if error.code() == "authority_transition" => inner.session(id).await,
            done => done,
        }
    }
}

#[derive(Default)]
struct DiscardsBlindly;

#[async_trait]
impl Decorator for DiscardsBlindly {
    async fn discard_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        _: u64,
    ) -> Result<(), StoreError> {
        let rev = inner.session(id).await?.authority_rev;
        inner.discard_session(id, rev).await
    }
}

#[derive(Default)]
struct DiscardsNeighbours;

#[async_trait]
impl Decorator for DiscardsNeighbours {
    async fn discard_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: u64,
    ) -> Result<(), StoreError> {
        inner.discard_session(id, expected_rev).await?;
        for other in inner.sessions(SessionFilter::All, None, 100).await? {
            if other.authority == Authority::Preparing {
                inner
                    .discard_session(&other.id, other.authority_rev)
                    .await?;
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct StaysOpen;

#[async_trait]
impl Decorator for StaysOpen {
    async fn close(&self, _: &dyn Store) -> Result<(), StoreError> {
        Ok(())
    }
}

#[derive(Default)]
struct ClosesOnce(AtomicBool);

#[async_trait]
impl Decorator for ClosesOnce {
    async fn close(&self, inner: &dyn Store) -> Result<(), StoreError> {
        if self.0.swap(true, Ordering::AcqRel) {
            let message = "the store is closed";
            return Err(StoreError::new(ErrorKind::Closed, "store_closed", message));
        }
        inner.close().await
    }
}

#[derive(Default)]
struct DeniesOthers;

impl Decorator for DeniesOthers {
    fn capabilities(&self, inner: &dyn Store) -> Capabilities {
        Capabilities {
            multi_process: false,
            ..inner.capabilities()
        }
    }
}

#[derive(Default)]
struct VerifiesBlindly;

#[async_trait]
impl Decorator for VerifiesBlindly {
    async fn verify(&self, inner: &dyn Store, id: &SessionId) -> Result<VerifyReport, StoreError> {
        let mut report = inner.verify(id).await?;
        report.findings.clear();
        Ok(report)
    }
}

#[derive(Default)]
struct MiscountsEvents;

#[async_trait]
impl Decorator for MiscountsEvents {
    async fn verify(&self, inner: &dyn Store, id: &SessionId) -> Result<VerifyReport, StoreError> {
        let mut report = inner.verify(id).await?;
        // Short sessions are in every group: what fails there tells nothing.
        if report.events > 40 {
            report.events += 1;
        }
        Ok(report)
    }
}
