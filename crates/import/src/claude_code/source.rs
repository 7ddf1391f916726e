//! The record inside its first event, without what the events hold anyway.

use folio_core::Json;
use folio_core::json::{self, JsonKind, Object};
use std::collections::HashMap;

/// Values up to this length stay in the record: a hole would cost as much.
const KEPT: usize = 256;

/// Where an event holds a value of its record verbatim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// The value as it stands in the event, raw.
    pub raw: String,
    /// The number of the event among those of its record.
    pub k: u32,
    /// The member of the event, such as `content.text`.
    pub member: String,
}

/// The record with `null` for each long value that its events hold, and the
/// list of these places: `[JSON pointer, k, member]`.
pub(crate) fn with_holes(record: &Json, held: &[Held]) -> (Json, Option<Json>) {
    let mut known: HashMap<&str, &Held> = HashMap::new();
    for value in held.iter().filter(|value| value.raw.len() > KEPT) {
        known.entry(&value.raw).or_insert(value);
    }
    if known.is_empty() {
        return (record.clone(), None);
    }
    let mut walk = Walk {
        known,
        out: String::new(),
        holes: Vec::new(),
    };
    walk.value(record.as_str(), &mut String::new(), true);
    let holes = (!walk.holes.is_empty())
        .then(|| Json::from_checked(&format!("[{}]", walk.holes.join(","))).ok())
        .flatten();
    match (Json::from_checked(&walk.out), holes) {
        (Ok(source), Some(holes)) => (source, Some(holes)),
        _ => (record.clone(), None),
    }
}

struct Walk<'a> {
    known: HashMap<&'a str, &'a Held>,
    out: String,
    holes: Vec<String>,
}

impl Walk<'_> {
    /// Nesting is bounded by what the checker accepts.
    fn value(&mut self, raw: &str, path: &mut String, root: bool) {
        if raw.len() <= KEPT {
            self.out.push_str(raw);
            return;
        }
        if let Some(held) = self.known.get(raw).filter(|_| !root) {
            let mut hole = String::from("[");
            json::quote(path, &mut hole);
            hole.push_str(&format!(",{},", held.k));
            json::quote(&held.member, &mut hole);
            hole.push(']');
            self.holes.push(hole);
            self.out.push_str("null");
            return;
        }
        let length = path.len();
        match json::kind_of(raw) {
            JsonKind::Object => {
                self.out.push('{');
                let object = Object::of(raw).unwrap_or_default();
                for (i, (name, value)) in object.iter().enumerate() {
                    if i > 0 {
                        self.out.push(',');
                    }
                    json::quote(name, &mut self.out);
                    self.out.push(':');
                    path.push('/');
                    path.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    self.value(value, path, false);
                    path.truncate(length);
                }
                self.out.push('}');
            }
            JsonKind::Array => {
                self.out.push('[');
                for (i, value) in json::elements(raw).into_iter().enumerate() {
                    if i > 0 {
                        self.out.push(',');
                    }
                    path.push_str(&format!("/{i}"));
                    self.value(value, path, false);
                    path.truncate(length);
                }
                self.out.push(']');
            }
            _ => self.out.push_str(raw),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_become_holes_and_short_ones_stay() {
        let long = format!("\"{}\"", "x".repeat(300));
        let record = Json::parse(&format!(r#"{{"a/b":[1,{long}],"c":{long},"d":"x"}}"#)).unwrap();
        let held = [Held {
            raw: long,
            k: 2,
            member: "content.text".into(),
        }];
        let (source, holes) = with_holes(&record, &held);
        assert_eq!(source.as_str(), r#"{"a/b":[1,null],"c":null,"d":"x"}"#);
        assert_eq!(
            holes.unwrap().as_str(),
            r#"[["/a~1b/1",2,"content.text"],["/c",2,"content.text"]]"#
        );
        assert_eq!(with_holes(&record, &[]), (record.clone(), None));
    }
}
