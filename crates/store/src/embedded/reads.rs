//! The item index and the contribution logs.

use super::Embedded;
use crate::contrib;
use crate::engine::Engine;
use crate::page::{gather, readable};
use crate::plan::{session_and_log, session_line};
use crate::port::{
    ContributionQuery, ContributionStatus, Contributions, IndexStatus, ItemIndex, ItemPage,
    ItemQuery, StoredFact,
};
use crate::rebuild::rebuild;
use crate::{ItemScan, StoreError, care};
use async_trait::async_trait;
use folio_codec::EMPTY_CHAIN;
use folio_core::SessionId;

#[async_trait]
impl<E: Engine> ItemIndex for Embedded<E> {
    async fn index_status(&self, id: &SessionId) -> Result<IndexStatus, StoreError> {
        self.read(|snapshot| {
            let (_, line) = session_line(snapshot, id.as_str())?;
            care::index_status(&line)
        })
    }

    async fn read_items(&self, id: &SessionId, query: ItemQuery) -> Result<ItemPage, StoreError> {
        Ok(self.scan_items(id, query).await?.into_page())
    }

    async fn scan_items(&self, id: &SessionId, query: ItemQuery) -> Result<ItemScan, StoreError> {
        self.read(|snapshot| gather(snapshot, id.as_str(), &query))
    }

    async fn rebuild_index(&self, id: &SessionId) -> Result<IndexStatus, StoreError> {
        let id = id.clone();
        self.write(move |txn, engine| rebuild(txn, engine, id.as_str()))
            .await
    }
}

#[async_trait]
impl<E: Engine> Contributions for Embedded<E> {
    async fn contribution_status(
        &self,
        id: &SessionId,
        source: &str,
    ) -> Result<ContributionStatus, StoreError> {
        self.read(|snapshot| {
            let (_, log) = session_and_log(snapshot, id.as_str())?;
            let contrib = contrib::log(snapshot, &log, source)?;
            let (head, chain) = contrib.map_or((0, EMPTY_CHAIN), |log| (log.head, log.chain));
            Ok(ContributionStatus { head, chain })
        })
    }

    async fn contribution_sources(&self, id: &SessionId) -> Result<Vec<String>, StoreError> {
        self.read(|snapshot| {
            let (_, log) = session_and_log(snapshot, id.as_str())?;
            let logs = contrib::logs(snapshot, &log)?.into_iter();
            let mut sources: Vec<_> = logs.map(|log| log.source).collect();
            sources.sort_unstable();
            Ok(sources)
        })
    }

    async fn contributions(
        &self,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Result<Vec<StoredFact>, StoreError> {
        self.read(|snapshot| {
            let (_, line) = readable(snapshot, id.as_str())?;
            let Some(contrib) = contrib::log(snapshot, &line.log, source)? else {
                return Ok(Vec::new());
            };
            contrib::facts(snapshot, &contrib, &query)
        })
    }
}
