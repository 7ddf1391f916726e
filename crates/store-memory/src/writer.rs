//! Writes: rows as they are told.

use crate::reader::{FIRST, LAST, Tables};
use folio_codec::hash64;
use folio_core::Position;
use folio_store::StoreError;
use folio_store::engine::{Erase, ViewWrites, WriteTxn, Writes};
use folio_store::rows::{ContribLogRow, FactRow, LogRow, RunRow, SessionRow};
use imbl::{OrdMap, OrdSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::RangeBounds;
use std::sync::Arc;

/// Removes a range of a map; answers what it held.
fn remove<K: Ord + Clone, V: Clone>(
    map: &mut OrdMap<K, V>,
    range: impl RangeBounds<K>,
) -> Vec<(K, V)> {
    let gone: Vec<_> = map
        .range(range)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for (key, _) in &gone {
        map.remove(key);
    }
    gone
}

/// Removes a range of a set; answers what it held.
fn remove_keys<K: Ord + Clone>(set: &mut OrdSet<K>, range: impl RangeBounds<K>) -> Vec<K> {
    let gone: Vec<_> = set.range(range).cloned().collect();
    for key in &gone {
        set.remove(key);
    }
    gone
}

impl WriteTxn for Tables {
    fn apply(&mut self, writes: &Writes) -> Result<(), StoreError> {
        for erase in &writes.erase {
            self.erase(erase);
        }
        if let Some(counters) = writes.counters {
            self.counters = counters;
        }
        for session in &writes.sessions {
            self.put_session(session);
        }
        if let Some(log) = &writes.log {
            self.put_rows_of_log(log, writes);
        }
        for (contrib, facts) in &writes.contributions {
            self.put_contributions(contrib, facts);
        }
        for (contrib_no, fact) in &writes.redacted_facts {
            self.facts
                .insert((*contrib_no, fact.seq), Arc::new(fact.clone()));
        }
        for blob in &writes.blobs {
            self.blobs.insert(blob.sha, *blob);
        }
        for stage in &writes.stages {
            self.stages.insert(stage.blob_no, *stage);
        }
        for (blob_no, piece, content) in &writes.pieces {
            self.pieces
                .insert((*blob_no, *piece), content.as_slice().into());
        }
        if let Some(view) = &writes.view {
            self.put_view(view);
        }
        if let Some(commit) = &writes.commit {
            self.commits.insert(commit.seq, Arc::new(commit.clone()));
        }
        for scrub in &writes.scrubs {
            self.scrubs.insert(scrub.seq, *scrub);
        }
        Ok(())
    }
}

impl Tables {
    fn put_session(&mut self, session: &SessionRow) {
        let id: Arc<str> = session.session_id.as_str().into();
        self.session_of_log.insert(session.log_no, Arc::clone(&id));
        self.sessions.insert(id, Arc::new(session.clone()));
    }

    fn put_rows_of_log(&mut self, log: &LogRow, writes: &Writes) {
        let (log_no, index_no) = (log.log_no, log.index_no);
        self.logs.insert(log_no, Arc::new(log.clone()));
        for span in &writes.spans {
            self.spans.insert((log_no, span.upto), *span);
            self.readers.insert((span.src, span.upto, log_no));
        }
        for run in &writes.runs {
            self.put_run(log_no, run);
        }
        for (event, hash) in &writes.events {
            self.ids.insert((log.family, *hash, log_no, event.ordinal));
            self.events
                .insert((log_no, event.ordinal), Arc::new(event.clone()));
        }
        for event in &writes.redacted {
            self.events
                .insert((log_no, event.ordinal), Arc::new(event.clone()));
        }
        for write in &writes.items {
            let item = &write.item;
            if write.is_new {
                let hash = hash64(item.base().as_bytes());
                self.item_hashes.insert((index_no, hash, item.position));
            }
            self.items
                .insert((index_no, item.position), Arc::new(item.clone()));
        }
        for seg in &writes.segs {
            self.segs
                .insert((index_no, seg.position, seg.lane, seg.seg), *seg);
        }
        for pack in &writes.packs {
            self.packs
                .insert((log_no, pack.first), Arc::new(pack.clone()));
        }
        for run in &writes.id_runs {
            let key = (log_no, run.stem.as_str().into(), run.first);
            self.id_runs.insert(key, run.clone());
        }
        for (hash, ordinal) in &writes.pack_ids {
            self.ids.insert((log.family, *hash, log_no, *ordinal));
        }
        for (ordinal, sha) in &writes.citations {
            self.cited.insert((*sha, log_no, *ordinal));
            self.citations.insert((log_no, *ordinal, *sha));
        }
    }

    fn put_run(&mut self, log_no: u64, run: &RunRow) {
        let spine = &run.spine;
        self.run_ids
            .insert((log_no, spine.run_id.as_str().into()), run.run_no);
        self.invocations
            .insert((log_no, spine.invocation_id.as_str().into()), run.run_no);
        self.turns
            .insert((log_no, spine.turn_id.as_str().into(), run.run_no));
        self.runs
            .insert((log_no, run.run_no), Arc::new(run.clone()));
    }

    fn put_contributions(&mut self, contrib: &ContribLogRow, facts: &[FactRow]) {
        let contrib_no = contrib.contrib_no;
        let key = (contrib.log_no, contrib.source.as_str().into());
        self.contribs.insert(key, contrib.clone());
        for fact in facts {
            let hash = hash64(fact.id.as_bytes());
            self.anchors.insert((contrib_no, fact.anchor, fact.seq));
            self.fact_ids.insert((contrib_no, hash, fact.seq));
            self.facts
                .insert((contrib_no, fact.seq), Arc::new(fact.clone()));
        }
    }

    fn put_view(&mut self, writes: &ViewWrites) {
        let view_no = writes.view.view_no;
        let name = writes.view.name.as_str().into();
        self.views.insert(name, writes.view.clone());
        self.marks.insert((writes.log_no, view_no), writes.mark);
        for (key, value) in &writes.entries {
            let key = (view_no, key.as_slice().into());
            match value {
                Some(value) => {
                    let entry = (writes.log_no, value.as_slice().into());
                    self.entries.insert(key, entry);
                }
                None => {
                    self.entries.remove(&key);
                }
            }
        }
    }

    fn erase(&mut self, erase: &Erase) {
        match erase {
            Erase::Session(row) => {
                self.sessions.remove(row.session_id.as_str());
                self.session_of_log.remove(&row.log_no);
            }
            Erase::Events {
                log_no,
                family,
                events,
            } => self.erase_events(*log_no, *family, events),
            Erase::Packs {
                log_no,
                family,
                packs,
                id_runs,
                ids,
            } => {
                for first in packs {
                    self.packs.remove(&(*log_no, *first));
                }
                for (stem, first) in id_runs {
                    self.id_runs
                        .remove(&(*log_no, stem.as_str().into(), *first));
                }
                for (hash, ordinal) in ids {
                    self.ids.remove(&(*family, *hash, *log_no, *ordinal));
                }
            }
            Erase::Commits(through) => drop(remove(&mut self.commits, ..=*through)),
            Erase::Citations { log_no, ordinals } => {
                for ordinal in ordinals {
                    self.erase_citations(*log_no, *ordinal);
                }
            }
            Erase::Runs { log_no, above } => self.erase_runs(*log_no, *above),
            Erase::Items { index_no, from } => {
                let from = Position {
                    ordinal: *from,
                    slot: 0,
                };
                self.erase_items(*index_no, from);
            }
            Erase::Index(index_no) => self.erase_items(*index_no, FIRST),
            Erase::Contributions(row) => {
                let c = row.contrib_no;
                self.contribs
                    .remove(&(row.log_no, row.source.as_str().into()));
                remove(&mut self.facts, (c, 0)..=(c, u64::MAX));
                let all = (c, 0, 0)..=(c, u64::MAX, u64::MAX);
                remove_keys(&mut self.anchors, all.clone());
                remove_keys(&mut self.fact_ids, all);
            }
            Erase::Log(log_no) => {
                self.logs.remove(log_no);
                let next = log_no.checked_add(1);
                let to = next.map_or(Unbounded, |next| Excluded((next, "".into(), 0)));
                let ids = (Included((*log_no, "".into(), 0)), to);
                remove(&mut self.id_runs, ids);
                let spans = remove(&mut self.spans, (*log_no, 0)..=(*log_no, u64::MAX));
                for (_, span) in spans {
                    self.readers.remove(&(span.src, span.upto, *log_no));
                }
                remove(&mut self.marks, (*log_no, 0)..=(*log_no, u64::MAX));
            }
            Erase::ViewEntries { log_no } => {
                let marks = remove(&mut self.marks, (*log_no, 0)..=(*log_no, u64::MAX));
                for ((_, view_no), _) in marks {
                    self.erase_entries(view_no, |of| of == *log_no);
                }
            }
            Erase::View(row) => {
                self.views.remove(row.name.as_str());
                self.erase_entries(row.view_no, |_| true);
                let marks: Vec<_> = self.marks.keys().copied().collect();
                for key in marks.into_iter().filter(|(_, view)| *view == row.view_no) {
                    self.marks.remove(&key);
                }
            }
            Erase::Blob(row) => {
                self.blobs.remove(&row.sha);
                self.erase_pieces(row.blob_no);
            }
            Erase::Stage(row) => {
                self.stages.remove(&row.blob_no);
                self.erase_pieces(row.blob_no);
            }
            Erase::StageRow(blob_no) => {
                self.stages.remove(blob_no);
            }
            Erase::Scrub(seq) => {
                self.scrubs.remove(seq);
            }
        }
    }

    fn erase_events(&mut self, log_no: u64, family: u64, events: &[(u64, Option<u64>)]) {
        for (ordinal, hash) in events {
            self.events.remove(&(log_no, *ordinal));
            match hash {
                Some(hash) => {
                    self.ids.remove(&(family, *hash, log_no, *ordinal));
                }
                None => {
                    let of_family = (family, 0, 0, 0)..=(family, u64::MAX, u64::MAX, u64::MAX);
                    let found = self
                        .ids
                        .range(of_family)
                        .find(|(_, _, log, at)| (log, at) == (&log_no, ordinal))
                        .copied();
                    if let Some(id) = found {
                        self.ids.remove(&id);
                    }
                }
            }
            self.erase_citations(log_no, *ordinal);
        }
    }

    fn erase_citations(&mut self, log_no: u64, ordinal: u64) {
        let cited = (log_no, ordinal, [0; 32])..=(log_no, ordinal, [u8::MAX; 32]);
        for (_, _, sha) in remove_keys(&mut self.citations, cited) {
            self.cited.remove(&(sha, log_no, ordinal));
        }
    }

    fn erase_runs(&mut self, log_no: u64, above: u32) {
        let Some(first) = above.checked_add(1) else {
            return;
        };
        for ((_, run_no), run) in remove(&mut self.runs, (log_no, first)..=(log_no, u32::MAX)) {
            let spine = &run.spine;
            self.run_ids.remove(&(log_no, spine.run_id.as_str().into()));
            self.invocations
                .remove(&(log_no, spine.invocation_id.as_str().into()));
            self.turns
                .remove(&(log_no, spine.turn_id.as_str().into(), run_no));
        }
    }

    fn erase_items(&mut self, index_no: u64, from: Position) {
        let range = (index_no, from)..=(index_no, LAST);
        for ((_, position), item) in remove(&mut self.items, range) {
            let hash = hash64(item.base().as_bytes());
            self.item_hashes.remove(&(index_no, hash, position));
        }
        let segs: Vec<_> = self
            .segs
            .range((index_no, from, (folio_core::item::Lane::Text, 0), 0)..)
            .map(|(key, _)| *key)
            .take_while(|(index, ..)| *index == index_no)
            .collect();
        for key in segs {
            self.segs.remove(&key);
        }
    }

    fn erase_entries(&mut self, view_no: u64, goes: impl Fn(u64) -> bool) {
        let all = (view_no, Arc::from(&[][..]))..(view_no + 1, Arc::from(&[][..]));
        let gone: Vec<_> = self
            .entries
            .range(all)
            .filter(|(_, (log_no, _))| goes(*log_no))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.entries.remove(&key);
        }
    }

    fn erase_pieces(&mut self, blob_no: u64) {
        remove(&mut self.pieces, (blob_no, 0)..=(blob_no, u32::MAX));
    }
}
