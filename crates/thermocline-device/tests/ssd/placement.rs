//! Placement handles: what they save, what isolation keeps apart, and what changes nothing.

use thermocline_device::ssd::{GcBlocks, Isolation, Mapping, Placement, Ssd, SsdConfig};

use super::{Random, assert_close, drive, tiny, uniform_writes, wide, write};

const ISOLATIONS: [Isolation; 2] = [Isolation::Initial, Isolation::Persistent];

fn with_handles(handles: u32, isolation: Isolation, base: SsdConfig) -> SsdConfig {
    SsdConfig { placement: Some(Placement { handles, isolation }), ..base }
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
        let mut one = drive(&with_handles(4, isolation, tiny()));
        let pages = one.logical_pages();
        let mut random = Random(3);
        let writes = (0..30_000).map(|_| random.below(pages)).map(|page| ((page % 4) as u32, page));
        assert!(amplification(&mut one, 0, writes) > 1.2, "garbage collection moves pages");
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

/// A handle whose data is never written again costs nothing once it is apart from uniform writes.
#[test]
fn a_hot_and_a_resting_half() {
    let base = SsdConfig { blocks_per_plane: 512, gc_threshold: 0.0, ..tiny() };
    let found = [None, Some(Isolation::Persistent)].map(|isolation| {
        let handled = |isolation| with_handles(2, isolation, base.clone());
        let mut one = drive(&isolation.map_or_else(|| base.clone(), handled));
        let half = one.logical_pages() / 2;
        let mut random = Random(1);
        let filling = (0..2 * half).map(|index| (index % 2, index / 2 + index % 2 * half));
        let hot = (0..100_000).map(|_| (0, random.below(half)));
        let apart = u32::from(isolation.is_some());
        let writes = filling.chain(hot).map(|(which, page)| (u32::from(which > 0) * apart, page));
        amplification(&mut one, 60_000, writes)
    });
    assert!(found[1] < found[0], "{found:?}");
}

#[test]
fn settings_have_a_range() {
    let placed = |handles, isolation| with_handles(handles, isolation, tiny());
    let error = |config: SsdConfig| config.validate().unwrap_err().to_string();
    assert!(error(placed(0, Isolation::Initial)).contains("1 to 16"));
    assert!(error(placed(17, Isolation::Initial)).contains("1 to 16"));
    let initial = || placed(2, Isolation::Initial);
    let persistent = || placed(2, Isolation::Persistent);
    assert!(error(SsdConfig { streams: 2, ..initial() }).contains("`handles`"));
    assert!(error(SsdConfig { mapping: Mapping::Block, ..initial() }).contains("`handles`"));
    assert!(error(SsdConfig { static_wear_threshold: 9, ..persistent() }).contains("`isolation`"));
    let shared = SsdConfig { gc_blocks: GcBlocks::Shared, ..persistent() };
    assert!(error(shared).contains("`isolation`"));
    let mut one = drive(&initial());
    one.select_handle(1).unwrap();
    assert!(one.select_handle(2).unwrap_err().to_string().contains("0 to 1"));
    assert!(drive(&tiny()).select_handle(1).is_err());
    let text = toml::to_string(&persistent()).unwrap();
    assert_eq!(SsdConfig::from_toml(&text).unwrap(), persistent());
}
