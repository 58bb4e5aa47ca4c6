//! The host link, the write buffer, and physical pages of several pages.

use proptest::prelude::*;
use thermocline_core::Nanos;
use thermocline_device::queueing::{DeviceOp, DeviceRequest};
use thermocline_device::ssd::{Mapping, Precondition, Scheduling, Ssd, SsdConfig, WriteCompletes};

use super::{
    assert_close, closed_loop, drain, drive, read, request, run, tiny, uniform_writes, wide, write,
};

/// Return a drive with four pages per physical page and a buffer of 16 pages.
fn buffered() -> SsdConfig {
    SsdConfig {
        pages_per_program: 4,
        write_completes: WriteCompletes::Buffer,
        write_buffer_bytes: 16_000,
        write_overhead_us: 2.0,
        ..tiny()
    }
}

#[test]
fn a_write_is_acknowledged_from_the_buffer_and_read_from_it() {
    let mut drive = drive(&buffered());
    let requests = [(0, write(0)), (10_000, read(0)), (20_000, request(DeviceOp::Write, 1, 3))];
    assert_eq!(run(&mut drive, &requests), [(0, 2000), (1, 10_000), (2, 22_000)]);
    // The physical page was full at 22 us; its four pages are on the bus for 4 us, then programmed.
    assert_eq!(drive.metrics().elapsed_ns, 22_000 + 4000 + 100_000);
    // One read of the cells brings them all.
    assert_eq!(run(&mut drive, &[(200_000, request(DeviceOp::Read, 0, 4))]), [(3, 214_000)]);
}

#[test]
fn a_page_is_read_from_the_buffer_until_the_cells_have_it() {
    let mut drive = drive(&buffered());
    let requests = [(0, request(DeviceOp::Write, 0, 4)), (50_000, read(2)), (106_000, read(2))];
    // The program ends at 106 us.
    assert_eq!(run(&mut drive, &requests), [(0, 2000), (1, 50_000), (2, 106_000 + 11_000)]);
}

#[test]
fn a_full_buffer_takes_a_write_when_a_program_makes_room() {
    let mut drive = drive(&buffered());
    let requests = [(0, request(DeviceOp::Write, 0, 16)), (1000, write(16)), (1500, write(17))];
    let completed = run(&mut drive, &requests);
    assert_eq!(completed, [(0, 2000), (1, 106_000), (2, 106_000)]);
    // A request that is larger than the buffer is taken part by part.
    let mut drive = super::drive(&buffered());
    let completed = run(&mut drive, &[(0, request(DeviceOp::Write, 0, 24))]);
    assert_eq!(completed, [(0, 2000 + 2 * 104_000)]);
}

/// A flush programs a physical page whose rest stays empty: four pages on the bus, and their program.
#[test]
fn a_flush_writes_out_what_nothing_protects() {
    let requests = [
        (0, write(0)),
        (10_000, DeviceRequest::FLUSH),
        (20_000, write(1)),
        (900_000, DeviceRequest::FLUSH),
    ];
    let mut volatile = drive(&buffered());
    let flushed = 10_000 + 2000 + 4000 + 100_000;
    // The second write waits for the first flush, and the second flush for its program.
    let second = 900_000 + 2000 + 4000 + 100_000;
    let expected = [(0, 2000), (1, flushed), (2, flushed), (3, second)];
    assert_eq!(run(&mut volatile, &requests), expected);
    let metrics = volatile.metrics();
    assert_eq!((metrics.host_flushes, metrics.host_writes, metrics.host_programs), (2, 2, 8));
    let mut protected = drive(&SsdConfig { power_loss_protection: true, ..buffered() });
    let expected = [(0, 2000), (1, 12_000), (2, 22_000), (3, 902_000)];
    assert_eq!(run(&mut protected, &requests), expected);
    assert_eq!(protected.metrics().host_programs, 2);
    // There is nothing to write out.
    let twice = [(0, DeviceRequest::FLUSH), (5000, DeviceRequest::FLUSH)];
    assert_eq!(run(&mut drive(&buffered()), &twice), [(0, 2000), (1, 7000)]);
    let without =
        SsdConfig { write_completes: WriteCompletes::Program, write_buffer_bytes: 0, ..buffered() };
    assert_eq!(run(&mut drive(&without), &twice), [(0, 2000), (1, 7000)]);
}

/// The host overwrites only what is on the second plane, until the first holds all that it may. A plane may
/// hold an odd number of pages, so that its limit lies within a physical page of two.
#[test]
fn a_plane_that_becomes_full_within_a_physical_page_takes_the_rest_of_it() {
    let config = SsdConfig {
        planes_per_die: 2,
        blocks_per_plane: 24,
        pages_per_block: 8,
        pages_per_program: 2,
        ..buffered()
    };
    let pages_per_plane = u64::from(config.blocks_per_plane * config.pages_per_block);
    let mut drive = drive(&config);
    drive.precondition(&Precondition { fill: 1.0, overwrite: 0.0, seed: 0 }).unwrap();
    let of_second_plane = |drive: &Ssd| -> Vec<u64> {
        let is_there = |&page: &u64| {
            drive.flash_page_of(page).unwrap().is_some_and(|place| place >= pages_per_plane)
        };
        (0..drive.logical_pages()).filter(is_there).collect()
    };
    let (mut now_ns, mut tickets) = (0, 0..);
    let mut left = vec![of_second_plane(&drive).len()];
    for _ in 0..50 {
        let pages = of_second_plane(&drive);
        let requests = [write(pages[0]), write(pages[1]), DeviceRequest::FLUSH];
        let completed = run(&mut drive, &requests.map(|request| (now_ns, request)));
        let expected: Vec<u64> = tickets.by_ref().take(3).collect();
        assert_eq!(completed.iter().map(|one| one.0).collect::<Vec<u64>>(), expected);
        now_ns += 100_000_000;
        left.push(of_second_plane(&drive).len());
    }
    assert!(left[0] > left[25], "the first plane takes pages from the second");
    assert_eq!(left[49], left[50], "the first plane is full, and is passed over");
    assert_eq!(drive.metrics().host_programs, 100, "no physical page is padded");
}

/// A host that flushes after each page waits for both commands, the bus and the cells, and wastes three
/// pages of four; with protection, it waits for the commands.
#[test]
fn a_flush_after_each_write_costs_a_program() {
    let requests = || (0..16).flat_map(|page| [write(page), DeviceRequest::FLUSH]);
    let took = |power_loss_protection| {
        let mut one = drive(&SsdConfig { power_loss_protection, ..buffered() });
        let took_ns = closed_loop(&mut one, 1, requests());
        (took_ns / 16.0, one.metrics().write_amplification)
    };
    let (volatile_ns, wasted) = took(false);
    assert_close(volatile_ns, 2000.0 + 2000.0 + 4000.0 + 100_000.0, 1e-9, "a write and a flush");
    assert_close(wasted, 4.0, 1e-9, "write amplification");
    let (protected_ns, wasted) = took(true);
    assert_close(protected_ns, 4000.0, 1e-9, "protected");
    assert_close(wasted, 1.0, 1e-9, "write amplification");
    let mut untimed = drive(&buffered());
    super::apply_all(&mut untimed, requests());
    assert_close(untimed.metrics().write_amplification, 4.0, 1e-9, "without time");
}

#[test]
fn without_acknowledgement_from_the_buffer_a_physical_page_is_programmed_partly_filled() {
    let config =
        SsdConfig { write_completes: WriteCompletes::Program, write_buffer_bytes: 0, ..buffered() };
    let mut drive = drive(&config);
    assert_eq!(run(&mut drive, &[(0, write(0))]), [(0, 2000 + 4000 + 100_000)]);
    let metrics = drive.metrics();
    assert_eq!((metrics.host_writes, metrics.host_programs), (1, 4), "three pages are lost");
    assert_eq!(drive.flash_page_of(0), Ok(Some(0)));
    run(&mut drive, &[(200_000, write(1))]);
    assert_eq!(drive.flash_page_of(1), Ok(Some(4)));
}

#[test]
fn a_link_carries_requests_one_after_the_other() {
    // A page takes 10 us on the link, and 11 us on the flash.
    let config = SsdConfig { host_link_mb_per_s: 100.0, write_overhead_us: 0.0, ..buffered() };
    let writes = [(0, write(0)), (0, request(DeviceOp::Write, 1, 3)), (5000, write(4))];
    let mut full = drive(&config);
    assert_eq!(run(&mut full, &writes), [(0, 10_000), (1, 40_000), (2, 50_000)]);
    let mixed = [(1_000_000, read(0)), (1_000_000, read(1)), (1_010_000, write(9))];
    // Read 0 is on the link from 11 to 21 us, read 1 at once after it; the write has a line of its own.
    let times = |drive: &mut Ssd| -> Vec<u64> {
        run(drive, &mixed).into_iter().map(|(_, at)| at - 1_000_000).collect()
    };
    let full_times = times(&mut full);
    assert_eq!(full_times, [20_000, 21_000, 32_000]);
    let mut half = drive(&SsdConfig { host_link_half_duplex: true, ..config });
    run(&mut half, &writes);
    let half_times = times(&mut half);
    // The write takes the line from 10 to 20 us, and the reads wait for it.
    assert_eq!(half_times, [20_000, 30_000, 40_000]);
}

#[test]
fn what_cannot_be_is_refused() {
    let check = |config: SsdConfig, name: &str, permitted: &str| {
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}`")) && error.contains(permitted), "{error}");
    };
    check(SsdConfig { pages_per_program: 3, ..buffered() }, "pages_per_program", "power of two");
    check(SsdConfig { pages_per_block: 18, ..buffered() }, "pages_per_block", "multiple of 4");
    check(SsdConfig { write_buffer_bytes: 7999, ..buffered() }, "write_buffer_bytes", "8000 to");
    check(SsdConfig { write_buffer_bytes: 9000, ..tiny() }, "write_buffer_bytes", "\"buffer\"");
    let protected = SsdConfig { power_loss_protection: true, ..tiny() };
    check(protected, "power_loss_protection", "\"buffer\"");
    check(SsdConfig { copyback: true, ..buffered() }, "pages_per_program", "copyback");
    check(SsdConfig { mapping: Mapping::Block, ..buffered() }, "pages_per_program", "page mapping");
    check(SsdConfig { host_link_mb_per_s: -1.0, ..tiny() }, "host_link_mb_per_s", "0 to");
}

#[test]
fn garbage_collection_moves_physical_pages() {
    let run = |pages_per_program: u32| {
        let config = SsdConfig {
            pages_per_program,
            write_buffer_bytes: 64_000,
            blocks_per_plane: 128,
            pages_per_block: 64,
            ..buffered()
        };
        let mut drive = drive(&config);
        drive.precondition(&Precondition { fill: 1.0, overwrite: 2.0, seed: 1 }).unwrap();
        let pages = drive.logical_pages();
        let took_ns = closed_loop(&mut drive, 8, uniform_writes(pages, 20_000, 9));
        (took_ns, drive.metrics())
    };
    let ((one_ns, one), (four_ns, four)) = (run(1), run(4));
    assert_eq!((one.gc_copies, one.erase_count), (four.gc_copies, four.erase_count), "one plane");
    // Programs of four pages take as long as of one, reads find fewer than four of them valid.
    let share = four_ns / one_ns;
    assert!(share > 0.25 && share < 0.5, "{share}");
}

fn any_buffered() -> impl Strategy<Value = SsdConfig> {
    let shift = 0_u32..3;
    let link = prop::sample::select(vec![0.0, 50.0]);
    let buffer = prop::sample::select(vec![0_u64, 160_000, 400_000]);
    (shift, link, any::<[bool; 5]>(), buffer, 1_u32..9).prop_map(
        |(shift, link, [half, first, cache, early, protected], write_buffer_bytes, queue_depth)| {
            SsdConfig {
                power_loss_protection: protected && write_buffer_bytes > 0,
                pages_per_program: 1 << shift,
                host_link_mb_per_s: link,
                host_link_half_duplex: half,
                scheduling: if first { Scheduling::ReadFirst } else { Scheduling::Fifo },
                cache_register: cache,
                write_completes: match (write_buffer_bytes, early) {
                    (0, false) => WriteCompletes::Program,
                    (0, true) => WriteCompletes::Transfer,
                    _ => WriteCompletes::Buffer,
                },
                write_buffer_bytes,
                queue_depth,
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
    fn every_request_completes_once(
        config in any_buffered(),
        gaps in prop::collection::vec(0_u64..50_000, 60),
        requests in prop::collection::vec(super::time::any_request(2304), 60),
        flushes in prop::collection::vec(0_u8..5, 60),
    ) {
        let mut drive = drive(&config);
        drive.precondition(&Precondition { fill: 1.0, overwrite: 1.0, seed: 3 }).unwrap();
        let (mut at, mut completed) = (0, vec![]);
        for ((&gap, &request), &flush) in gaps.iter().zip(&requests).zip(&flushes) {
            at += gap;
            let request = if flush == 0 { DeviceRequest::FLUSH } else { request };
            drive.advance(Nanos(at), &mut completed).unwrap();
            drive.submit(Nanos(at), request).unwrap();
            drive.assert_invariants();
        }
        let rest = drain(&mut drive);
        let mut tickets: Vec<u64> = completed.iter().map(|one| one.ticket.0).collect();
        tickets.extend(rest.iter().map(|&(ticket, _)| ticket));
        tickets.sort_unstable();
        prop_assert_eq!(tickets, (0..60).collect::<Vec<u64>>());
        prop_assert_eq!(drive.next_event(), None);
    }
}
