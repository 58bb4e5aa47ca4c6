//! Write buffers in front of an SSD: closed forms, figures, and what always adds up.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Cursor;

use thermocline_core::config::Given;
use thermocline_core::hotness;
use thermocline_core::registry::{self, BUFFERS};
use thermocline_device::ssd::{GcBlocks, Isolation, Placement, Precondition, SsdConfig};
use thermocline_lab::{
    Arrivals, BufferConfiguration, BufferSummary, BufferedSsd, Streams, Watch, run_buffer,
    run_buffers,
};
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};

fn configuration(policy: &str, size: &str, ssd: Option<BufferedSsd>) -> BufferConfiguration {
    BufferConfiguration {
        policy: registry::find_buffer(policy).unwrap(),
        parameters: vec![],
        size: size.parse().unwrap(),
        ssd,
        arrivals: Arrivals::Trace,
    }
}

fn ssdsim() -> SsdConfig {
    SsdConfig::preset("ssdsim").unwrap()
}

/// Return the same flash in one plane, which can be as small as these traces.
fn one_plane() -> SsdConfig {
    let [channels, chips_per_channel, dies_per_chip, planes_per_die] = [1; 4];
    SsdConfig {
        channels,
        chips_per_channel,
        dies_per_chip,
        planes_per_die,
        gc_threshold: 0.05,
        ..ssdsim()
    }
}

/// SSDsim's own lines: nanoseconds, device, sector, sectors, 0 for a write.
fn trace(lines: &str, page_size_bytes: u64) -> CompiledTrace {
    let input = Cursor::new(lines.to_owned());
    let mut reader = Reader::from_read("t.ssdsim", input, &ReadOptions::default()).unwrap();
    CompiledTrace::compile(&mut reader, PageSize::new(page_size_bytes).unwrap()).unwrap()
}

fn zipf(options: Options) -> CompiledTrace {
    let mut generator = Generator::new(options).unwrap();
    CompiledTrace::compile(&mut generator, PageSize::new(2048).unwrap()).unwrap()
}

fn mixed() -> CompiledTrace {
    zipf(Options {
        pattern: Pattern::Zipf { alpha: 0.8 },
        requests: 30_000,
        pages: 6_000,
        write_share: 0.7,
        interarrival: thermocline_core::Nanos(400_000),
        scatter: true,
        ..Options::default()
    })
}

/// A flush writes one block, whether that is smaller or larger than the blocks of a policy that knows
/// none.
#[test]
fn without_a_drive_flushes_are_of_the_policy_s_blocks() {
    let lines: String = (0..1024).map(|page| format!("{page} 0 {} 4 0\n", page * 4)).collect();
    let trace = trace(&lines, 2048);
    for pages_per_block in [8, 128, 256] {
        let mut configuration = configuration("fab", "256p", None);
        let given = Given::Integer(pages_per_block.into());
        configuration.parameters.push(("pages_per_block".into(), given));
        let summary = run_buffer(&trace, &configuration, true, &Watch::default()).unwrap();
        let sizes: Vec<u32> = summary.flush_sizes.iter().map(|size| size.pages).collect();
        assert_eq!(sizes, [pages_per_block], "{summary:?}");
    }
}

/// Reference prototypes found these on 300,000 writes, Zipf 0.9, with a buffer of 4,096 pages; ours
/// draws 60,000 pages, as theirs are not known, which brings LRU to where theirs is.
#[test]
fn hit_ratios_are_those_of_independent_prototypes() {
    let trace = zipf(Options {
        pattern: Pattern::Zipf { alpha: 0.9 },
        requests: 300_000,
        pages: 60_000,
        write_share: 1.0,
        scatter: true,
        ..Options::default()
    });
    for (policy, parameters, percent) in [
        ("lru", &[][..], 54.33),
        ("lru-wsr", &[][..], 54.33),
        ("lru-wsr", &[("initial_cold", "true")][..], 56.4),
        ("fab", &[][..], 52.08),
        ("bplru", &[][..], 49.97),
        ("lb-clock", &[][..], 51.90),
        ("bpac", &[][..], 53.92),
        ("hwb", &[][..], 59.56),
        ("hwb", &[("prediction", "product")][..], 58.09),
        ("hwb", &[("adapt", "false")][..], 59.82),
    ] {
        let parameters = parameters.iter().map(|&(name, text)| (name.into(), text.into()));
        let parameters = parameters.collect();
        let configuration =
            BufferConfiguration { parameters, ..configuration(policy, "4096p", None) };
        let summary = run_buffer(&trace, &configuration, false, &Watch::default()).unwrap();
        let ours = summary.write_hit_ratio() * 100.0;
        assert!((ours - percent).abs() < 0.6, "{policy}: {ours}, not {percent}");
    }
}

/// Times are SSDsim's on its default drive: 7 cycles and a page on the bus, or the buffer's
/// constant.
#[test]
fn times_are_those_of_ssdsim() {
    let ssd = || Some(BufferedSsd::new(ssdsim()));
    let times = |policy: &str, lines: &str, page_size_bytes: u64| {
        let trace = trace(lines, page_size_bytes);
        let summary =
            run_buffer(&trace, &configuration(policy, "2p", ssd()), true, &Watch::default())
                .unwrap();
        summary.response_us.unwrap()
    };
    let two_writes = "0 0 0 4 0\n5000000 0 8000 4 0\n";
    assert!((times("none", two_writes, 2048).write.mean - 51.375).abs() < 1e-9);
    assert!((times("lru", two_writes, 2048).write.mean - 1.0).abs() < 1e-9);
    let three_writes = format!("{two_writes}10000000 0 16000 4 0\n");
    let response = times("lru", &three_writes, 2048).write;
    assert!((response.max - 51.375).abs() < 1e-9, "the third waits for a flush");
    assert!((response.mean - (1.0 + 1.0 + 51.375) / 3.0).abs() < 1e-9);
    let read_again = format!("{two_writes}10000000 0 0 4 1\n");
    assert!((times("lru", &read_again, 2048).read.mean - 1.0).abs() < 1e-9);
}

#[test]
fn everything_adds_up() {
    let trace = mixed();
    let ssd = BufferedSsd::new(ssdsim()).fitted(&trace, 0.8).unwrap();
    for entry in BUFFERS {
        let alone =
            run_buffer(&trace, &configuration(&entry.name, "512p", None), true, &Watch::default())
                .unwrap();
        let timed = configuration(&entry.name, "512p", Some(ssd.clone()));
        let summary = run_buffer(&trace, &timed, true, &Watch::default()).unwrap();
        let name = &entry.name;
        assert_eq!(summary.page_reads + summary.page_writes, 30_000, "{name}");
        let misses = summary.page_writes - summary.write_hits;
        assert_eq!(
            misses + summary.clean_write_hits,
            summary.pages_flushed + summary.pages_resident,
            "{name}"
        );
        let sizes = summary.flush_sizes.iter();
        assert_eq!(sizes.clone().map(|size| size.flushes).sum::<u64>(), summary.flushes, "{name}");
        assert_eq!(
            sizes.map(|size| u64::from(size.pages) * size.flushes).sum::<u64>(),
            summary.pages_flushed + summary.pages_padded,
            "{name}"
        );
        let counts = |summary: &BufferSummary| {
            [
                summary.read_hits,
                summary.write_hits,
                summary.flushes,
                summary.pages_flushed,
                summary.pages_resident,
            ]
        };
        assert_eq!(counts(&summary), counts(&alone), "{name}: time changes no decision");
        let drive = summary.ssd.as_ref().unwrap();
        assert_eq!(drive.metrics.host_writes, summary.pages_flushed + summary.pages_padded);
        assert!(summary.write_amplification().unwrap() >= 1.0, "{name}");
        assert!(
            alone.ssd.is_none() && alone.erase_count().is_none() && alone.response_us.is_none()
        );
    }
}

#[test]
fn a_buffer_spares_the_drive() {
    let trace = mixed();
    let precondition = Some(Precondition { fill: 1.0, overwrite: 1.0, seed: 3 });
    let ssd = BufferedSsd::new(SsdConfig { gc_threshold: 0.05, gc_time: true, ..ssdsim() });
    let ssd = BufferedSsd { precondition, ..ssd.fitted(&trace, 1.0).unwrap() };
    let run = |policy: &str, parameters: &[(&str, &str)]| {
        let parameters = parameters.iter().map(|&(name, text)| (name.into(), text.into()));
        let configuration = BufferConfiguration {
            parameters: parameters.collect(),
            ..configuration(policy, "512p", Some(ssd.clone()))
        };
        run_buffer(&trace, &configuration, false, &Watch::default()).unwrap()
    };
    let [none, lru, bplru] = ["none", "lru", "bplru"].map(|policy| run(policy, &[]));
    assert!(lru.erase_count() < none.erase_count());
    assert!(lru.lifetime_years() > none.lifetime_years());
    let mean = |summary: &BufferSummary| summary.response_us.unwrap().write.mean;
    assert!(mean(&lru) < mean(&none));
    let padded = run("bplru", &[("padding", "true")]);
    assert!(padded.pages_padded > 0 && bplru.pages_padded == 0);
    assert!(
        padded.write_amplification() > bplru.write_amplification(),
        "page mapping gains nothing"
    );
    assert!(padded.erase_count() > bplru.erase_count());
}

#[test]
fn results_keep_their_order_and_are_always_the_same() {
    let trace = mixed();
    let ssd = BufferedSsd::new(ssdsim()).fitted(&trace, 0.8).unwrap();
    let sizes = ["128p", "512p"];
    let configurations: Vec<BufferConfiguration> = sizes
        .iter()
        .flat_map(|size| BUFFERS.iter().map(move |entry| (&*entry.name, *size)))
        .map(|(policy, size)| configuration(policy, size, Some(ssd.clone())))
        .collect();
    let text = |summaries: &[BufferSummary]| serde_json::to_string(summaries).unwrap();
    let many = run_buffers(&trace, &configurations, false, &Watch::default(), || ()).unwrap();
    let names = many.iter().map(|summary| (summary.policy.name.as_str(), summary.buffer_pages));
    let expected =
        [128, 512].into_iter().flat_map(|size| BUFFERS.iter().map(move |e| (&*e.name, size)));
    assert!(names.eq(expected));
    let one_by_one: Vec<BufferSummary> = configurations
        .iter()
        .map(|one| run_buffer(&trace, one, false, &Watch::default()).unwrap())
        .collect();
    assert_eq!(text(&many), text(&one_by_one));
}

#[test]
fn a_closed_loop_keeps_its_requests_outstanding() {
    let trace = mixed();
    let ssd = BufferedSsd::new(ssdsim()).fitted(&trace, 0.8).unwrap();
    let run = |requests| {
        let configuration = BufferConfiguration {
            arrivals: Arrivals::Closed { requests },
            ..configuration("lru", "512p", Some(ssd.clone()))
        };
        run_buffer(&trace, &configuration, false, &Watch::default()).unwrap()
    };
    let [one, eight] = [1, 8].map(run);
    let duration_s = |summary: &BufferSummary| summary.ssd.as_ref().unwrap().duration_s;
    let response_s = |summary: &BufferSummary| {
        let response_us = summary.response_us.unwrap();
        (response_us.read.mean * summary.page_reads as f64
            + response_us.write.mean * summary.page_writes as f64)
            / 1e6
    };
    // One at a time, the responses follow one another without a gap; eight at a time they overlap.
    assert!((response_s(&one) / duration_s(&one) - 1.0).abs() < 0.01);
    assert!(duration_s(&eight) < duration_s(&one) / 1.5);
    assert!(response_s(&eight) / duration_s(&eight) > 1.5);
    assert_eq!(one.write_hits, eight.write_hits);
}

#[test]
fn streams_are_fed_by_an_identifier() {
    let trace = mixed();
    let mbf = hotness::registry::find("mbf").unwrap();
    let values = mbf.values(&[]).unwrap();
    let ssd = BufferedSsd::new(SsdConfig { streams: 2, ..one_plane() });
    let ssd = BufferedSsd {
        streams: Some(Streams::Identifier(mbf, values)),
        ..ssd.fitted(&trace, 0.9).unwrap()
    };
    let configuration = configuration("none", "1p", Some(ssd));
    let summary = run_buffer(&trace, &configuration, false, &Watch::default()).unwrap();
    assert!(summary.erase_count().unwrap() > 0);
}

/// The pages that a buffer flushes go to the handles of the drive, and the oracle, which knows the
/// flushes to come, places best.
#[test]
fn flushes_are_placed() {
    let trace = mixed();
    let placement = Some(Placement { isolation: Isolation::Persistent, ..Placement::of(4) });
    let config = SsdConfig { gc_blocks: GcBlocks::Separate, placement, ..one_plane() };
    let ssd = BufferedSsd::new(SsdConfig { over_provisioning: 0.2, ..config });
    let ssd = ssd.fitted(&trace, 1.0).unwrap();
    let mbf = hotness::registry::find("mbf").unwrap();
    let mbf = Streams::Identifier(mbf, mbf.values(&[]).unwrap());
    for (policy, size) in [("none", "1p"), ("fab", "500p")] {
        let run = |streams: Option<Streams>| {
            let ssd = BufferedSsd { streams, ..ssd.clone() };
            let configuration = configuration(policy, size, Some(ssd));
            let summary = run_buffer(&trace, &configuration, true, &Watch::default()).unwrap();
            let placed = summary.ssd.clone().unwrap().placement.unwrap();
            let pages = summary.pages_flushed + summary.pages_padded;
            assert_eq!(placed.pages_written.iter().sum::<u64>(), pages, "{policy}");
            (summary.write_amplification().unwrap(), placed)
        };
        let [none, of_mbf, oracle] = [None, Some(mbf.clone()), Some(Streams::Oracle)].map(run);
        assert_eq!(none.1.pages_written[1..], [0; 3]);
        assert!(of_mbf.1.pages_written.iter().filter(|&&pages| pages > 0).count() > 1);
        assert!(oracle.0 < none.0, "{policy}: {} and {}", oracle.0, none.0);
    }
}

#[test]
fn what_cannot_be_says_why() {
    let trace_4k = trace("0 0 0 8 0\n1000 0 800000 8 0\n", 4096);
    let large = SsdConfig { page_bytes: 16_384, ..SsdConfig::preset("ssdsim").unwrap() };
    let large = BufferedSsd::new(large);
    let error =
        run_buffer(&trace_4k, &configuration("lru", "9p", Some(large)), false, &Watch::default())
            .unwrap_err();
    assert!(error.to_string().contains("16384 bytes"), "{error}");
    let remedy = error.remedy(|setting| format!("the setting {setting}"));
    assert_eq!(remedy.as_deref(), Some("take the setting page_size 16384"));

    let many = mixed();
    let small = BufferedSsd::new(one_plane().sized_for(3_000).unwrap());
    let error =
        run_buffer(&many, &configuration("lru", "9p", Some(small)), false, &Watch::default())
            .unwrap_err();
    assert!(error.to_string().contains("the trace has"), "{error}");

    let mut weak = one_plane().sized_for(6_200).unwrap();
    weak.erase_limit = 2;
    let weak = BufferedSsd::new(weak);
    let error =
        run_buffer(&many, &configuration("none", "9p", Some(weak)), false, &Watch::default())
            .unwrap_err();
    assert!(error.to_string().contains("worn out after"), "{error}");

    let input = Cursor::new("7\n8\n7\n".to_owned());
    let mut reader = Reader::from_read("t.pages", input, &ReadOptions::default()).unwrap();
    let untimed = CompiledTrace::compile(&mut reader, PageSize::new(2048).unwrap()).unwrap();
    let ssd = Some(BufferedSsd::new(ssdsim()));
    let error = run_buffer(&untimed, &configuration("lru", "9p", ssd), false, &Watch::default())
        .unwrap_err();
    assert!(error.to_string().contains("closed loop"), "{error}");

    let error =
        run_buffer(&many, &configuration("hwb", "9p", None), false, &Watch::default()).unwrap_err();
    assert!(error.to_string().contains("at least 64 pages"), "{error}");
}
