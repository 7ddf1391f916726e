//! The item index and the contribution logs.

use super::{Embedded, MAX_LISTED};
use crate::engine::{Engine, Snapshot};
use crate::page::{gather, readable};
use crate::plan::{session_and_log, session_line};
use crate::port::{
    ContributionQuery, ContributionStatus, Contributions, IndexStatus, ItemIndex, ItemPage,
    ItemQuery, StoredFact,
};
use crate::{ItemScan, StoreError, care};
use async_trait::async_trait;
use folio_codec::EMPTY_CHAIN;
use folio_core::{Direction, SessionId};

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
        self.write(move |txn, _| care::rebuild(txn, id.as_str()))
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
            let contrib = snapshot.contrib_log(log.log_no, source)?;
            let (head, chain) = contrib.map_or((0, EMPTY_CHAIN), |log| (log.head, log.chain));
            Ok(ContributionStatus { head, chain })
        })
    }

    async fn contribution_sources(&self, id: &SessionId) -> Result<Vec<String>, StoreError> {
        self.read(|snapshot| {
            let (_, log) = session_and_log(snapshot, id.as_str())?;
            let logs = snapshot.contrib_logs(log.log_no)?.into_iter();
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
            let Some(contrib) = snapshot.contrib_log(line.log.log_no, source)? else {
                return Ok(Vec::new());
            };
            facts(snapshot, contrib.contrib_no, &query)
        })
    }
}

/// Facts at a watermark, in the order of their anchors. Those above the
/// watermark are passed over, a bounded number at a time.
fn facts(
    snapshot: &dyn Snapshot,
    contrib_no: u64,
    query: &ContributionQuery,
) -> Result<Vec<StoredFact>, StoreError> {
    let limit = query.max_items.min(MAX_LISTED);
    let mut out = Vec::new();
    let mut after = query.after;
    while out.len() < limit {
        let direction: Direction = query.direction;
        let rows = snapshot.facts_by_anchor(contrib_no, after, direction, limit)?;
        let full = rows.len() == limit;
        after = rows.last().map(|row| (row.anchor, row.seq));
        let rows = rows.into_iter().filter(|row| row.seq <= query.through);
        out.extend(rows.map(|row| StoredFact {
            seq: row.seq,
            chain: row.chain,
            body: row.body,
            withheld: row.withheld,
        }));
        if !full {
            break;
        }
    }
    out.truncate(limit);
    Ok(out)
}
