//! Placement handles: what they save, what isolation keeps apart, and what changes nothing.

use thermocline_device::ssd::{GcBlocks, Isolation, Mapping, Placement, Ssd, SsdConfig};

use super::{Random, assert_close, drive, tiny, uniform_writes, wide, write};

const ISOLATIONS: [Isolation; 2] = [Isolation::Initial, Isolation::Persistent];

fn with_handles(handles: u32, isolation: Isolation, base: SsdConfig) -> SsdConfig {
    SsdConfig { placement: Some(Placement { isolation, ..Placement::of(handles) }), ..base }
}

/// Forgets the first writes, then writes: pages with their handles.
fn amplification(one: &mut Ssd, warm: usize, writes: impl Iterator<Item = (u32, u64)>) -> f64 {
    for (index, (handle, page)) in writes.enumerate() {
        if index == warm {
            one.reset_metrics();
        }
        one.select_handle(handle).unwrap();
        one.apply(write(page)).unwrap();
    }
    one.assert_invariants();
    one.metrics().write_amplification
}

/// Two handles write over their own logs in turns of other lengths, two pages of one to one of the
/// other; each block is then invalid as a whole when it is collected.
#[test]
fn what_dies_together_costs_no_copy() {
    for isolation in ISOLATIONS {
        let mut one = drive(&with_handles(2, isolation, tiny()));
        let (small, large) = (64, 640);
        let writes = (0..60_000_u64).map(|index| match index % 3 {
            0 => (1, 64 + index / 3 % large),
            rest => (0, (index / 3 * 2 + rest - 1) % small),
        });
        let found = amplification(&mut one, 0, writes);
        assert_eq!(one.metrics().gc_copies, 0, "{isolation:?}");
        assert_close(found, 1.0, 0.0, "write amplification");
    }
    let mut one = drive(&tiny());
    let writes = (0..60_000_u64).map(|index| match index % 3 {
        0 => (0, 64 + index / 3 % 640),
        rest => (0, (index / 3 * 2 + rest - 1) % 64),
    });
    assert!(amplification(&mut one, 0, writes) > 1.02, "without placement they share blocks");
}

#[test]
fn one_handle_is_none() {
    for base in [tiny(), wide()] {
        for isolation in ISOLATIONS {
            let (mut without, mut with) =
                (drive(&base), drive(&with_handles(1, isolation, base.clone())));
            let pages = without.logical_pages();
            for request in uniform_writes(pages, 20_000, 7) {
                without.apply(request).unwrap();
                with.apply(request).unwrap();
            }
            assert_eq!(without.metrics(), with.metrics());
            for page in 0..pages {
                let found = with.flash_page_of(page).unwrap();
                assert_eq!(without.flash_page_of(page).unwrap(), found);
            }
        }
    }
}

/// Pages of a handle never share a block with those of another, whatever garbage collection does.
#[test]
fn persistent_isolation_keeps_blocks_apart() {
    let mixed = ISOLATIONS.map(|isolation| {
        let base = SsdConfig { static_wear_threshold: 2, over_provisioning: 0.4, ..tiny() };
        let mut one = drive(&with_handles(4, isolation, base));
        let pages = one.logical_pages();
        let mut random = Random(3);
        let hot = pages / 4;
        let written = (0..pages).chain((0..30_000).map(|_| hot + random.below(pages - hot)));
        let writes = written.map(|page| ((page % 4) as u32, page));
        assert!(amplification(&mut one, 0, writes) > 1.2, "garbage collection moves pages");
        assert!(one.metrics().wear_copies > 0, "wear levelling does, too");
        let mut handles = [0_u8; 64];
        for page in 0..pages {
            if let Some(place) = one.flash_page_of(page).unwrap() {
                handles[usize::try_from(place / 16).unwrap()] |= 1 << (page % 4);
            }
        }
        handles.iter().filter(|handles| handles.count_ones() > 1).count()
    });
    assert!(mixed[0] > 0, "initially isolated handles are mixed by garbage collection");
    assert_eq!(mixed[1], 0, "persistently isolated ones are not");
}

/// Half of the pages rest, and half are written uniformly. Kept apart, the resting half takes no part in
/// garbage collection: the other one is written as on a drive that lacks the blocks of the first.
#[test]
fn a_resting_half_that_is_apart_is_as_good_as_away() {
    let base = SsdConfig { blocks_per_plane: 512, gc_threshold: 0.0, ..tiny() };
    let half = drive(&base).logical_pages() / 2;
    let found = [None, Some(Isolation::Persistent)].map(|isolation| {
        let handled = |isolation| with_handles(2, isolation, base.clone());
        let mut one = drive(&isolation.map_or_else(|| base.clone(), handled));
        let mut random = Random(1);
        let filling = (0..2 * half).map(|index| (index % 2, index / 2 + index % 2 * half));
        let hot = (0..100_000).map(|_| (0, random.below(half)));
        let apart = u32::from(isolation.is_some());
        let writes = filling.chain(hot).map(|(which, page)| (u32::from(which > 0) * apart, page));
        amplification(&mut one, 60_000, writes)
    });
    let rest = SsdConfig { blocks_per_plane: 512 - 192, over_provisioning: 0.4, ..base };
    let mut alone = drive(&rest);
    assert_eq!((alone.logical_pages(), half), (half, 192 * 16), "the other half fills 192 blocks");
    let mut random = Random(1);
    let writes = (0..106_144).map(|_| (0, random.below(half)));
    assert_close(found[1], amplification(&mut alone, 60_000, writes), 0.02, "apart and alone");
    assert!(found[1] < 0.9 * found[0], "{found:?}");
}

/// A unit of several blocks is one large block but for its erases.
#[test]
fn a_reclaim_unit_is_erased_block_by_block() {
    let base = SsdConfig { blocks_per_plane: 256, pages_per_block: 8, ..tiny() };
    for isolation in ISOLATIONS {
        let unit = Placement { handles: 2, isolation, reclaim_unit_blocks: 4 };
        let mut units = drive(&SsdConfig { placement: Some(unit), ..base.clone() });
        let large = SsdConfig { blocks_per_plane: 64, pages_per_block: 32, ..base.clone() };
        let mut blocks = drive(&with_handles(2, isolation, large));
        let pages = units.logical_pages();
        let found = [&mut units, &mut blocks].map(|one| {
            let mut random = Random(5);
            let writes = (0..20_000)
                .map(|_| random.below(pages))
                .map(|page| (page.is_multiple_of(3).into(), page));
            amplification(one, 0, writes)
        });
        assert_close(found[0], found[1], 0.0, "write amplification");
        let (units, blocks) = (units.metrics(), blocks.metrics());
        assert_eq!(units.erase_count, 4 * blocks.erase_count);
        assert_eq!((units.block_erases, units.blocks), (blocks.block_erases, 256));
    }
    // Five blocks of the plane make no unit.
    let placement = Some(Placement { reclaim_unit_blocks: 7, ..Placement::of(1) });
    let odd = SsdConfig { placement, blocks_per_plane: 75, over_provisioning: 0.5, ..base };
    let one = drive(&odd);
    assert_eq!((one.metrics().blocks, one.logical_pages()), (70, 300));
}

/// Handles cost memory per unit and plane, not per page.
#[test]
fn handles_take_no_memory_per_page() {
    let drive_of = |placement| {
        let base = SsdConfig { pages_per_block: 256, blocks_per_plane: 512, ..wide() };
        drive(&SsdConfig { placement, ..base })
    };
    let placement = Placement { isolation: Isolation::Persistent, ..Placement::of(16) };
    let (without, with) = (drive_of(None).memory_bytes(), drive_of(Some(placement)).memory_bytes());
    let pages = 16 * 512 * 256;
    assert!(with <= without + pages / 100, "{without} and {with} bytes");
    assert!(with < 10 * pages, "{with} bytes for {pages} flash pages");
}

#[test]
fn settings_have_a_range() {
    let placed = |handles, isolation| with_handles(handles, isolation, tiny());
    let error = |config: SsdConfig| config.validate().unwrap_err().to_string();
    assert!(error(placed(0, Isolation::Initial)).contains("1 to 16"));
    assert!(error(placed(17, Isolation::Initial)).contains("1 to 16"));
    let of_blocks = |reclaim_unit_blocks| {
        let placement = Placement { reclaim_unit_blocks, ..Placement::of(2) };
        error(SsdConfig { placement: Some(placement), ..tiny() })
    };
    assert!(of_blocks(0).contains("1 to 1024"));
    assert!(of_blocks(16).contains("`blocks_per_plane`"), "{}", of_blocks(16));
    assert!(of_blocks(512).contains("`blocks_per_plane`"), "{}", of_blocks(512));
    let initial = || placed(2, Isolation::Initial);
    let persistent = || placed(2, Isolation::Persistent);
    assert!(error(SsdConfig { streams: 2, ..initial() }).contains("`handles`"));
    assert!(error(SsdConfig { mapping: Mapping::Block, ..initial() }).contains("`handles`"));
    let shared = SsdConfig { gc_blocks: GcBlocks::Shared, ..persistent() };
    assert!(error(shared).contains("`isolation`"));
    let mut one = drive(&initial());
    one.select_handle(1).unwrap();
    assert!(one.select_handle(2).unwrap_err().to_string().contains("0 to 1"));
    assert!(drive(&tiny()).select_handle(1).is_err());
    let text = toml::to_string(&persistent()).unwrap();
    assert_eq!(SsdConfig::from_toml(&text).unwrap(), persistent());
}
