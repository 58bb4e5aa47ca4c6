//! Measures the time of a hit in RAM, with its copy, and of the copy alone: `cargo run --release
//! --example hits`.
#![expect(clippy::print_stdout, reason = "an example talks")]

use std::time::Instant;

use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::{Engine, Options, PolicyOptions, Request, Shard};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pages = 8192;
    for name in ["lru", "hat", "arc", "lru-exclusive"] {
        let shard =
            Shard::new(Options::new(pages.into(), pages, 1024, PolicyOptions::named(name)?))?;
        let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), pages as usize * 4096);
        let mut engine = Engine::new(shard, driver);
        let mut target = vec![0; 4096];
        let mut random = SplitMix64::new(1);
        let mut times = vec![];
        for round in 0..9 {
            let start = Instant::now();
            for tag in 0..200_000 {
                let page = random.bits() % u64::from(pages);
                engine.submit(Request::read(tag, page * 4096, 4096), &[])?;
                let reply = loop {
                    match engine.next_reply() {
                        Some(reply) => break reply,
                        None => engine.wait(),
                    }
                };
                target.copy_from_slice(engine.pieces(&reply).next().expect("a read has bytes"));
                engine.release(reply);
            }
            if round > 0 {
                times.push(start.elapsed().as_nanos() / 200_000);
            }
        }
        times.sort_unstable();
        println!("{name}: {} ns per 4 KiB read hit", times[times.len() / 2]);
    }
    println!("the copy alone: {} ns", copy_ns(pages as usize));
    Ok(())
}

/// Return the median time of a copy of a page at random.
fn copy_ns(pages: usize) -> u128 {
    let source = vec![1_u8; pages * 4096];
    let mut target = vec![0; 4096];
    let mut random = SplitMix64::new(1);
    let mut times: Vec<u128> = (0..9)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..200_000 {
                let page = usize::try_from(random.bits() % pages as u64).unwrap_or(0);
                target.copy_from_slice(&source[page * 4096..][..4096]);
                std::hint::black_box(&mut target);
            }
            start.elapsed().as_nanos() / 200_000
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
