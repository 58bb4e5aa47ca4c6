//! Completion times of requests: single operations, pipelines, queues.

use proptest::prelude::*;
use thermocline_core::Nanos;
use thermocline_device::queueing::{DeviceOp, DeviceRequest, QueueingDevice};
use thermocline_device::ssd::{
    GcUnit, Precondition, Scheduling, Ssd, SsdConfig, Suspension, WriteCompletes,
};

use super::{
    Random, assert_close, closed_loop, drain, drive, preset, read, request, run, tiny,
    uniform_writes, wide, write,
};

/// Return a drive too large for garbage collection to begin.
fn fresh(config: SsdConfig) -> SsdConfig {
    SsdConfig { gc_threshold: 0.0, ..config }
}

#[test]
fn an_idle_ssdsim_drive_takes_a_page_in_seven_cycles_and_its_transfer() {
    let config = preset("ssdsim").sized_for(10_000).unwrap();
    assert_eq!(run(&mut drive(&config), &[(5, write(3))]), [(0, 5 + 7 * 25 + 2048 * 25)]);
    let config = SsdConfig { page_bytes: 4096, ..config };
    assert_eq!(run(&mut drive(&config), &[(0, write(3))]), [(0, 102_575)]);
}

#[test]
fn operations_take_command_cells_and_transfer() {
    let config = SsdConfig { command_ns: 300, ..tiny() };
    let mut one = drive(&config);
    assert_eq!(run(&mut one, &[(0, write(0))]), [(0, 300 + 1000 + 100_000)]);
    assert_eq!(run(&mut one, &[(200_000, read(0))]), [(1, 200_000 + 300 + 10_000 + 1000)]);
    let early = SsdConfig { write_completes: WriteCompletes::Transfer, ..config };
    let mut one = drive(&early);
    // The second waits until the cells have the first.
    let completed = run(&mut one, &[(0, write(0)), (0, write(1))]);
    assert_eq!(completed, [(0, 1300), (1, 101_300 + 1300)]);
    assert_eq!(one.busy_ns(), 2 * 101_300);
}

#[test]
fn pages_of_a_word_line_have_their_own_times() {
    let config = SsdConfig {
        program_us: vec![100.0, 300.0, 700.0],
        read_us: vec![10.0, 20.0, 30.0],
        ..tiny()
    };
    let mut one = drive(&config);
    let starts = [0, 1_000_000, 2_000_000, 3_000_000];
    let writes: Vec<_> = (0..).zip(starts).map(|(page, at)| (at, write(page))).collect();
    let times = |completed: Vec<(u64, u64)>| -> Vec<u64> {
        completed.into_iter().map(|(_, at)| at % 1_000_000).collect()
    };
    assert_eq!(times(run(&mut one, &writes)), [101_000, 301_000, 701_000, 101_000]);
    let reads: Vec<_> = (0..).zip(starts).map(|(page, at)| (at + 4_000_000, read(page))).collect();
    assert_eq!(times(run(&mut one, &reads)), [11_000, 21_000, 31_000, 11_000]);
}

#[test]
fn what_is_not_there_is_not_read() {
    let config = SsdConfig { read_overhead_us: 7.0, write_overhead_us: 3.0, ..tiny() };
    let mut one = drive(&config);
    let requests = [
        (0, read(5)),
        (10_000, write(5)),
        (200_000, read(5)),
        (300_000, request(DeviceOp::Trim, 5, 1)),
        (400_000, read(5)),
    ];
    let expected = [(0, 7000), (1, 114_000), (2, 218_000), (3, 307_000), (4, 407_000)];
    assert_eq!(run(&mut one, &requests), expected);
    assert_eq!(one.metrics().unmapped_reads, 2);
}

/// Nanoseconds per page on each channel, at most what bus and dies allow.
fn per_page_ns(bus_ns: f64, unit_ns: f64, units: u32) -> f64 {
    bus_ns.max(unit_ns / f64::from(units))
}

#[test]
fn sequential_writes_run_at_the_speed_of_the_bus_or_of_the_dies() {
    let blocks = SsdConfig { blocks_per_plane: 256, ..wide() };
    for (bus, multi_plane, cache_register) in [
        (1.0, false, false),
        (1.0, true, false),
        (1.0, false, true),
        (1.0, true, true),
        (40.0, true, true),
        (40.0, false, true),
        (20.0, false, false),
        (80.0, true, false),
    ] {
        let config = fresh(SsdConfig {
            bus_ns_per_byte: bus,
            multi_plane,
            cache_register,
            plane_gap_ns: 500,
            queue_depth: 256,
            ..blocks.clone()
        });
        let (pages, mut drive) = (20_000, drive(&config));
        let took_ns = closed_loop(&mut drive, 256, (0..pages).map(write));
        let transfer_ns = bus * 1000.0;
        let together = if multi_plane { 2.0 } else { 1.0 };
        let gaps_ns = (together - 1.0) * 500.0;
        let bus_ns = transfer_ns + gaps_ns / together;
        let unit_ns = if cache_register {
            100_000.0 / together
        } else {
            (100_000.0 + gaps_ns) / together + transfer_ns
        };
        // Two channels, each with two chips of two dies.
        let expected_ns = per_page_ns(bus_ns, unit_ns, 4) / 2.0 * pages as f64;
        let what = format!("{bus} ns/B, planes {multi_plane}, cache {cache_register}");
        assert_close(took_ns, expected_ns, 0.02, &what);
        let utilisation = drive.metrics().channel_utilisation;
        let expected = bus_ns * pages as f64 / 2.0 / took_ns;
        assert!(utilisation.iter().all(|found| (found - expected).abs() < 0.02), "{utilisation:?}");
    }
}

#[test]
fn dies_of_a_chip_work_together_if_they_interleave() {
    for (interleave, units) in [(true, 4), (false, 2)] {
        let config =
            fresh(SsdConfig { interleave, multi_plane: false, blocks_per_plane: 256, ..wide() });
        let took_ns = closed_loop(&mut drive(&config), 64, (0..10_000).map(write));
        let expected_ns = per_page_ns(1000.0, 101_000.0, units) / 2.0 * 10_000.0;
        assert_close(took_ns, expected_ns, 0.02, "writes");
    }
}

#[test]
fn planes_of_different_dies_do_not_go_together() {
    let config = SsdConfig { dies_per_chip: 2, interleave: false, ..tiny() };
    let completed = run(&mut drive(&config), &[(0, write(0)), (0, write(1))]);
    assert_eq!(completed, [(0, 101_000), (1, 202_000)]);
    let config = SsdConfig { planes_per_die: 2, ..tiny() };
    let completed = run(&mut drive(&config), &[(0, write(0)), (0, write(1))]);
    let together_ns = 102_000 + u64::from(config.plane_gap_ns);
    assert_eq!(completed, [(0, together_ns), (1, together_ns)]);
}

#[test]
fn a_die_holds_a_page_until_the_bus_has_it() {
    // Two dies on one bus: pages 0 and 2 are on the first, 1 and 3 on the second.
    let config = SsdConfig { chips_per_channel: 2, bus_ns_per_byte: 4.0, ..tiny() };
    let reads = [(1_000_000, read(0)), (1_000_000, read(1)), (1_000_000, read(3))];
    for (cache_register, last_ns) in [(false, 32_000), (true, 24_000)] {
        let mut drive = drive(&SsdConfig { cache_register, ..config.clone() });
        run(&mut drive, &[(0, request(DeviceOp::Write, 0, 4))]);
        let completed = run(&mut drive, &reads);
        // The second die waits for the transfer of the first, from 10 to 14 us.
        let times: Vec<u64> = completed.iter().map(|&(_, at)| at - 1_000_000).collect();
        assert_eq!(times, [14_000, 18_000, last_ns], "cache register {cache_register}");
    }
}

#[test]
fn sequential_reads_run_at_the_speed_of_the_bus_or_of_the_dies() {
    for (bus, cache_register, units, per_page_ns) in [
        (1.0, false, 1, 11_000.0),
        (1.0, true, 1, 10_000.0),
        (4.0, false, 4, 4000.0),
        (9.0, true, 4, 9000.0),
    ] {
        let config = fresh(SsdConfig {
            bus_ns_per_byte: bus,
            cache_register,
            chips_per_channel: units,
            dies_per_chip: 1,
            multi_plane: false,
            queue_depth: 128,
            blocks_per_plane: 1024,
            ..wide()
        });
        let mut drive = drive(&config);
        drive.precondition(&Precondition { fill: 0.5, ..Precondition::FRESH }).unwrap();
        let took_ns = closed_loop(&mut drive, 128, (0..20_000).map(read));
        assert_close(took_ns, per_page_ns * 10_000.0, 0.02, &format!("{units} dies, {bus} ns/B"));
    }
}

#[test]
fn the_queue_is_so_deep_and_waiting_outside_counts() {
    // Four chips could serve four requests at once, but two are let in.
    let config = SsdConfig { queue_depth: 2, ..wide() };
    let mut two = drive(&config);
    let completed = run(&mut two, &[(0, write(0)), (0, write(1)), (0, write(2)), (0, write(3))]);
    assert_eq!(completed, [(0, 101_000), (1, 101_000), (2, 202_000), (3, 202_000)]);
    assert!((two.metrics().write_response_us.mean - 151.5).abs() < 1e-9);
    // Outside, the first to arrive is the first to enter, in whatever order they were submitted.
    let config = SsdConfig { queue_depth: 1, ..wide() };
    let completed = run(&mut drive(&config), &[(0, write(0)), (20, write(1)), (10, write(2))]);
    assert_eq!(completed, [(0, 101_000), (2, 202_000), (1, 303_000)]);
}

#[test]
fn reads_overtake_programs_if_they_may() {
    let respond = |scheduling| {
        let config = SsdConfig { scheduling, ..tiny() };
        let mut drive = drive(&config);
        drive.precondition(&Precondition { fill: 1.0, overwrite: 2.0, seed: 1 }).unwrap();
        let mut random = Random(3);
        let last = drive.logical_pages();
        for at in 0..2000 {
            let page = random.below(last);
            let request = if at % 4 == 0 { write(page) } else { read(page) };
            drive.submit(Nanos(at * 300_000), request).unwrap();
        }
        drain(&mut drive);
        drive.metrics()
    };
    let (fifo, first) = (respond(Scheduling::Fifo), respond(Scheduling::ReadFirst));
    assert_eq!(fifo.erase_count, first.erase_count, "the map is the same");
    let (fifo_us, first_us) = (fifo.read_response_us.mean, first.read_response_us.mean);
    assert!(first_us < 0.5 * fifo_us, "{first_us} against {fifo_us}");
    // A read waits for the operation under way, at most an erase, and the reads before it.
    assert!(first.read_response_us.max < 1000.0 + 30.0 * 11.0, "{:?}", first.read_response_us);
}

#[test]
fn reads_that_overtake_go_together_on_planes_of_a_die_only() {
    let first = SsdConfig { scheduling: Scheduling::ReadFirst, ..tiny() };
    let read_times = |config: &SsdConfig, pages: [u64; 2]| {
        let mut drive = drive(config);
        run(&mut drive, &[(0, request(DeviceOp::Write, 0, 4))]);
        let completed = run(&mut drive, &pages.map(|page| (1_000_000, read(page))));
        completed.iter().map(|&(_, at)| at - 1_000_000).collect::<Vec<u64>>()
    };
    let planes = SsdConfig { planes_per_die: 2, ..first.clone() };
    assert_eq!(read_times(&planes, [0, 1]), [12_000, 12_000]);
    assert_eq!(read_times(&planes, [0, 2]), [11_000, 22_000]);
    let dies = SsdConfig { dies_per_chip: 2, interleave: false, ..first };
    assert_eq!(read_times(&dies, [0, 1]), [11_000, 22_000]);
}

#[test]
fn a_short_overhead_does_not_wait_for_a_long_one() {
    let config = SsdConfig { read_overhead_us: 20.0, write_overhead_us: 3.0, ..tiny() };
    let completed = run(&mut drive(&config), &[(0, read(7)), (1000, write(7))]);
    // The read comes after the write, and waits for it on the die.
    assert_eq!(completed, [(1, 105_000), (0, 116_000)]);
}

#[test]
fn a_read_overtakes_what_waits_but_not_what_runs() {
    let config = SsdConfig { scheduling: Scheduling::ReadFirst, ..tiny() };
    let mut one = drive(&config);
    run(&mut one, &[(0, write(0))]);
    let t = 1_000_000;
    let requests = [(t, write(1)), (t, write(2)), (t + 1, read(0)), (t + 2, write(3))];
    let completed = run(&mut one, &requests);
    let expected = [(1, t + 101_000), (3, t + 112_000), (2, t + 213_000), (4, t + 314_000)];
    assert_eq!(completed, expected);
}

#[test]
fn garbage_collection_takes_bus_and_cells() {
    // Every write of a full drive waits for the copies before it, one at a time on one die.
    let took = |copyback, gc_time| {
        let config =
            SsdConfig { copyback, gc_time, command_ns: 100, bus_ns_per_byte: 20.0, ..tiny() };
        let mut drive = drive(&config);
        drive.precondition(&Precondition { fill: 1.0, overwrite: 3.0, seed: 1 }).unwrap();
        let pages = drive.logical_pages();
        closed_loop(&mut drive, 4, uniform_writes(pages, 3000, 9));
        // To the last erase, which may come after the last completion.
        (drive.metrics().elapsed_ns, drive.metrics())
    };
    for (copyback, copy_ns) in [(false, 30_100 + 120_100), (true, 110_200)] {
        let (took_ns, metrics) = took(copyback, true);
        assert!(metrics.gc_copies > 3000, "{metrics:?}");
        let expected_ns =
            3000 * 120_100 + metrics.gc_copies * copy_ns + metrics.erase_count * 1_000_100;
        assert_eq!(took_ns, expected_ns, "copyback {copyback}");
        let (free_ns, free) = took(copyback, false);
        assert_eq!(free_ns, 3000 * 120_100, "only the host's pages take time");
        assert_eq!((free.gc_copies, free.erase_count), (metrics.gc_copies, metrics.erase_count));
    }
}

#[test]
fn planes_that_collect_garbage_work_together() {
    let took = |multi_plane| {
        let config = SsdConfig { planes_per_die: 4, multi_plane, queue_depth: 64, ..tiny() };
        let mut drive = drive(&config);
        drive.precondition(&Precondition { fill: 1.0, overwrite: 3.0, seed: 1 }).unwrap();
        let pages = drive.logical_pages();
        closed_loop(&mut drive, 64, uniform_writes(pages, 5000, 9));
        (drive.metrics().elapsed_ns as f64, drive.metrics().gc_copies)
    };
    let (alone, together) = (took(false), took(true));
    assert_eq!(alone.1, together.1, "the map is the same");
    assert!(together.0 < 0.4 * alone.0, "{together:?} against {alone:?}");
}

#[test]
fn a_request_of_many_pages_completes_with_the_last() {
    let mut one = drive(&SsdConfig { multi_plane: false, ..tiny() });
    assert_eq!(run(&mut one, &[(0, request(DeviceOp::Write, 0, 5))]), [(0, 5 * 101_000)]);
    let mut many = drive(&wide());
    // Sixteen planes: eight dies on two channels; two planes of a die go together.
    let completed = run(&mut many, &[(0, request(DeviceOp::Write, 0, 16))]);
    let gap_ns = u64::from(wide().plane_gap_ns);
    assert_eq!(completed, [(0, 4 * (2000 + gap_ns) + 100_000)]);
}

pub(super) fn any_request(pages: u64) -> impl Strategy<Value = DeviceRequest> {
    let op = prop::sample::select(vec![DeviceOp::Read, DeviceOp::Write, DeviceOp::Trim]);
    (op, 0..pages, 1_u32..9).prop_map(move |(op, page, count)| {
        let room = u32::try_from(pages - page).unwrap_or(u32::MAX);
        request(op, page, count.min(room))
    })
}

fn any_timed() -> impl Strategy<Value = SsdConfig> {
    let switches = any::<[bool; 7]>();
    (switches, 1_u32..6, prop::sample::select(vec![0.0, 2.0])).prop_map(
        |([multi, interleave, copyback, cache, first, stops, early], queue_depth, overhead)| {
            SsdConfig {
                suspension: (first && stops).then_some(Suspension {
                    program_us: 5.0,
                    erase_us: 20.0,
                    times: 2,
                }),
                multi_plane: multi,
                interleave,
                copyback,
                cache_register: cache,
                scheduling: if first { Scheduling::ReadFirst } else { Scheduling::Fifo },
                write_completes: if early {
                    WriteCompletes::Transfer
                } else {
                    WriteCompletes::Program
                },
                queue_depth,
                read_overhead_us: overhead,
                gc_unit: GcUnit::Pages,
                gc_threshold: 0.2,
                blocks_per_plane: 24,
                pages_per_block: 8,
                ..wide()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_request_completes_once_whatever_the_steps(
        config in any_timed(),
        gaps in prop::collection::vec(0_u64..50_000, 1..80),
        // With long gaps the drive is idle when a request comes, so that nothing hinders it.
        stretch in prop::sample::select(vec![1_u64, 10, 200]),
        seed in any::<u64>(),
        requests in prop::collection::vec(any_request(2304), 80),
    ) {
        let prepared = || -> Ssd {
            let mut drive = drive(&config);
            drive.precondition(&Precondition { fill: 1.0, overwrite: 1.0, seed }).unwrap();
            assert_eq!(drive.logical_pages(), 2304);
            drive
        };
        let (mut stepped, mut whole, mut by_events) = (prepared(), prepared(), prepared());
        let (mut first, mut second, mut third, mut at) = (vec![], vec![], vec![], 0);
        let mut arrivals = vec![];
        for (&gap, &request) in gaps.iter().zip(&requests) {
            at += gap * stretch;
            stepped.advance(Nanos(at), &mut first).unwrap();
            stepped.submit(Nanos(at), request).unwrap();
            stepped.assert_invariants();
            whole.submit(Nanos(at), request).unwrap();
            by_events.submit(Nanos(at), request).unwrap();
            arrivals.push(at);
        }
        while let Some(at) = stepped.next_event() {
            stepped.advance(at, &mut first).unwrap();
            stepped.assert_invariants();
        }
        // Advanced no further than to the next event, every stage is an event.
        while let Some(at) = by_events.next_event() {
            by_events.advance(at, &mut third).unwrap();
            by_events.assert_invariants();
        }
        whole.advance(Nanos(1 << 60), &mut second).unwrap();
        prop_assert_eq!(&first, &second);
        prop_assert_eq!(&first, &third);
        // A request handed in at the instant of an event comes after it, and may find the bus taken: how
        // long units waited for it may differ then, so `stepped` is left out.
        by_events.advance(Nanos(1 << 60), &mut third).unwrap();
        prop_assert_eq!(by_events.metrics(), whole.metrics());
        let mut tickets: Vec<u64> = first.iter().map(|one| one.ticket.0).collect();
        prop_assert!(first.is_sorted_by_key(|one| one.at));
        for completion in &first {
            let index = usize::try_from(completion.ticket.0).unwrap();
            prop_assert!(completion.at.0 >= arrivals[index]);
        }
        tickets.sort_unstable();
        prop_assert_eq!(tickets, (0..arrivals.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(whole.next_event(), None);
    }
}
