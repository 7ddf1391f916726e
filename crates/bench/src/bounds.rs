//! How much worse a ratio may get: half as much again as was recorded.

use crate::Failure;
use crate::line::Line;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// How many times worse than recorded a ratio may be.
const SLACK: f64 = 1.5;
const HEAD: &str = "\
# What the quick run measured: measure, store, ratio to the floor. A ratio that
# is worse by more than half fails the run. Written by
# `cargo xtask bench --quick --record`. What a sync or a shared disk decides is
# not steady enough to be judged, and does not stand here.
";

/// The recorded ratios, by measure and store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bounds(BTreeMap<(String, String), f64>);

impl Bounds {
    /// Where they stand.
    pub fn path() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/bounds.txt"))
    }

    /// Reads them from their text.
    ///
    /// # Errors
    /// Naming the line that is none.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut bounds = BTreeMap::new();
        let lines = text.lines().map(str::trim).enumerate();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let bound = match *words {
                [measure, store, ratio] => ratio
                    .parse()
                    .ok()
                    .map(|ratio: f64| ((measure.to_owned(), store.to_owned()), ratio)),
                _ => None,
            };
            let wrong = || format!("bounds, line {}: not `measure store ratio`", number + 1);
            bounds.extend([bound.ok_or_else(wrong)?]);
        }
        Ok(Self(bounds))
    }

    /// Their text.
    pub fn to_text(&self) -> String {
        let mut text = HEAD.to_owned();
        for ((measure, store), ratio) in &self.0 {
            // Writing to a String cannot fail.
            let _unfailing = writeln!(text, "{measure} {store} {ratio:.3}");
        }
        text
    }

    /// Takes over what was measured and is steady; the others stay.
    pub fn record(&mut self, lines: &[Line]) {
        for line in lines.iter().filter(|line| line.is_steady) {
            if let Some(ratio) = line.ratio().filter(|ratio| ratio.is_finite()) {
                let key = (line.measure.clone(), line.store.to_owned());
                self.0.insert(key, ratio);
            }
        }
    }

    /// What is worse than it may be, in words.
    pub fn judge(&self, line: &Line) -> Option<String> {
        let ratio = line.ratio().filter(|_| line.is_steady)?;
        let key = (line.measure.clone(), line.store.to_owned());
        let recorded = *self.0.get(&key)?;
        let (limit, within) = if line.more_is_better {
            (recorded / SLACK, ratio >= recorded / SLACK)
        } else {
            (recorded * SLACK, ratio <= recorded * SLACK)
        };
        (!within).then(|| {
            format!(
                "{} {}: ratio {ratio:.2}, recorded {recorded:.2}, may be {limit:.2}",
                line.measure, line.store
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Unit;

    fn line(unit: Unit, value: f64) -> Line {
        Line::new("m", "sqlite", unit, value, ("raw", 1.0))
    }

    #[test]
    fn half_as_much_again_is_allowed_in_either_direction() {
        let bounds = Bounds::parse("# recorded\n\nm sqlite 2.0\n").expect("bounds");
        assert_eq!(bounds.judge(&line(Unit::Time, 3.0)), None);
        assert!(bounds.judge(&line(Unit::Time, 3.1)).is_some());
        assert!(bounds.judge(&line(Unit::Time, f64::NAN)).is_some());
        assert_eq!(bounds.judge(&line(Unit::PerSecond, 1.4)), None);
        assert!(bounds.judge(&line(Unit::PerSecond, 1.3)).is_some());
        assert_eq!(bounds.judge(&line(Unit::Time, 9.0).unsteady()), None);
        assert_eq!(Bounds::default().judge(&line(Unit::Time, 9.0)), None);
    }

    #[test]
    fn what_is_recorded_is_read_again() {
        let mut bounds = Bounds::parse("other redb 1.250\n").expect("bounds");
        bounds.record(&[line(Unit::Time, 1.5), line(Unit::Time, 9.0).unsteady()]);
        assert_eq!(Bounds::parse(&bounds.to_text()).expect("bounds"), bounds);
        assert!(
            bounds
                .to_text()
                .ends_with("m sqlite 1.500\nother redb 1.250\n")
        );
        assert!(Bounds::parse("m sqlite\n").is_err());
        assert!(Bounds::parse("m sqlite fast\n").is_err());
    }
}
