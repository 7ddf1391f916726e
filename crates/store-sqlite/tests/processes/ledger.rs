//! What writers said, against what the store holds.

use crate::child::{session, wait};
use folio_store::{Admin, Ledger, RangeQuery};
use folio_store_sqlite::{SqliteConfig, SqliteStore, open};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// What one writer process said.
#[derive(Debug, Default)]
pub struct Said {
    /// Session and number of events of every batch that was begun.
    begun: HashMap<String, (String, usize)>,
    /// The ordinals of every batch that was acknowledged.
    acknowledged: HashMap<String, Vec<u64>>,
    /// Codes of errors.
    pub errors: Vec<String>,
    /// The longest that an append took; not known of the killed.
    pub longest: Duration,
}

impl Said {
    pub fn add(&mut self, lines: &[String]) {
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match &words[..] {
                ["I", session, batch, count] => {
                    let begun = ((*session).to_owned(), count.parse().unwrap());
                    self.begun.insert((*batch).to_owned(), begun);
                }
                ["A", _, batch, ordinals @ ..] => {
                    let ordinals = ordinals.iter().map(|it| it.parse().unwrap()).collect();
                    self.acknowledged.insert((*batch).to_owned(), ordinals);
                }
                ["E", code] => self.errors.push((*code).to_owned()),
                ["T", micros] => {
                    let took = Duration::from_micros(micros.parse().unwrap());
                    self.longest = self.longest.max(took);
                }
                other => unreachable!("no writer says {other:?}"),
            }
        }
    }

    pub fn appends(&self) -> usize {
        self.acknowledged.len()
    }

    /// The number of writers with an acknowledged batch.
    pub fn writers(&self) -> usize {
        let mut names: Vec<_> = self
            .acknowledged
            .keys()
            .filter_map(|batch| batch.rsplit_once('-'))
            .map(|(writer, _)| writer)
            .collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }
}

/// Every acknowledged event is at its ordinal; whatever is stored was begun by
/// somebody; batches are whole and in one piece; ordinals have no gap and ids
/// no double; chains, index and database are sound.
pub fn compare(path: &Path, sessions: usize, said: &[Said]) {
    let store = open(&SqliteConfig::new(path).existing()).unwrap();
    let mut at: HashMap<(String, String), u64> = HashMap::new();
    for n in 0..sessions {
        let id = session(n);
        for (event, ordinal) in events(&store, n) {
            let known = at.insert((id.to_string(), event.clone()), ordinal);
            assert_eq!(known, None, "{event} is there twice");
        }
        let report = wait(store.verify(&id)).unwrap();
        assert_eq!(report.findings, [], "{id}");
    }
    wait(store.check()).unwrap();
    for said in said {
        for (batch, (session, count)) in &said.begun {
            let found: Vec<u64> = (0..*count)
                .filter_map(|i| at.remove(&(session.clone(), format!("{batch}_{i}"))))
                .collect();
            match said.acknowledged.get(batch) {
                Some(ordinals) => assert_eq!(found, *ordinals, "{batch} was acknowledged"),
                None => assert!(
                    found.is_empty() || found.len() == *count,
                    "{batch}: {found:?}"
                ),
            }
            let in_one_piece = found.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            assert!(in_one_piece, "{batch}: {found:?}");
        }
    }
    assert!(at.is_empty(), "nobody wrote {at:?}");
}

/// Ids and ordinals of a session.
fn events(store: &SqliteStore, n: usize) -> Vec<(String, u64)> {
    let mut out = Vec::new();
    loop {
        let query = RangeQuery {
            from: out.len() as u64 + 1,
            to: u64::MAX,
            max_count: 1_000,
            max_bytes: 8 << 20,
        };
        let page = wait(store.range(&session(n), query)).unwrap();
        if page.is_empty() {
            let head = wait(store.session(&session(n))).unwrap().head;
            assert_eq!(out.len() as u64, head);
            return out;
        }
        for event in page {
            let ordinal = out.len() as u64 + 1;
            assert_eq!(event.ordinal, ordinal);
            out.push((event.view().unwrap().id.to_owned(), ordinal));
        }
    }
}
