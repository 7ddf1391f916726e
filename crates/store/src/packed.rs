//! The rows of a page as a read leaves them: in few allocations, whatever the
//! number of rows.

use crate::member::Members;
use crate::port::{LoadedItem, StoredEvent};
use crate::rows::{EventRef, RunRow};
use crate::scan::FoundItem;
use folio_codec::{FORM_STORED, FORM_WITHHELD, decode_event};
use folio_core::item::{LanePart, Need, Position};
use folio_core::reduce::Material;
use folio_core::{EventView, ItemRef, Spine};
use std::ops::Range;
use std::sync::Arc;

/// The most items for which room is made before they are read.
const MOST: usize = 1_026;

/// Items as they are read, in few allocations.
#[derive(Debug, Default)]
pub(crate) struct Items {
    /// Keys and times, one behind the other.
    text: String,
    need: Vec<Need>,
    /// Each with the ends of its key, its time and its needs.
    pub(crate) rows: Vec<(ItemRef<'static>, [usize; 3])>,
}

impl Items {
    /// Room for items of the usual size.
    pub(crate) fn with_capacity(items: usize) -> Self {
        let items = items.min(MOST);
        Self {
            text: String::with_capacity(items * 64),
            need: Vec::with_capacity(items * 2),
            rows: Vec::with_capacity(items),
        }
    }

    pub(crate) fn push(&mut self, item: ItemRef<'_>) {
        self.text.push_str(item.key);
        let key = self.text.len();
        self.text.push_str(item.ts);
        self.need.extend_from_slice(item.need);
        let ends = [key, self.text.len(), self.need.len()];
        self.rows.push((item.kept("", "", &[]), ends));
    }

    pub(crate) fn get(&self, at: usize) -> Option<ItemRef<'_>> {
        let (item, [key, ts, need]) = self.rows.get(at)?;
        let before = at.checked_sub(1).and_then(|at| self.rows.get(at));
        let [_, text, needed] = before.map_or([0; 3], |(_, ends)| *ends);
        Some(item.kept(
            self.text.get(text..*key)?,
            self.text.get(*key..*ts)?,
            self.need.get(needed..*need)?,
        ))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ItemRef<'_>> {
        (0..self.rows.len()).filter_map(|at| self.get(at))
    }

    pub(crate) fn position(&self, at: usize) -> Option<Position> {
        self.rows.get(at).map(|(item, _)| item.position)
    }
}

/// An item of the page and where the rest of it is.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// Its number among the items.
    pub(crate) at: usize,
    pub(crate) run_no: u32,
    /// Where in the ordinals those of its events stand.
    pub(crate) own: Range<usize>,
    /// The ordinals of the chunks of its open lanes.
    pub(crate) lanes: Vec<(LanePart, Vec<u64>)>,
}

impl Chosen {
    pub(crate) fn last_chunk(&self) -> Option<u64> {
        let last = |(_, chunks): &(LanePart, Vec<u64>)| chunks.last().copied();
        self.lanes.iter().filter_map(last).max()
    }
}

/// Events as they are read, ascending, their bodies in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) bodies: Vec<u8>,
    pub(crate) events: Vec<Pooled>,
}

#[derive(Debug)]
pub(crate) struct Pooled {
    pub(crate) ordinal: u64,
    pub(crate) run_no: u32,
    run_seq: u64,
    committed_at: u64,
    form: u8,
    body: Range<usize>,
}

impl Pool {
    pub(crate) fn push(&mut self, event: EventRef<'_>) {
        let from = self.bodies.len();
        self.bodies.extend_from_slice(event.body);
        self.events.push(Pooled {
            ordinal: event.ordinal,
            run_no: event.run_no,
            run_seq: event.run_seq,
            committed_at: event.committed_at,
            form: event.form,
            body: from..self.bodies.len(),
        });
    }

    pub(crate) fn body(&self, event: &Pooled) -> &[u8] {
        self.bodies.get(event.body.clone()).unwrap_or_default()
    }

    /// An event, if members of it are kept outside.
    pub(crate) fn with_members(&self, ordinal: u64) -> Option<EventView<'_>> {
        let may_have = |event: &&Pooled| matches!(event.form, FORM_STORED | FORM_WITHHELD);
        let event = self.find(ordinal).filter(may_have)?;
        let view = decode_event(event.form, self.body(event)).ok()?;
        (!view.stored.is_empty()).then_some(view)
    }

    pub(crate) fn find(&self, ordinal: u64) -> Option<&Pooled> {
        let at = self.events.binary_search_by_key(&ordinal, |e| e.ordinal);
        self.events.get(at.ok()?)
    }
}

/// The few runs of a page, by number.
#[derive(Debug, Default)]
pub(crate) struct Runs(pub(crate) Vec<RunRow>);

impl Runs {
    pub(crate) fn find(&self, run_no: u32) -> Option<&RunRow> {
        let at = self.0.binary_search_by_key(&run_no, |run| run.run_no);
        self.0.get(at.ok()?)
    }
}

/// The rows that a page is made of.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) items: Items,
    pub(crate) chosen: Vec<Chosen>,
    /// Of the events of the items, one item after another.
    pub(crate) ordinals: Vec<u64>,
    pub(crate) pool: Pool,
    pub(crate) members: Members,
    pub(crate) runs: Runs,
}

impl Packed {
    /// The chosen items, each with its run.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Chosen, ItemRef<'_>, &RunRow)> {
        self.chosen.iter().filter_map(|chosen| {
            let item = self.items.get(chosen.at)?;
            Some((chosen, item, self.runs.find(chosen.run_no)?))
        })
    }

    pub(crate) fn own(&self, chosen: &Chosen) -> &[u64] {
        self.ordinals.get(chosen.own.clone()).unwrap_or_default()
    }

    /// Hands the items over.
    pub(crate) fn show(&self, through: u64, take: &mut impl FnMut(&FoundItem<'_>)) {
        // Both are used again for each item.
        let mut events: Vec<(u64, EventView<'_>)> = Vec::new();
        let mut damaged = Vec::new();
        for (chosen, item, run) in self.each() {
            events.clear();
            damaged.clear();
            let mut look = |ordinal: u64| {
                let view = self.view(ordinal);
                if view.is_none() {
                    damaged.push(ordinal);
                }
                view
            };
            for ordinal in self.own(chosen) {
                events.extend(look(*ordinal).map(|view| (*ordinal, view)));
            }
            let mut chunks: Vec<(LanePart, Vec<EventView<'_>>)> = Vec::new();
            for (lane, ordinals) in &chosen.lanes {
                let views = ordinals.iter().filter_map(|ordinal| look(*ordinal));
                chunks.push((*lane, views.collect()));
            }
            damaged.sort_unstable();
            let unread = self.members.unread(self.own(chosen));
            take(&FoundItem {
                revision: item.revision_at(through, chosen.last_chunk()),
                run,
                material: Material {
                    item,
                    through,
                    run: &run.facts,
                    events: &events,
                    chunks: &chunks,
                },
                damaged: &damaged,
                unread: &unread,
            });
        }
    }

    /// An event as readers see it.
    fn view(&self, ordinal: u64) -> Option<EventView<'_>> {
        let event = self.pool.find(ordinal)?;
        let view = decode_event(event.form, self.pool.body(event)).ok()?;
        Some(self.members.with(ordinal, view))
    }

    pub(crate) fn load(&self, through: u64) -> Vec<LoadedItem> {
        let share = |run: &RunRow| (Arc::new(run.clone()), Arc::new(run.spine.clone()));
        let shared: Vec<(Arc<RunRow>, Arc<Spine>)> = self.runs.0.iter().map(share).collect();
        let run = |run_no: u32| {
            let at = shared.binary_search_by_key(&run_no, |(run, _)| run.run_no);
            shared.get(at.ok()?)
        };
        let event = |ordinal: u64| {
            let found = self.pool.find(ordinal)?;
            Some(StoredEvent {
                ordinal,
                event_seq: found.run_seq,
                run_no: found.run_no,
                spine: Arc::clone(&run(found.run_no)?.1),
                committed_at: found.committed_at,
                chain: None,
                form: found.form,
                body: self.pool.body(found).to_vec(),
            })
        };
        let mut items = Vec::with_capacity(self.chosen.len());
        for (chosen, item, of) in self.each() {
            let mut damaged = Vec::new();
            let mut all = |ordinals: &[u64]| -> Vec<StoredEvent> {
                let found = ordinals.iter().filter_map(|ordinal| {
                    let event = event(*ordinal);
                    if event.is_none() {
                        damaged.push(*ordinal);
                    }
                    event
                });
                found.collect()
            };
            let events = all(self.own(chosen));
            let lanes = chosen.lanes.iter();
            let chunks = lanes.map(|(lane, chunks)| (*lane, all(chunks))).collect();
            let Some((run, _)) = run(of.run_no) else {
                continue;
            };
            let (members, unread) = self.members.among(self.own(chosen));
            items.push(LoadedItem {
                item: item.to_item(),
                revision: item.revision_at(through, chosen.last_chunk()),
                run: Arc::clone(run),
                events,
                chunks,
                damaged,
                members,
                unread,
            });
        }
        items
    }
}
