//! Samples that are taken in turn.

use crate::Failure;
use std::time::{Duration, Instant};

/// How long one thing took, several times.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// Adds a sample.
    pub fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// Adds samples.
    pub fn extend(&mut self, took: impl IntoIterator<Item = Duration>) {
        self.0.extend(took);
    }

    /// The time, in nanoseconds, that so many percent of the samples do not
    /// exceed; not a number if there are none.
    pub fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        sorted
            .get(last * percent.min(100) / 100)
            .map_or(f64::NAN, nanos)
    }

    /// The median, in nanoseconds.
    pub fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The mean, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.iter().map(nanos).sum::<f64>() / count(self.0.len())
    }
}

fn nanos(duration: &Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

/// A number of things, to calculate with.
pub fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

/// So many things in a median time of so many nanoseconds, as things a second.
pub fn per_second(things: usize, nanos: f64) -> f64 {
    count(things) * 1e9 / nanos
}

/// Something that is done once each time, and says how long it took.
pub type Subject<'a> = &'a mut dyn FnMut() -> Result<Duration, Failure>;

/// Times several things in turn, so many times each.
///
/// # Errors
/// The first one of theirs.
pub fn in_turn<const N: usize>(
    rounds: usize,
    mut subjects: [Subject<'_>; N],
) -> Result<[Samples; N], Failure> {
    let mut samples = std::array::from_fn(|_| Samples::default());
    for _ in 0..rounds {
        for (subject, samples) in subjects.iter_mut().zip(&mut samples) {
            samples.push(subject()?);
        }
    }
    Ok(samples)
}

/// How long something takes, and what it answers.
///
/// # Errors
/// Those of the work.
pub fn timed<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<(T, Duration), Failure> {
    let started = Instant::now();
    let answer = work()?;
    Ok((answer, started.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_mean_are_those_of_the_samples() {
        let mut samples = Samples::default();
        samples.extend((1..=101).rev().map(Duration::from_micros));
        assert_eq!(samples.median(), 51_000.0);
        assert_eq!(samples.percentile(99), 100_000.0);
        assert_eq!(samples.percentile(0), 1_000.0);
        assert!((samples.mean() - 51_000.0).abs() < 1e-6);
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn things_are_timed_in_turn() -> Result<(), Failure> {
        let order = std::cell::RefCell::new(String::new());
        let did = |what| {
            order.borrow_mut().push(what);
            Ok(Duration::ZERO)
        };
        in_turn(2, [&mut || did('a'), &mut || did('b')])?;
        assert_eq!(*order.borrow(), "abab");
        Ok(())
    }
}
