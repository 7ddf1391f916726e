//! Removals. None of the rows has to exist, and none of a neighbour goes.
//!
//! A table that only finds rows is cleared by what the rows say. Where a row is
//! damaged, a pass over the table finds its entries all the same.

use crate::error::Error;
use crate::rows::{Entry, open};
use crate::tables::{Bounds, GREATEST, LEAST, Led, Writing, clear, collect, get, led_by};
use folio_codec::hash64;
use folio_core::{Direction, Item};
use folio_store::engine::Erase;
use folio_store::rows::{SessionRow, SpanRow};
use redb::ReadableTable;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Removes what is named.
pub fn erase(tables: &mut Writing<'_>, what: &Erase) -> Result<(), Error> {
    match what {
        Erase::Session(row) => session(tables, row),
        Erase::Events {
            log_no,
            family,
            events,
        } => self::events(tables, *log_no, *family, events),
        Erase::Packs {
            log_no,
            family,
            packs,
            id_runs,
            ids,
        } => {
            for first in packs {
                tables.packs.remove((*log_no, *first))?;
            }
            for (stem, first) in id_runs {
                tables.id_runs.remove((*log_no, stem.as_str(), *first))?;
            }
            for (hash, ordinal) in ids {
                tables
                    .event_ids
                    .remove((*family, *hash, *log_no, *ordinal))?;
            }
            Ok(())
        }
        Erase::Commits(through) => Ok(tables
            .commits
            .retain_in::<u64, _>(..=*through, |_, _| false)?),
        Erase::Citations { log_no, ordinals } => ordinals
            .iter()
            .try_for_each(|ordinal| citations(tables, *log_no, *ordinal)),
        Erase::Runs { log_no, above } => runs(tables, *log_no, *above),
        Erase::Items { index_no, from } => items(tables, *index_no, *from),
        Erase::Index(index_no) => {
            clear(&mut tables.items, *index_no)?;
            clear(&mut tables.item_segs, *index_no)?;
            clear(&mut tables.item_keys, *index_no)
        }
        Erase::Contributions(row) => {
            let key = (row.log_no, row.source.as_str());
            tables.contrib_logs.remove(key)?;
            clear(&mut tables.contrib_facts, row.contrib_no)?;
            clear(&mut tables.contrib_items, row.contrib_no)?;
            clear(&mut tables.contrib_ids, row.contrib_no)
        }
        Erase::Log(log_no) => {
            tables.logs.remove(*log_no)?;
            let next = log_no.checked_add(1);
            let to = next.map_or(Unbounded, |next| Excluded((next, "", 0)));
            let ids = (Included((*log_no, "", 0)), to);
            tables
                .id_runs
                .retain_in::<(u64, &str, u64), _>(ids, |_, _| false)?;
            spans(tables, *log_no)?;
            clear(&mut tables.view_marks, *log_no)
        }
        Erase::ViewEntries { log_no } => {
            entries_of_log(tables, *log_no)?;
            clear(&mut tables.view_marks, *log_no)
        }
        Erase::View(row) => {
            let view_no = row.view_no;
            tables.views.remove(row.name.as_str())?;
            clear(&mut tables.view_rows, view_no)?;
            // Every row of the view goes, so a pass over those of all views is
            // of the same order.
            tables
                .view_rows_log
                .retain(|(_, view, _), _| view != view_no)?;
            Ok(tables.view_marks.retain(|(_, view), _| view != view_no)?)
        }
        Erase::Blob(row) => {
            tables.blobs.remove(&row.sha)?;
            clear(&mut tables.pieces, row.blob_no)
        }
        Erase::Stage(row) => {
            tables.stages.remove(row.blob_no)?;
            clear(&mut tables.pieces, row.blob_no)
        }
        Erase::StageRow(blob_no) => {
            tables.stages.remove(*blob_no)?;
            Ok(())
        }
        Erase::Scrub(seq) => {
            tables.scrub.remove(*seq)?;
            Ok(())
        }
    }
}

fn session(tables: &mut Writing<'_>, row: &SessionRow) -> Result<(), Error> {
    let id = row.session_id.as_str();
    let found: Option<SessionRow> = get(&tables.sessions, id)?;
    if found.is_some_and(|found| found.session_no == row.session_no) {
        tables.sessions.remove(id)?;
        tables.sessions_log.remove((row.log_no, id))?;
    }
    Ok(())
}

fn events(
    tables: &mut Writing<'_>,
    log_no: u64,
    family: u64,
    events: &[(u64, Option<u64>)],
) -> Result<(), Error> {
    let mut without_hash = BTreeSet::new();
    for (ordinal, hash) in events {
        tables.events.remove((log_no, *ordinal))?;
        citations(tables, log_no, *ordinal)?;
        match hash {
            Some(hash) => drop(tables.event_ids.remove((family, *hash, log_no, *ordinal))?),
            None => drop(without_hash.insert(*ordinal)),
        }
    }
    if without_hash.is_empty() {
        return Ok(());
    }
    // One pass for all of them.
    let of_family = led_by::<(u64, u64, u64, u64)>(family);
    Ok(tables
        .event_ids
        .retain_in::<(u64, u64, u64, u64), _>(of_family, |(_, _, log, ordinal), _| {
            log != log_no || !without_hash.contains(&ordinal)
        })?)
}

fn citations(tables: &mut Writing<'_>, log_no: u64, ordinal: u64) -> Result<(), Error> {
    let bounds = (
        Included((log_no, ordinal, &LEAST)),
        Included((log_no, ordinal, &GREATEST)),
    );
    let newer = Direction::Newer;
    let cited = collect(&tables.citations, bounds, newer, usize::MAX, |key, _| {
        Ok(*key.2)
    })?;
    for sha in cited {
        tables.citations.remove((log_no, ordinal, &sha))?;
        tables.cited.remove((&sha, log_no, ordinal))?;
    }
    Ok(())
}

fn runs(tables: &mut Writing<'_>, log_no: u64, above: u32) -> Result<(), Error> {
    let Some(first) = above.checked_add(1) else {
        return Ok(());
    };
    let bounds = (Included((log_no, first)), Included((log_no, u32::MAX)));
    tables
        .runs
        .retain_in::<(u64, u32), _>(bounds, |_, _| false)?;
    for ids in [
        &mut tables.runs_id,
        &mut tables.runs_inv,
        &mut tables.runs_turn,
    ] {
        let of_log = led_by::<(u64, &str, u32)>(log_no);
        ids.retain_in::<(u64, &str, u32), _>(of_log, |(_, _, run_no), _| run_no <= above)?;
    }
    Ok(())
}

/// The rows of an index from an ordinal on.
fn from_ordinal<'a, K: Led>(index_no: u64, first: K::SelfType<'a>) -> Bounds<K::SelfType<'a>> {
    let (_, end) = led_by::<K>(index_no);
    (Included(first), end)
}

fn items(tables: &mut Writing<'_>, index_no: u64, from: u64) -> Result<(), Error> {
    type Place = (u64, u64, u8);
    type Seg = (u64, u64, u8, u8, u32, u64);
    type ItemKey = (u64, u64, u64, u8);

    let bounds = || from_ordinal::<Place>(index_no, (index_no, from, 0));
    let newer = Direction::Newer;
    let found = collect(&tables.items, bounds(), newer, usize::MAX, |key, value| {
        let item = open::<Item>(&key, value).ok();
        let hash = item.map(|item| hash64(item.base().as_bytes()));
        Ok((key, hash))
    })?;
    let mut by_a_pass = false;
    for ((_, ordinal, slot), hash) in found {
        let key = hash.map(|hash| (index_no, hash, ordinal, slot));
        let gone = match key {
            Some(key) => tables.item_keys.remove(key)?.is_some(),
            None => false,
        };
        by_a_pass |= !gone;
    }
    if by_a_pass {
        let of_index = led_by::<ItemKey>(index_no);
        tables
            .item_keys
            .retain_in::<ItemKey, _>(of_index, |(_, _, ordinal, _), _| ordinal < from)?;
    }
    tables.items.retain_in::<Place, _>(bounds(), |_, _| false)?;
    let segs = from_ordinal::<Seg>(index_no, (index_no, from, 0, 0, 0, 0));
    Ok(tables.item_segs.retain_in::<Seg, _>(segs, |_, _| false)?)
}

fn spans(tables: &mut Writing<'_>, log_no: u64) -> Result<(), Error> {
    let bounds = led_by::<(u64, u64)>(log_no);
    let newer = Direction::Newer;
    let found = collect(&tables.spans, bounds, newer, usize::MAX, |key, value| {
        Ok(open::<SpanRow>(&key, value).ok())
    })?;
    let is_damaged = found.iter().any(Option::is_none);
    for span in found.into_iter().flatten() {
        tables.spans_src.remove((span.src, span.upto, log_no))?;
    }
    if is_damaged {
        tables.spans_src.retain(|(_, _, log), _| log != log_no)?;
    }
    clear(&mut tables.spans, log_no)
}

/// Removes what views made of a log. What another log has made of the same key
/// since stays.
fn entries_of_log(tables: &mut Writing<'_>, log_no: u64) -> Result<(), Error> {
    type Key = (u64, u64, &'static [u8]);
    let bounds = led_by::<Key>(log_no);
    let newer = Direction::Newer;
    let keys = collect(
        &tables.view_rows_log,
        bounds,
        newer,
        usize::MAX,
        |key, _| Ok((key.1, key.2.to_vec())),
    )?;
    for (view_no, key) in keys {
        let key = (view_no, key.as_slice());
        let found = tables.view_rows.get(key)?;
        let anothers = found.is_some_and(|value| {
            open::<Entry>(&key, value.value()).is_ok_and(|entry| entry.log_no != log_no)
        });
        if !anothers {
            tables.view_rows.remove(key)?;
        }
    }
    clear(&mut tables.view_rows_log, log_no)
}
