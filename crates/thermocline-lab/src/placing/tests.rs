//! Placement by identifiers and by an oracle: worked examples, and who is better than whom.

use thermocline_core::hotness::registry;
use thermocline_device::ssd::{Isolation, Placement};
use thermocline_trace::CompiledTrace;

use super::*;

/// Return one plane of 256 blocks of 32 pages, a fifth of them spare.
fn config(handles: u32, isolation: Isolation) -> SsdConfig {
    let [channels, chips_per_channel, dies_per_chip, planes_per_die] = [1; 4];
    SsdConfig {
        channels,
        chips_per_channel,
        dies_per_chip,
        planes_per_die,
        blocks_per_plane: 256,
        pages_per_block: 32,
        over_provisioning: 0.2,
        gc_threshold: 0.0,
        gc_blocks: thermocline_device::ssd::GcBlocks::Separate,
        placement: Some(Placement { isolation, ..Placement::of(handles) }),
        ..SsdConfig::preset("ssdsim").unwrap()
    }
}

fn identifier(name: &str) -> Streams {
    let entry = registry::find(name).unwrap();
    Streams::Identifier(entry, entry.values(&[]).unwrap())
}

/// Generate writes, of which four of five go to a twentieth of the pages; each page is drawn as if at random.
fn skewed(pages: u32, count: u32) -> Vec<DriveWrite> {
    let draw = |turn: u32| {
        let mixed = u64::from(turn + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20
    };
    let page = |turn| {
        let (least, most) = if turn % 5 > 0 { (0, pages / 20) } else { (pages / 20, pages) };
        least + u32::try_from(draw(turn) % u64::from(most - least)).unwrap()
    };
    (0..count).map(page).map(PageId).map(DriveWrite::of).collect()
}

#[test]
fn an_oracle_cuts_lives_into_equal_classes() {
    let writes = [0, 1, 0, 2, 1, 0].map(PageId);
    let classes = |count| oracle_classes(&writes, 3, count).unwrap().to_vec();
    // They live for 2, 3 and 3 writes, and for good.
    assert_eq!(classes(1), [0; 6]);
    assert_eq!(classes(2), [1, 0, 0, 0, 0, 0]);
    assert_eq!(classes(3), [2, 1, 1, 0, 0, 0]);
    assert_eq!(oracle_classes(&[], 3, 4).unwrap().len(), 0);
}

#[test]
fn the_better_the_foresight_the_less_is_copied() {
    let config = config(4, Isolation::Persistent);
    let pages = u32::try_from(config.logical_pages()).unwrap();
    let writes = skewed(pages, 60_000);
    let run = |streams: Option<&Streams>| {
        let placed = place(&writes, 20_000, &config, streams, &Watch::default()).unwrap();
        assert_eq!(placed.placement.pages_written.iter().sum::<u64>(), 60_000);
        assert_eq!(placed.metrics.host_writes, 40_000, "the warm-up is not counted");
        (placed.metrics.write_amplification, placed.placement)
    };
    let (none, of_none) = run(None);
    let (wdac, of_wdac) = run(Some(&identifier("wdac")));
    let (oracle, of_oracle) = run(Some(&Streams::Oracle));
    assert!(1.0 < oracle && oracle < wdac && wdac < none, "{oracle}, {wdac}, {none}");
    assert_eq!((of_none.streams, of_none.identifier_bytes), ("none", 0));
    assert_eq!(of_none.pages_written, [60_000, 0, 0, 0]);
    // 8 bytes per page and 4 per write of the window, and the bounds of the classes.
    let expected = u64::from(pages) * 8 + 4096 * 4 + (128 + 3) * 4;
    assert_eq!((of_wdac.streams, of_wdac.identifier_bytes), ("wdac", expected));
    assert_eq!(of_oracle.streams, "oracle");
    let quarters = of_oracle.pages_written.iter().filter(|&&one| one.abs_diff(15_000) < 3000);
    assert_eq!(quarters.count(), 4, "{of_oracle:?}");
}

#[test]
fn one_handle_is_no_placement() {
    let (one, none) = (
        config(1, Isolation::Initial),
        SsdConfig { placement: None, ..config(1, Isolation::Initial) },
    );
    let pages = u32::try_from(one.logical_pages()).unwrap();
    let writes = skewed(pages, 20_000);
    let run = |config: &SsdConfig, streams: Option<&Streams>| {
        place(&writes, 0, config, streams, &Watch::default()).unwrap()
    };
    let expected = run(&none, None).metrics;
    assert!(expected.gc_copies > 0);
    for streams in [identifier("mbf"), identifier("two-level-lru"), Streams::Oracle] {
        assert_eq!(run(&one, Some(&streams)).metrics, expected);
        assert_eq!(run(&none, Some(&streams)).placement.streams, "none", "there is no handle");
    }
}

/// Count the pages written with each of four handles.
fn handles_of(writes: &[DriveWrite], streams: &Streams) -> Vec<u64> {
    let config = config(4, Isolation::Initial);
    let placed = place(writes, 0, &config, Some(streams), &Watch::default()).unwrap();
    placed.placement.pages_written
}

#[test]
fn clients_and_tiers_choose_by_their_numbers() {
    let write =
        |client, source| DriveWrite { client, source: Tier(source), ..DriveWrite::of(PageId(7)) };
    let writes = [write(0, 2), write(1, 0), write(1, 0), write(9, 1)];
    assert_eq!(
        handles_of(&writes, &Streams::Client),
        [1, 2, 0, 1],
        "the last handle takes the rest"
    );
    assert_eq!(handles_of(&writes, &Streams::Tier), [2, 1, 1, 0]);
    assert_eq!((Streams::Client.name(), Streams::Tier.name()), ("client", "tier"));
    let of_group = |group| DriveWrite { group, ..DriveWrite::of(PageId(7)) };
    let writes = [0, 3, 2, 9].map(of_group);
    assert_eq!(handles_of(&writes, &Streams::Class), [1, 1, 1, 1], "groups take turns");
    assert_eq!(handles_of(&writes, &Streams::Volume), [1, 1, 1, 1]);
}

#[test]
fn names_are_those_of_choosers() {
    for name in ["oracle", "client", "tier", "volume", "class"] {
        let Some(Chosen::Other(streams)) = Chosen::find(name).unwrap() else { panic!("{name}") };
        assert_eq!(streams.name(), name);
    }
    assert!(Chosen::find("none").unwrap().is_none());
    assert!(Chosen::find("mbf").unwrap().unwrap().identifier().is_some());
    let error = Chosen::find("file").unwrap_err();
    assert!(error.contains("file") && error.contains("`class`"), "{error}");
}

#[test]
fn a_flash_tier_writes_slots_and_says_where_its_pages_come_from() {
    let options = thermocline_trace::generate::Options {
        requests: 20_000,
        pages: 2000,
        write_share: 0.5,
        ..thermocline_trace::generate::Options::default()
    };
    let mut generator = thermocline_trace::generate::Generator::new(options).unwrap();
    let page_size = thermocline_trace::PageSize::DEFAULT;
    let trace = CompiledTrace::compile(&mut generator, page_size).unwrap();
    let writes = |name: &str| {
        let entry = thermocline_core::registry::find(name).unwrap();
        let values = Values::defaults(entry.parameters);
        tier_writes(&trace, entry, &values, &[100, 500], Tier::FLASH, &Watch::default()).unwrap()
    };
    for name in ["hat", "face-gsc", "hca", "foyer"] {
        let TierWrites { writes, slots } = writes(name);
        assert_eq!(slots, 564);
        assert!(!writes.is_empty() && writes.iter().all(|write| write.address.0 < slots), "{name}");
    }
    // FaCE with second chances copies within the flash, and to another slot.
    let face = writes("face-gsc").writes;
    assert!(face.iter().any(|write| write.source == Tier::FLASH));
    let entry = thermocline_core::registry::find("hat").unwrap();
    let values = Values::defaults(entry.parameters);
    let none = tier_writes(&trace, entry, &values, &[100, 500], Tier(2), &Watch::default());
    assert!(none.unwrap_err().to_string().contains("2 cache tiers"));
}
