//! Decisions of a start, case by case, and over histories of crashes, copies and other writers.

use std::num::NonZeroU16;

use thermocline_engine::{
    Begin, Contents, DrainOptions, End, Fingerprint, Found, FoundFlash, FoundSet, Intent, Keep,
    Layout, Mark, Notice, ShardMap, Share, SideFile, SideFileError, Step, Superblock, Uuid,
};

const CACHE: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);
const NEW: Uuid = Uuid::from_u128(3);
const PAGE: u64 = 4096;
const BYTES: u64 = 64 * PAGE;

fn print(sample: u32, modified_ns: u64) -> Fingerprint {
    Fingerprint { size_bytes: BYTES, sample, mark: Mark::File { inode: 1, modified_ns } }
}

fn end(next_sequence: u64) -> End {
    End { next_sequence, backing: Some(print(5, 5)) }
}

/// Return a flash of epoch 3 with so many clean and dirty pages.
fn flash(clean: u64, dirty: u64, end: Option<End>) -> Contents {
    let first = Superblock::first(CACHE, Layout::new(64, 4096), BYTES);
    let superblock = Superblock { epoch: 3, end, ..first };
    Contents {
        superblock,
        held_pages: clean + dirty,
        dirty_pages: dirty,
        dirty_end_bytes: dirty * PAGE,
        damaged_blocks: 0,
    }
}

fn found(note: Option<SideFile>, contents: &Contents, backing: Option<Fingerprint>) -> Found {
    let flash = FoundFlash::Cache(*contents);
    Found { note, flash, backing_bytes: BYTES, backing, new_cache: NEW }
}

/// Return the decision of a start, in one word.
fn word(found: &Found, intent: Intent) -> &'static str {
    match found.plan(intent) {
        Ok(plan) if plan.steps.iter().any(|step| matches!(step, Step::SetUpFlash(_))) => "set up",
        Ok(plan) => match (plan.begin().map(|begin| begin.keep), plan.notice) {
            (None, _) => "alone",
            (Some(Keep::All), Some(Notice::NoteIsMissing)) => "without note",
            (Some(Keep::All), _) => "go on",
            (Some(Keep::Dirty), _) => "dirty only",
        },
        Err(SideFileError::Dirty { .. }) => "newer elsewhere",
        Err(SideFileError::OtherBacking { .. }) => "other backing",
        Err(SideFileError::OldFlash { .. }) => "old flash",
        Err(SideFileError::OldBacking { .. }) => "old backing",
        Err(SideFileError::ChangedBacking { .. }) => "changed",
        Err(SideFileError::ShrunkBacking { .. }) => "shrunk",
        Err(SideFileError::DirtyElsewhere { .. }) => "not this one",
        Err(SideFileError::ForeignFlash) => "foreign",
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_note_meets_every_flash() {
    let running = |cache, epoch| Some(SideFile::running(cache, epoch));
    let stopped = |has_dirty| Some(SideFile::running(CACHE, 3).ended(3, has_dirty, Some(end(9))));
    let earlier = |has_dirty| Some(SideFile::running(CACHE, 2).ended(2, has_dirty, Some(end(9))));
    let starting = earlier(true).map(|note| SideFile { begins: Some(3), ..note });
    let alone = running(CACHE, 3).map(SideFile::without_flash);
    let other_clean = Some(SideFile::running(OTHER, 3).ended(3, false, Some(end(9))));
    // Per flash: none, blank, empty, clean and dirty after a crash, clean and dirty after a stop, and
    // after another stop of the same epoch.
    #[rustfmt::skip]
    let table = [
        ("no note", None, ["alone", "set up", "go on", "other backing", "other backing", "without note", "without note", "without note"]),
        ("running", running(CACHE, 3), ["newer elsewhere", "newer elsewhere", "go on", "go on", "go on", "go on", "go on", "go on"]),
        ("running earlier", running(CACHE, 2), ["newer elsewhere", "newer elsewhere", "old backing", "old backing", "old backing", "old backing", "old backing", "old backing"]),
        ("running later", running(CACHE, 4), ["newer elsewhere", "newer elsewhere", "old flash", "old flash", "old flash", "old flash", "old flash", "old flash"]),
        ("stopped clean", stopped(false), ["alone", "set up", "go on", "old flash", "old flash", "go on", "go on", "old flash"]),
        ("stopped dirty", stopped(true), ["newer elsewhere", "newer elsewhere", "old flash", "old flash", "old flash", "go on", "go on", "old flash"]),
        ("stopped earlier", earlier(false), ["alone", "set up", "go on", "old backing", "old backing", "old backing", "old backing", "old backing"]),
        ("dirty earlier", earlier(true), ["newer elsewhere", "newer elsewhere", "old backing", "old backing", "old backing", "old backing", "old backing", "old backing"]),
        ("starting", starting, ["newer elsewhere", "newer elsewhere", "go on", "go on", "go on", "go on", "go on", "go on"]),
        ("starting long ago", starting.map(|note| SideFile { begins: Some(2), ..note }), ["newer elsewhere", "newer elsewhere", "old backing", "old backing", "old backing", "old backing", "old backing", "old backing"]),
        ("served alone", alone, ["alone", "set up", "go on", "old flash", "old flash", "old flash", "old flash", "old flash"]),
        ("another cache", other_clean, ["alone", "set up", "go on", "other backing", "other backing", "other backing", "other backing", "other backing"]),
        ("another dirty cache", running(OTHER, 3), ["newer elsewhere"; 8]),
    ];
    for (name, note, expected) in table {
        let cache = |contents: Contents| found(note, &contents, Some(print(5, 5)));
        let without = |flash| Found { flash, ..cache(flash_of_nothing()) };
        let flashes = [
            without(FoundFlash::None),
            without(FoundFlash::Blank),
            cache(flash(0, 0, None)),
            cache(flash(4, 0, None)),
            cache(flash(4, 2, None)),
            cache(flash(4, 0, Some(end(9)))),
            cache(flash(4, 2, Some(end(9)))),
            cache(flash(4, 2, Some(end(8)))),
        ];
        let decided = flashes.map(|found| word(&found, Intent::Serve));
        assert_eq!(decided, expected, "{name}");
        // A flash that was given up prevents no start, unless another flash has pages.
        for found in flashes {
            let FoundFlash::Cache(contents) = found.flash else { continue };
            let is_elsewhere =
                note.is_some_and(|note| note.has_dirty && note.cache != contents.superblock.cache);
            let expected = if is_elsewhere { "not this one" } else { "set up" };
            assert_eq!(word(&found, Intent::ForceInit), expected, "{name}");
        }
        let foreign = without(FoundFlash::Foreign);
        assert_eq!(word(&foreign, Intent::Serve), "foreign");
    }
}

fn flash_of_nothing() -> Contents {
    flash(0, 0, None)
}

#[test]
fn a_changed_backing_store_costs_the_clean_pages_and_refuses_the_dirty_ones() {
    let at =
        |inode, modified_ns| Fingerprint { mark: Mark::File { inode, modified_ns }, ..print(5, 5) };
    let device =
        Fingerprint { mark: Mark::Device { session: 1, written_sectors: 1 }, ..print(5, 5) };
    let drain = |despite_changes| {
        Intent::Drain(DrainOptions { despite_changes, ..DrainOptions::default() })
    };
    // The backing store now; clean pages, dirty ones, dirty ones that are drained.
    let table = [
        ("same", Some(print(5, 5)), ["go on", "go on", "go on"]),
        ("written to", Some(print(5, 6)), ["dirty only", "changed", "changed"]),
        ("other bytes", Some(print(6, 5)), ["dirty only", "changed", "changed"]),
        ("moved", Some(at(2, 5)), ["go on", "go on", "go on"]),
        ("copied", Some(at(2, 6)), ["dirty only", "dirty only", "dirty only"]),
        ("as a device", Some(device), ["go on", "go on", "go on"]),
        ("unreadable", None, ["dirty only", "go on", "go on"]),
    ];
    for (name, backing, expected) in table {
        let of = |dirty| {
            let note = SideFile::running(CACHE, 3).ended(3, dirty > 0, Some(end(9)));
            found(Some(note), &flash(4, dirty, Some(end(9))), backing)
        };
        let decided =
            [word(&of(0), Intent::Serve), word(&of(2), Intent::Serve), word(&of(2), drain(false))];
        assert_eq!(decided, expected, "{name}");
        assert_ne!(word(&of(2), drain(true)), "changed");
        // After a crash nothing is compared, as the note refuses any other use.
        let crashed = found(Some(SideFile::running(CACHE, 3)), &flash(4, 0, None), backing);
        assert_eq!(word(&crashed, Intent::Serve), "go on");
        assert_eq!(crashed.sample(), None);
    }
}

#[test]
fn a_longer_backing_store_keeps_dirty_pages_and_a_shorter_one_may_be_drained() {
    let drain = Intent::Drain(DrainOptions::default());
    for (ended, dirty) in [(true, 0), (true, 2), (false, 0), (false, 2)] {
        let end = ended.then(|| end(9));
        let note = SideFile::running(CACHE, 3);
        let note = if ended { note.ended(3, dirty > 0, end) } else { note };
        let with_bytes = |backing_bytes, backing| Found {
            backing_bytes,
            ..found(Some(note), &flash(4, dirty, end), backing)
        };
        // A file that grows has another time, and the sample is of what it was before.
        let grown = with_bytes(BYTES + PAGE, Some(print(5, 6)));
        let plan = grown.plan(Intent::Serve).expect("all fits");
        let begin = plan.begin().unwrap();
        assert_eq!((begin.keep, begin.backing_bytes), (Keep::Dirty, Some(BYTES + PAGE)));
        assert_eq!(word(&grown, drain), "dirty only");
        let fits = with_bytes(2 * PAGE, None);
        let expected = if dirty > 0 { "shrunk" } else { "dirty only" };
        assert_eq!(fits.sample(), None, "the blocks of the sample may not be there");
        assert_eq!(word(&fits, Intent::Serve), expected);
        assert_eq!(word(&fits, drain), "dirty only");
        assert_eq!(word(&with_bytes(PAGE, None), drain), expected);
    }
}

/// Return the notes that the start on two such regions writes, in order, and how the epoch begins.
/// Which region comes first makes no difference.
#[track_caller]
fn on_two(note: SideFile, regions: &[Contents; 2]) -> (Vec<SideFile>, Begin) {
    let map = ShardMap::new(NonZeroU16::MIN.saturating_add(1), 4096);
    let decided = |regions: [Contents; 2]| {
        let shares = Share::all(map).zip(regions);
        let regions: Vec<Contents> = shares
            .map(|(share, contents)| {
                let cache = share.identity(CACHE);
                let superblock = Superblock { share, cache, ..contents.superblock };
                Contents { superblock, ..contents }
            })
            .collect();
        let found = found(Some(note), &regions[0], Some(print(5, 5)));
        let plan = FoundSet { found, regions }.plan(Intent::Serve).expect("all fits");
        let notes = plan
            .steps
            .iter()
            .filter_map(|step| if let Step::WriteNote(note) = step { Some(*note) } else { None });
        (notes.collect::<Vec<_>>(), plan.begin().expect("an epoch begins"))
    };
    let one = decided(*regions);
    assert_eq!(one, decided([regions[1], regions[0]]));
    one
}

/// Return a region of that epoch.
fn region(epoch: u64, dirty: u64, end: Option<End>) -> Contents {
    let contents = flash(2, dirty, end);
    Contents { superblock: Superblock { epoch, ..contents.superblock }, ..contents }
}

#[test]
fn regions_of_two_epochs_begin_one_that_is_new_to_both() {
    // A crash while regions began epoch 4.
    let note = SideFile { begins: Some(4), ..SideFile::running(CACHE, 3) };
    let (notes, begin) = on_two(note, &[region(4, 1, None), region(3, 0, None)]);
    let [starting, running] = notes[..] else { panic!("{notes:?}") };
    assert_eq!(starting.epoch, 3, "the oldest that a region may be in");
    assert_eq!(begin.epoch, Some(5));
    assert_eq!((starting.begins, running.begins), (begin.epoch, None));
    assert_eq!(running.epoch, 5, "all are in it then");
    assert!(starting.has_dirty && running.has_dirty);
}

#[test]
fn what_one_region_has_the_note_says_of_all() {
    let stopped = SideFile::running(CACHE, 3).ended(3, true, Some(end(9)));
    let regions = [region(3, 0, Some(end(9))), region(3, 1, Some(end(9)))];
    let (notes, begin) = on_two(stopped, &regions);
    assert!(notes[0].has_dirty, "one region has dirty pages");
    assert_eq!(notes[0].end, Some(end(9)), "both ended like this");
    assert_eq!(begin.keep, Keep::All);

    let copied = SideFile::running(CACHE, 3).ended(3, false, Some(end(9)));
    let (_, begin) = on_two(copied, &[region(3, 0, Some(end(9))), region(3, 0, Some(end(9)))]);
    assert_eq!((begin.keep, begin.epoch), (Keep::All, Some(4)));
}
