//! Any requests on any small drive; and a drive so naive that it is obviously right.

use std::collections::BTreeMap;

use proptest::prelude::*;
use thermocline_core::Nanos;
use thermocline_device::queueing::{DeviceOp, DeviceRequest};
use thermocline_device::ssd::{
    Allocation, GcBlocks, GcUnit, Isolation, Mapping, Placement, Ssd, SsdConfig, SsdError, Victim,
};

use super::{Random, apply_all, drain, drive, read, request, run, tiny, wide, write};

/// Handles of either kind, or none.
fn any_placement() -> impl Strategy<Value = Option<Placement>> {
    let isolations = vec![Isolation::Initial, Isolation::Persistent];
    prop::option::of((1_u32..4, prop::sample::select(isolations), 1_u32..4).prop_map(
        |(handles, isolation, reclaim_unit_blocks)| Placement {
            handles,
            isolation,
            reclaim_unit_blocks,
        },
    ))
}

/// Return the same drive with the handles, as far as they go with the rest; eight times the blocks,
/// for the units that they keep open.
fn placed(config: SsdConfig, placement: Option<Placement>) -> SsdConfig {
    let Some(placement) = placement.filter(|_| config.mapping == Mapping::Page) else {
        return config;
    };
    let isolation = match config.gc_blocks {
        GcBlocks::Shared => Isolation::Initial,
        GcBlocks::Separate => placement.isolation,
    };
    let blocks_per_plane = config.blocks_per_plane * 8;
    let placement = Some(Placement { isolation, ..placement });
    SsdConfig { placement, blocks_per_plane, ..config }
}

/// Chooses a handle of the drive for what comes.
fn select(drive: &mut Ssd, config: &SsdConfig, number: u64) -> u32 {
    let handles = config.placement.map_or(1, |placement| placement.handles);
    let handle = u32::try_from(number % u64::from(handles)).unwrap();
    drive.select_handle(handle).unwrap();
    handle
}

fn any_layer() -> impl Strategy<Value = SsdConfig> {
    let mappings = vec![Mapping::Page, Mapping::Page, Mapping::Block, Mapping::Bast];
    let victims =
        vec![Victim::Greedy, Victim::CostBenefit, Victim::DChoices, Victim::Fifo, Victim::Random];
    let orders = vec!["CWDP", "PDWC", "DCPW"];
    (
        prop::sample::select(mappings),
        prop::sample::select(victims),
        prop::sample::select(orders),
        any::<[bool; 4]>(),
        (2_u32..9, 1_u32..4, 0_u32..5),
        prop::sample::select(vec![0.0, 0.1, 0.4]),
        prop::sample::select(vec![0.0, 0.1]),
    )
        .prop_map(
            |(mapping, gc_victim, order, flags, (pages, logs, wear), gc_threshold, bad)| {
                let [is_static, is_shared, counts_pages, dynamic_wear] = flags;
                SsdConfig {
                    mapping,
                    gc_victim,
                    order: order.into(),
                    allocation: if is_static { Allocation::Static } else { Allocation::Dynamic },
                    gc_blocks: if is_shared { GcBlocks::Shared } else { GcBlocks::Separate },
                    gc_unit: if counts_pages { GcUnit::Pages } else { GcUnit::Blocks },
                    dynamic_wear,
                    pages_per_block: pages,
                    blocks_per_plane: 16,
                    over_provisioning: 0.55,
                    log_blocks_per_plane: logs,
                    static_wear_threshold: wear,
                    gc_threshold,
                    initial_bad_blocks: bad,
                    chips_per_channel: 1,
                    dies_per_chip: 1,
                    ..wide()
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_page_is_lost_and_none_is_in_two_places(
        config in (any_layer(), any_placement()).prop_map(|(one, placement)| placed(one, placement)),
        seed in any::<u64>(),
        trims in prop::sample::select(vec![0_u64, 3]),
    ) {
        let mut drive = drive(&config);
        let pages = drive.logical_pages();
        let mut random = Random(seed);
        let mut written = vec![false; usize::try_from(pages).unwrap()];
        let mut counts = [0_u64; 3];
        for turn in 0..600 {
            let page = random.below(pages);
            let most = (pages - page).min(5);
            let count = u32::try_from(1 + random.below(most)).unwrap();
            let (op, which) = match random.below(10) {
                0..7 => (DeviceOp::Write, 0),
                one if one < 7 + trims => (DeviceOp::Trim, 1),
                _ => (DeviceOp::Read, 2),
            };
            counts[which] += u64::from(count);
            select(&mut drive, &config, random.below(16));
            drive.apply(request(op, page, count)).unwrap();
            let range = usize::try_from(page).unwrap()..usize::try_from(page + u64::from(count)).unwrap();
            if which < 2 {
                written[range].fill(which == 0);
            }
            if turn % 37 == 0 {
                drive.assert_invariants();
            }
        }
        drive.assert_invariants();
        let mut places = BTreeMap::new();
        for (page, &is_written) in (0..).zip(&written) {
            let place = drive.flash_page_of(page).unwrap();
            prop_assert_eq!(place.is_some(), is_written, "page {}", page);
            if let Some(place) = place {
                prop_assert_eq!(places.insert(place, page), None, "one page per flash page");
            }
        }
        let metrics = drive.metrics();
        prop_assert_eq!([metrics.host_writes, metrics.host_trims, metrics.host_reads], counts);
        prop_assert_eq!(metrics.host_programs, metrics.host_writes);
        let merges = metrics.switch_merges + metrics.partial_merges + metrics.full_merges;
        prop_assert!(metrics.erase_count <= 2 * (merges + metrics.gc_copies + metrics.host_writes));
    }

    #[test]
    fn a_plane_that_is_full_of_valid_pages_is_passed_over(
        seed in any::<u64>(),
        period in 2_u64..5,
        wear in 0_u32..3,
    ) {
        // Every so many writes a page that is never written again: in turn they would all go to the
        // same plane, which cannot hold them.
        let config = SsdConfig {
            channels: 1,
            chips_per_channel: 1,
            dies_per_chip: 2,
            planes_per_die: 2,
            blocks_per_plane: 16,
            over_provisioning: 0.45,
            static_wear_threshold: wear,
            ..wide()
        };
        let mut drive = drive(&config);
        let pages = drive.logical_pages();
        let mut random = Random(seed);
        for turn in 0..4 * pages {
            let (cold, hot) = (turn / period, pages * 9 / 10 + random.below(pages / 10));
            let page = if turn % period == 0 && cold < pages * 9 / 10 { cold } else { hot };
            drive.apply(write(page)).unwrap();
        }
        drive.assert_invariants();
    }
}

/// A page of the naive drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Free,
    /// A version of a page of the host.
    Holds(u64, u64),
}

/// One plane on one die: lists of pages, searched whenever something must be known. A block is a whole
/// reclaim unit.
struct Naive {
    config: SsdConfig,
    unit_blocks: u32,
    handles: usize,
    is_persistent: bool,
    blocks: Vec<Vec<Page>>,
    erases: Vec<u32>,
    /// Since when each block has as many valid pages as it has, or can be collected.
    since: Vec<u64>,
    /// Number of pages that were programmed when each block was full.
    closed: Vec<u64>,
    /// Number of erases when each block became free.
    freed: Vec<u32>,
    /// Open blocks: of the host, one per handle; and of copies, one, or one per handle.
    open: Vec<Option<usize>>,
    /// The handle of what each block holds.
    handle_of: Vec<usize>,
    programs: u64,
    /// The current version of each page.
    current: BTreeMap<u64, u64>,
    events: u64,
    versions: u64,
    copies: u64,
    /// Time at which the die has done all its work.
    free_ns: u64,
}

impl Naive {
    fn new(config: &SsdConfig) -> Self {
        let placement = config.placement.unwrap_or(Placement::of(1));
        let unit_blocks = placement.reclaim_unit_blocks;
        let blocks = (config.blocks_per_plane / unit_blocks) as usize;
        let pages = (config.pages_per_block * unit_blocks) as usize;
        let handles = placement.handles as usize;
        let is_persistent = placement.isolation == Isolation::Persistent;
        Self {
            config: config.clone(),
            unit_blocks,
            handles,
            is_persistent,
            blocks: vec![vec![Page::Free; pages]; blocks],
            erases: vec![0; blocks],
            since: vec![0; blocks],
            closed: vec![0; blocks],
            freed: vec![0; blocks],
            programs: 0,
            open: vec![None; 2 * handles],
            handle_of: vec![0; blocks],
            current: BTreeMap::new(),
            events: 0,
            versions: 0,
            copies: 0,
            free_ns: 0,
        }
    }

    fn is_valid(&self, page: Page) -> bool {
        matches!(page, Page::Holds(page, version) if self.current.get(&page) == Some(&version))
    }

    fn valid(&self, block: usize) -> usize {
        self.blocks[block].iter().filter(|&&page| self.is_valid(page)).count()
    }

    fn free_blocks(&self) -> Vec<usize> {
        (0..self.blocks.len())
            .filter(|&block| self.blocks[block].iter().all(|&page| page == Page::Free))
            .filter(|&block| !self.open.contains(&Some(block)))
            .collect()
    }

    fn place_of(&self, page: u64) -> Option<(usize, usize)> {
        let wanted = Page::Holds(page, *self.current.get(&page)?);
        (0..self.blocks.len()).find_map(|block| {
            Some((block, self.blocks[block].iter().position(|&held| held == wanted)?))
        })
    }

    /// Notes that the number of valid pages of a block has changed.
    fn changed(&mut self, block: usize) {
        self.events += 1;
        self.since[block] = self.events;
    }

    fn program(&mut self, stream: usize, page: Page) {
        if self.open[stream].is_none() {
            let key = |block: usize| {
                if self.config.dynamic_wear {
                    (self.erases[block], block)
                } else {
                    (self.freed[block], block)
                }
            };
            self.open[stream] = self.free_blocks().into_iter().min_by_key(|&block| key(block));
            self.handle_of[self.open[stream].unwrap()] = stream % self.handles;
        }
        let block = self.open[stream].unwrap();
        let next = self.blocks[block].iter().position(|&page| page == Page::Free).unwrap();
        self.blocks[block][next] = page;
        self.programs += 1;
    }

    /// Closes the open block if it is full.
    fn close(&mut self, stream: usize) {
        let block = self.open[stream].unwrap();
        if !self.blocks[block].contains(&Page::Free) {
            self.open[stream] = None;
            self.closed[block] = self.programs;
            self.changed(block);
        }
    }

    fn spend(&mut self, cells_us: f64, transfers: f64) {
        let bus_ns = transfers * f64::from(self.config.page_bytes) * self.config.bus_ns_per_byte;
        let command_ns = f64::from(self.config.command_ns);
        let took = cells_us * 1000.0 + bus_ns + command_ns;
        self.free_ns += format!("{took:.0}").parse::<u64>().unwrap();
    }

    /// Collect the emptiest block if that frees `worth` pages.
    fn collect(&mut self, worth: usize) -> bool {
        let pages = self.blocks[0].len();
        let free = self.free_blocks();
        let closed = || {
            (0..self.blocks.len())
                .filter(|block| !free.contains(block) && !self.open.contains(&Some(*block)))
        };
        let emptiest = closed().min_by_key(|&block| (self.valid(block), self.since[block]));
        let least = emptiest.map_or(pages, |block| self.valid(block));
        if pages - least < worth {
            return false;
        }
        let burden = |block: usize| {
            let used = self.valid(block) as f64 / pages as f64;
            used / ((1.0 - used) * (self.programs - self.closed[block] + 1) as f64)
        };
        let victim = match self.config.gc_victim {
            Victim::Fifo => closed().min_by_key(|&block| self.closed[block]),
            Victim::CostBenefit => closed().min_by(|&a, &b| burden(a).total_cmp(&burden(b))),
            Victim::Greedy | Victim::DChoices | Victim::Random => emptiest,
        };
        let victim = victim.unwrap();
        let of_handle = if self.is_persistent { self.handle_of[victim] } else { 0 };
        let is_separate = self.config.gc_blocks == GcBlocks::Separate;
        let copies = if is_separate { self.handles + of_handle } else { 0 };
        for page in self.blocks[victim].clone() {
            if self.is_valid(page) {
                self.program(copies, page);
                self.close(copies);
                self.copies += 1;
                self.spend(self.config.read_us[0], 1.0);
                self.spend(self.config.program_us[0], 1.0);
            }
        }
        self.blocks[victim].fill(Page::Free);
        self.erases[victim] += 1;
        self.freed[victim] = self.erases.iter().sum();
        (0..self.unit_blocks).for_each(|_| self.spend(self.config.erase_us, 0.0));
        true
    }

    /// Return the time at which the write is done.
    fn write(&mut self, at: u64, page: u64, handle: usize) -> u64 {
        self.free_ns = self.free_ns.max(at);
        while self.open[handle].is_none() && self.free_blocks().len() <= 2 {
            assert!(self.collect(1));
        }
        let former = self.place_of(page);
        self.versions += 1;
        self.program(handle, Page::Holds(page, self.versions));
        self.current.insert(page, self.versions);
        if let Some((block, _)) = former {
            self.changed(block);
        }
        self.close(handle);
        self.spend(self.config.program_us[0], 1.0);
        let done = self.free_ns;
        let least = (self.blocks.len() as f64 * self.config.gc_threshold).ceil();
        if (self.free_blocks().len() as f64) < least {
            self.collect((self.blocks[0].len() / 8).max(1));
        }
        done
    }

    fn read(&mut self, at: u64, page: u64) -> u64 {
        if self.place_of(page).is_none() {
            return at;
        }
        self.free_ns = self.free_ns.max(at);
        self.spend(self.config.read_us[0], 1.0);
        self.free_ns
    }

    fn trim(&mut self, at: u64, page: u64) -> u64 {
        if let Some((block, _)) = self.place_of(page) {
            self.current.remove(&page);
            self.changed(block);
        }
        at
    }
}

fn any_step() -> impl Strategy<Value = (u64, DeviceOp, u64, u64)> {
    let op = prop::sample::select(vec![
        DeviceOp::Write,
        DeviceOp::Write,
        DeviceOp::Write,
        DeviceOp::Read,
        DeviceOp::Trim,
    ]);
    (prop::sample::select(vec![0, 0, 1, 50_000, 5_000_000]), op, any::<u64>(), 0..12_u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn one_plane_does_what_the_naive_drive_does(
        (blocks, pages, threshold) in
            (16_u32..24, 2_u32..9, prop::sample::select(vec![0.0, 0.2, 0.4])),
        gc_victim in prop::sample::select(vec![Victim::Greedy, Victim::Fifo, Victim::CostBenefit]),
        gc_blocks in prop::sample::select(vec![GcBlocks::Separate, GcBlocks::Shared]),
        dynamic_wear in any::<bool>(),
        steps in prop::collection::vec(any_step(), 300),
        is_hot in any::<bool>(),
        placement in any_placement(),
    ) {
        let config = SsdConfig {
            blocks_per_plane: blocks,
            pages_per_block: pages,
            over_provisioning: 0.45,
            gc_threshold: threshold,
            gc_victim,
            gc_blocks,
            dynamic_wear,
            command_ns: 175,
            // Nothing waits outside, so that the order of service is that of arrival.
            queue_depth: 65_536,
            ..tiny()
        };
        let config = placed(config, placement);
        let mut drive = drive(&config);
        let mut naive = Naive::new(&config);
        let logical = drive.logical_pages();
        let (mut at, mut expected) = (0, vec![]);
        for (ticket, &(gap, op, page, handle)) in (0..).zip(&steps) {
            at += gap;
            let page = page % if is_hot { logical.div_ceil(3) } else { logical };
            let handle = select(&mut drive, &config, handle);
            drive.submit(Nanos(at), request(op, page, 1)).unwrap();
            let done = match op {
                DeviceOp::Read => naive.read(at, page),
                DeviceOp::Write => naive.write(at, page, handle as usize),
                DeviceOp::Trim => naive.trim(at, page),
                DeviceOp::Flush => unreachable!("the steps have none"),
            };
            expected.push((ticket, done));
        }
        let mut found = drain(&mut drive);
        found.sort_unstable();
        prop_assert_eq!(found, expected);
        let metrics = drive.metrics();
        prop_assert_eq!(metrics.gc_copies, naive.copies);
        let erases: u32 = naive.erases.iter().sum();
        prop_assert_eq!(metrics.erase_count, u64::from(erases * naive.unit_blocks));
        prop_assert_eq!(metrics.block_erases.max, *naive.erases.iter().max().unwrap());
        prop_assert_eq!(metrics.block_erases.min, *naive.erases.iter().min().unwrap());
        for page in 0..logical {
            let place = naive.place_of(page).map(|(block, within)| {
                block as u64 * u64::from(pages * naive.unit_blocks) + within as u64
            });
            prop_assert_eq!(drive.flash_page_of(page).unwrap(), place, "version and place");
        }
    }
}

#[test]
fn the_same_input_gives_the_same_output() {
    for gc_victim in [Victim::Greedy, Victim::Random, Victim::DChoices] {
        let replay = || {
            let config = SsdConfig { gc_victim, blocks_per_plane: 32, ..wide() };
            let mut drive = drive(&config);
            let mut random = Random(5);
            let requests: Vec<(u64, DeviceRequest)> = (0..20_000)
                .map(|at| {
                    let page = random.below(drive.logical_pages());
                    (at * 10_000, if random.below(3) > 0 { write(page) } else { read(page) })
                })
                .collect();
            let completed = run(&mut drive, &requests);
            (completed, drive.metrics())
        };
        let (first, second) = (replay(), replay());
        assert!(first.1.gc_copies > 1000, "{:?}", first.1);
        assert_eq!(first, second);
    }
}

#[test]
fn requests_without_time_change_the_drive_as_those_in_time() {
    for mapping in [Mapping::Page, Mapping::Block, Mapping::Bast] {
        let config = SsdConfig { mapping, over_provisioning: 0.4, ..wide() };
        let (mut timed, mut untimed) = (drive(&config), drive(&config));
        let mut random = Random(11);
        let pages = timed.logical_pages();
        let requests: Vec<(u64, DeviceRequest)> =
            (0..20_000).map(|at| (at * 1000, write(random.below(pages)))).collect();
        run(&mut timed, &requests);
        apply_all(&mut untimed, requests.iter().map(|&(_, request)| request));
        for page in 0..pages {
            assert_eq!(timed.flash_page_of(page), untimed.flash_page_of(page));
        }
        let (timed, untimed) = (timed.metrics(), untimed.metrics());
        assert!(timed.erase_count > 100, "{timed:?}");
        assert_eq!(timed.block_erases, untimed.block_erases);
        assert_eq!(timed.gc_copies, untimed.gc_copies);
    }
    let beyond = drive(&tiny()).flash_page_of(u64::MAX);
    assert!(matches!(beyond, Err(SsdError::BeyondDrive { .. })));
}
