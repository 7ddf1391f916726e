//! What a measure tells: one line for each figure.

use serde_json::{Value, json};
use std::fmt;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Things in a second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Something else, which the line names.
    Plain,
}

impl Unit {
    /// A figure, in a width that people read.
    pub fn show(self, figure: f64) -> String {
        let (base, names): (f64, &[&str]) = match self {
            Self::Time => (1e3, &["ns", "us", "ms", "s"]),
            Self::PerSecond => (1e3, &["/s", "k/s", "M/s"]),
            Self::Bytes => (1024.0, &["B", "KiB", "MiB", "GiB"]),
            Self::Plain => (1e3, &[""]),
        };
        let (mut figure, mut names) = (figure, names.iter());
        let mut name = names.next();
        for larger in names {
            if figure < base {
                break;
            }
            figure /= base;
            name = Some(larger);
        }
        let digits = if figure < 10.0 {
            2
        } else {
            usize::from(figure < 100.0)
        };
        let shown = format!("{figure:.digits$} {}", name.unwrap_or(&""));
        shown.trim_end().to_owned()
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::PerSecond => "1/s",
            Self::Bytes => "B",
            Self::Plain => "",
        }
    }
}

/// What is good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// So much or less.
    AtMost(f64),
    /// So much or more.
    AtLeast(f64),
}

impl Limit {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtMost(most) => figure <= most,
            Self::AtLeast(least) => figure >= least,
        }
    }

    fn show(self, unit: Unit) -> String {
        match self {
            Self::AtMost(most) => format!("<= {}", unit.show(most)),
            Self::AtLeast(least) => format!(">= {}", unit.show(least)),
        }
    }
}

/// What is to be reached, and by which figure of the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// By the ratio.
    Ratio(Limit),
    /// By the value itself: machines differ, so only a ratio says much.
    Value(Limit),
}

/// A figure beside its floor.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// What the store took or did.
    pub value: f64,
    /// What the floor is.
    pub floor: &'static str,
    /// What the floor took or did.
    pub least: f64,
}

/// One figure of a measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The measure and what of it, such as `append.p50`.
    pub measure: String,
    /// The store.
    pub store: &'static str,
    /// What the figures count.
    pub unit: Unit,
    /// Whether more is better: rates rather than times.
    pub more_is_better: bool,
    /// The figures, or why there are none.
    pub figures: Result<Figures, String>,
    /// The goal, if there is one.
    pub goal: Option<Goal>,
    /// What else is to be said.
    pub note: Option<String>,
    /// Whether the ratio is the same whatever else the machine does. One that
    /// is not is told, and judged by nobody.
    pub is_steady: bool,
}

impl Line {
    /// A line; less is better for times and bytes, more for rates.
    pub fn new(
        measure: impl Into<String>,
        store: &'static str,
        unit: Unit,
        value: f64,
        floor: (&'static str, f64),
    ) -> Self {
        Self {
            measure: measure.into(),
            store,
            unit,
            more_is_better: unit == Unit::PerSecond,
            figures: Ok(Figures {
                value,
                floor: floor.0,
                least: floor.1,
            }),
            goal: None,
            note: None,
            is_steady: true,
        }
    }

    /// A line that says why there is no figure.
    pub fn not_measured(measure: impl Into<String>, store: &'static str, why: String) -> Self {
        Self {
            measure: measure.into(),
            store,
            unit: Unit::Plain,
            more_is_better: false,
            figures: Err(why),
            goal: None,
            note: None,
            is_steady: true,
        }
    }

    /// With a goal for the ratio: at most, or at least where more is better.
    #[must_use]
    pub fn ratio_goal(mut self, limit: f64) -> Self {
        self.goal = Some(Goal::Ratio(self.limit(limit)));
        self
    }

    /// With a goal for the value: at most, or at least where more is better.
    #[must_use]
    pub fn value_goal(mut self, limit: f64) -> Self {
        self.goal = Some(Goal::Value(self.limit(limit)));
        self
    }

    /// With a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Told alone: a sync or a disk that others use as well decides it.
    #[must_use]
    pub fn unsteady(mut self) -> Self {
        self.is_steady = false;
        self
    }

    /// More is better, although it is no rate.
    #[must_use]
    pub fn more_is_better(mut self) -> Self {
        self.more_is_better = true;
        self
    }

    fn limit(&self, limit: f64) -> Limit {
        if self.more_is_better {
            Limit::AtLeast(limit)
        } else {
            Limit::AtMost(limit)
        }
    }

    /// The value as a multiple of the floor.
    pub fn ratio(&self) -> Option<f64> {
        let figures = self.figures.as_ref().ok()?;
        Some(figures.value / figures.least)
    }

    /// Whether the goal is met, where there is one and a figure.
    pub fn is_met(&self) -> Option<bool> {
        let figures = self.figures.as_ref().ok()?;
        Some(match self.goal? {
            Goal::Ratio(limit) => limit.holds(figures.value / figures.least),
            Goal::Value(limit) => limit.holds(figures.value),
        })
    }

    /// How the goal reads.
    pub fn goal_text(&self) -> String {
        match self.goal {
            None => String::new(),
            Some(Goal::Ratio(limit)) => format!("ratio {}", limit.show(Unit::Plain)),
            Some(Goal::Value(limit)) => limit.show(self.unit),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        }
    }

    /// The line for programs.
    pub fn to_json(&self) -> Value {
        let figures = self.figures.as_ref().ok();
        json!({
            "measure": self.measure,
            "store": self.store,
            "unit": self.unit.name(),
            "value": figures.map(|figures| figures.value),
            "floor": figures.map(|figures| figures.floor),
            "floor_value": figures.map(|figures| figures.least),
            "ratio": self.ratio(),
            "more_is_better": self.more_is_better,
            "goal": self.goal.map(|_| self.goal_text()),
            "met": self.is_met(),
            "note": self.note,
            "steady": self.is_steady,
            "not_measured": self.figures.as_ref().err(),
        })
    }
}

/// The head of the table.
pub const HEAD: &str = "measure                         store        value      floor      ratio  goal             met     floor is";

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<31} {:<7}", self.measure, self.store)?;
        match &self.figures {
            Ok(figures) => write!(
                f,
                " {:>10} {:>10} {:>10.2}  {:<16} {:<7} {}",
                self.unit.show(figures.value),
                self.unit.show(figures.least),
                figures.value / figures.least,
                self.goal_text(),
                self.verdict(),
                figures.floor,
            )?,
            Err(why) => write!(f, " not measured: {why}")?,
        }
        if let Some(note) = &self.note {
            write!(f, "\n{:<31} {note}", "")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_in_the_unit_that_fits() {
        assert_eq!(Unit::Time.show(950.0), "950 ns");
        assert_eq!(Unit::Time.show(12_345.0), "12.3 us");
        assert_eq!(Unit::PerSecond.show(1_250_000.0), "1.25 M/s");
        assert_eq!(Unit::Bytes.show(3.0 * 1024.0 * 1024.0), "3.00 MiB");
        assert_eq!(Unit::Plain.show(123_456.0), "123456");
    }

    #[test]
    fn a_goal_is_judged_by_its_figure_and_in_its_direction() {
        let time = Line::new("tail", "sqlite", Unit::Time, 20_000.0, ("raw", 10_000.0));
        assert_eq!(time.ratio(), Some(2.0));
        assert_eq!(time.is_met(), None);
        assert_eq!(time.clone().ratio_goal(2.0).is_met(), Some(true));
        assert_eq!(time.value_goal(15_000.0).is_met(), Some(false));
        let rate = Line::new("walk", "sqlite", Unit::PerSecond, 9.0, ("raw", 10.0));
        assert_eq!(rate.clone().ratio_goal(0.9).is_met(), Some(true));
        assert_eq!(rate.ratio_goal(0.95).is_met(), Some(false));
        let none = Line::not_measured("stream", "sqlite", "no text".into());
        assert_eq!((none.ratio(), none.is_met()), (None, None));
        assert!(none.to_string().ends_with("not measured: no text"));
    }
}
