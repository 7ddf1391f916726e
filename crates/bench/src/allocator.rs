//! An allocator that counts what one piece of work holds at most.
//!
//! It counts only while it is asked to: otherwise it costs the other measures
//! one load that never misses.
#![allow(
    unsafe_code,
    reason = "an allocator cannot be written without; this one passes on to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTS: AtomicBool = AtomicBool::new(false);
static HELD: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, counted. A binary makes it its global one.
#[derive(Debug)]
pub struct Counting;

fn grow(bytes: usize) {
    if COUNTS.load(Ordering::Relaxed) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(held, Ordering::Relaxed);
    }
}

fn shrink(bytes: usize) {
    if COUNTS.load(Ordering::Relaxed) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        HELD.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is the system allocator's own, with the caller's
// arguments; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may be there while one is copied to the other.
        grow(size);
        // SAFETY: the pointer came from the system's allocator.
        let moved = unsafe { System.realloc(ptr, layout, size) };
        shrink(layout.size());
        moved
    }
}

/// The most bytes that the process held at once in the course of some work,
/// beyond what it held before; `None` where this allocator is not in use.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, Option<u64>) {
    HELD.store(0, Ordering::Relaxed);
    PEAK.store(0, Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    let probe = std::hint::black_box(Box::new(0_u8));
    let in_use = PEAK.load(Ordering::Relaxed) > 0;
    drop(probe);
    let answer = work();
    COUNTS.store(false, Ordering::Relaxed);
    let peak = u64::try_from(PEAK.load(Ordering::Relaxed)).unwrap_or(0);
    (answer, in_use.then_some(peak))
}
