//! The greatest numbers, and who is waited for.

use super::*;
use folio_core::Direction;

#[test]
fn the_greatest_numbers_have_room() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let mut all = everything(u64::MAX);
    all.events.push(event(4));
    all.events[3].0.ordinal = u64::MAX;
    all.items[1].item.position = at(u64::MAX, u8::MAX);
    write(&engine, &all).unwrap();
    read(&engine, |s| {
        assert_eq!(s.events(u64::MAX, 4, u64::MAX, 9, 900).unwrap().len(), 1);
        let newest = s
            .items(u64::MAX, at(u64::MAX, u8::MAX), Direction::Older, 1)
            .unwrap();
        assert_eq!(newest[0].position, at(u64::MAX, u8::MAX));
    });
    engine.check().unwrap();
    let mut gone = gone(u64::MAX);
    gone.erase.push(Erase::Events {
        log_no: u64::MAX,
        family: u64::MAX,
        events: vec![(u64::MAX, None)],
    });
    write(&engine, &gone).unwrap();
    engine.check().unwrap();
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
}

#[test]
fn a_read_that_is_under_way_is_waited_for() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let (began, has_begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            read(&engine, |s| {
                began.send(()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(300));
                s.counters().unwrap().session_no
            })
        });
        has_begun.recv().unwrap();
        engine.demand_fence();
        write(&engine, &everything(2)).unwrap();
        assert!(reader.is_finished(), "the file was taken from the reader");
        assert_eq!(reader.join().unwrap(), 1);
    });
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 2);
}
