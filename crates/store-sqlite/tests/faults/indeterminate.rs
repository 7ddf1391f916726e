//! A sync fails, the process dies, and somebody opens the store again.

use crate::oracle::{Held, held};
use crate::workload::{Done, Step, Workload, config};
use crate::{MOST_POINTS, block_on, is_whole, new_folder, point, seed};
use folio_core::SessionId;
use folio_fault::sqlite::Vfs;
use folio_fault::{Disk, Fault, Image, Kind, Kinds, Loss, Replay};
use folio_store::{ErrorKind, KnownEvent, Ledger, Store};
use folio_store_sqlite::{SqliteStore, open};
use folio_testkit::check::session_id;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What the child is to do: a folder, the sync that fails, how, and who else
/// holds the file.
const CHILD: &str = "FOLIO_FAULT_CHILD";

/// An order to a child.
#[derive(Debug, Clone)]
pub struct Order {
    folder: PathBuf,
    at: u64,
    lasting: bool,
    reader: bool,
}

impl Order {
    fn spawn(&self) -> Child {
        let Self {
            folder,
            at,
            lasting,
            reader,
        } = self;
        Command::new(std::env::current_exe().unwrap())
            .env(
                CHILD,
                format!("{at} {lasting} {reader} {}", folder.display()),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn fault(&self) -> Fault {
        Fault {
            lasting: self.lasting,
            ..Fault::once(self.at).over(Kinds::of(&[Kind::Sync]))
        }
    }
}

/// The order, if this process is a child.
pub fn order_of_child() -> Option<Order> {
    let order = std::env::var(CHILD).ok()?;
    let mut words = order.splitn(4, ' ');
    Some(Order {
        at: words.next()?.parse().unwrap(),
        lasting: words.next()?.parse().unwrap(),
        reader: words.next()?.parse().unwrap(),
        folder: words.next()?.into(),
    })
}

/// Works until a commit has no known outcome, tells of every step, and waits to
/// be killed.
pub fn child(order: &Order) -> ! {
    let all = Workload::new();
    let disk = Disk::of_folder(&order.folder).unwrap();
    let vfs = Vfs::register(&order.folder, disk.clone()).unwrap();
    let config = config(&order.folder, Some(vfs.name()));
    let store = open(&config).unwrap();
    let reader = order
        .reader
        .then(|| open(&config.clone().read_only()).unwrap());
    if let Some(reader) = &reader {
        block_on(held(reader));
    }
    disk.arm(order.fault());
    for step in &all.steps {
        match block_on(step.perform(&store)) {
            Ok(_) => println!("done"),
            Err(error) => {
                println!("{}", error.code());
                break;
            }
        }
    }
    println!("end");
    // Until the pipe breaks or a signal comes.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    std::process::exit(0)
}

/// Runs a child to its end; answers how many steps it did, and whether the next
/// one has no known outcome.
fn run_child(order: &Order) -> (usize, bool) {
    let mut child = order.spawn();
    let (mut done, mut unknown) = (0, false);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        match &*line.unwrap() {
            "done" => done += 1,
            "indeterminate" => unknown = true,
            "end" => break,
            other => panic!("the child said {other}"),
        }
    }
    // On Unix this is SIGKILL: nothing is tidied up.
    child.kill().unwrap();
    child.wait().unwrap();
    (done, unknown)
}

/// Killed after a failed sync: what is found is decided once.
pub fn killed() {
    const TEST: &str = "indeterminate/killed_after_a_failed_sync";
    let all = Workload::new();
    let (mut kills, mut unknowns, mut founds) = (0, 0, 0);
    for (who, reader, other) in [
        ("nobody", false, false),
        ("a reader of the process", true, false),
        ("another process", false, true),
    ] {
        for lasting in [false, true] {
            for at in 1..MOST_POINTS {
                let name = format!("sync={at} lasting={lasting} held by {who}");
                let ran = point(TEST, &name, || {
                    let folder = new_folder();
                    drop(open(&config(folder.path(), None)).unwrap());
                    let order = Order {
                        folder: folder.path().to_owned(),
                        at,
                        lasting,
                        reader,
                    };
                    // This process is the other one.
                    let holder = other.then(|| open(&config(folder.path(), None)).unwrap());
                    if let Some(holder) = &holder {
                        block_on(held(holder));
                    }
                    let (done, unknown) = run_child(&order);
                    let found = decide(&all, folder.path(), done, unknown);
                    assert!(lasting || !found, "the fence was raised at once");
                    drop(holder);
                    (done, unknown, found)
                });
                let Some((done, unknown, found)) = ran else {
                    continue;
                };
                kills += 1;
                unknowns += u64::from(unknown);
                founds += u64::from(found);
                if done == all.steps.len() {
                    break;
                }
            }
        }
    }
    println!("{TEST}: {kills} kills, {unknowns} indeterminate commits, {founds} of them found");
    assert!((unknowns > 0 && founds > 0) || !is_whole());
}

/// Opens a store whose process died, and sees that it decides once. Answers
/// whether the step without a known outcome was found.
fn decide(all: &Workload, folder: &Path, done: usize, unknown: bool) -> bool {
    let other = session_id("z");
    block_on(async {
        let store = reopen(folder);
        let found = all.is_right(&held(&store).await, done);
        assert!(unknown || !found, "what was not begun is there");
        Step::Create(other.clone()).perform(&store).await.unwrap();
        let answer = look_up(&store, all.steps.get(done)).await;
        drop(store);
        for _ in 0..2 {
            let store = reopen(folder);
            assert_eq!(look_up(&store, all.steps.get(done)).await, answer);
            let now = held(&store).await.without(&other);
            assert_eq!(all.is_right(&now, done), found);
        }
        let store = reopen(folder);
        let first = if found { Done::Before } else { Done::Now };
        all.go_on(&store, done, first).await;
        assert_eq!(held(&store).await.without(&other), *all.end());
        found
    })
}

fn reopen(folder: &Path) -> SqliteStore {
    open(&config(folder, None)).unwrap()
}

/// What the store knows of the events of a step.
async fn look_up(store: &dyn Store, step: Option<&Step>) -> Vec<Option<KnownEvent>> {
    match step {
        Some(step @ Step::Append(id, _)) => store.lookup_ids(id, &step.ids()).await.unwrap(),
        _ => Vec::new(),
    }
}

/// A sync fails and takes for good what it was to keep; the process dies with
/// the bytes still in the system's memory, where the next one finds them. What
/// that one acknowledges must not stand on them.
pub fn cut() {
    const TEST: &str = "indeterminate/power_cut_after_a_failed_sync_and_a_restart";
    let all = Workload::new();
    let template = new_folder();
    drop(open(&config(template.path(), None)).unwrap());
    let (mut restarts, mut images) = (0_u64, 0_u64);
    for at in 1..MOST_POINTS {
        let ran = point(TEST, &format!("sync={at}"), || {
            restart_and_cut(&all, template.path(), at)
        });
        match ran {
            Some(None) => break,
            Some(Some(count)) => {
                restarts += 1;
                images += count;
            }
            None => {}
        }
    }
    println!(
        "{TEST}: {restarts} restarts, {images} images, seed {}",
        seed()
    );
    assert!((restarts > 0 && images > 0) || !is_whole());
}

/// Answers the images that were checked, or `None` if every step was done.
fn restart_and_cut(all: &Workload, template: &Path, at: u64) -> Option<u64> {
    let folder = new_folder();
    for entry in std::fs::read_dir(template).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let disk = Disk::of_folder(folder.path()).unwrap();
    let vfs = Vfs::register(folder.path(), disk.clone()).unwrap();
    let config = config(folder.path(), Some(vfs.name()));
    let store = open(&config).unwrap();
    disk.arm(Fault::lasting(at).over(Kinds::of(&[Kind::Sync])));
    let failed = all.steps.iter().position(|step| {
        block_on(step.perform(&store)).is_err_and(|error| {
            assert_eq!(error.kind(), ErrorKind::Indeterminate);
            true
        })
    });
    // The last act of a process is a checkpoint, which fails like all syncs: the
    // files are those of a process that was killed.
    drop(store);
    disk.disarm();
    let done = failed?;

    let store = open(&config).unwrap();
    let found = all.is_right(&block_on(held(&store)), done);
    let other = session_id("z");
    block_on(Step::Create(other.clone()).perform(&store)).unwrap();
    disk.acknowledge(0);
    let answer = block_on(look_up(&store, all.steps.get(done)));
    let end = (done + 3).min(all.steps.len());
    for (step, number) in all.steps[..end].iter().zip(1_u64..).skip(done) {
        disk.begin(number);
        block_on(step.perform(&store)).unwrap();
        disk.acknowledge(number);
    }
    let record = disk.record();
    drop(store);

    let place = new_folder();
    let mut images = 0;
    let mut replay = Replay::new(&record);
    while replay.advance().is_some() {
        // Until the restarted store acknowledged something.
        let Some(acknowledged) = replay.acknowledged() else {
            continue;
        };
        let seed = seed() ^ ((replay.position() as u64) << 20);
        for loss in [Loss::Everything, Loss::Some(seed)] {
            let (now, looked_up) =
                open_image(&replay.image(loss), place.path(), all.steps.get(done));
            images += 1;
            if acknowledged == 0 && replay.begun().is_none() {
                assert_eq!(looked_up, answer, "an answer changed");
                assert_eq!(all.is_right(&now.without(&other), done), found);
            } else {
                let least = usize::try_from(acknowledged)
                    .unwrap()
                    .max(done + usize::from(found));
                all.is_right(&now.without(&other), least);
            }
        }
    }
    Some(images)
}

fn open_image(
    image: &Image,
    folder: &Path,
    step: Option<&Step>,
) -> (Held, Vec<Option<KnownEvent>>) {
    image.write_to(folder).unwrap();
    let store = reopen(folder);
    let z: SessionId = session_id("z");
    block_on(async {
        store.session(&z).await.unwrap();
        (held(&store).await, look_up(&store, step).await)
    })
}
