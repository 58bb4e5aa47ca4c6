//! Number of bytes an engine keeps per page of flash, besides the pages, counted at the allocator:
//! `cargo run --release --example metadata`, with the pages of flash, of RAM per 64 of flash, and of
//! disk per page of flash as arguments, and then the policies, if others are wanted.
//!
//! Devices do nothing and at once: every page is zeros, wherever it is read. Pages anywhere on the disk
//! are read and written until flash is full, and as many again.
#![expect(clippy::print_stdout, reason = "an example talks")]

use peak_alloc::PeakAlloc;
use thermocline_core::random::SplitMix64;
use thermocline_core::{Geometry, Indexing, Setup};
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::{Engine, Operation, Options, PolicyOptions, Request, Shard};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Completes everything at once.
#[derive(Debug, Default)]
struct Nothing(Vec<Completion>);

impl Driver for Nothing {
    fn start(&mut self, operation: Operation) {
        self.0.push((operation, Ok(())));
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.0);
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.poll(done);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, default: u32| words.get(index).map_or(Ok(default), |text| text.parse());
    let (flash_pages, ram, disk) = (number(0, 1 << 22)?, number(1, 1)?, number(2, 16)?);
    let (ram_pages, disk_pages) = (flash_pages / 64 * ram, flash_pages * disk);
    println!(
        "{flash_pages} pages of flash, {ram_pages} of RAM, {disk_pages} of disk; bytes per page of flash:"
    );
    let defaults = ["hat", "lru-inclusive", "face-gsc", "hca"].map(str::to_owned);
    let policies = words.get(3..).filter(|policies| !policies.is_empty()).unwrap_or(&defaults);
    for name in policies {
        let options =
            Options::new(disk_pages.into(), ram_pages, flash_pages, PolicyOptions::named(name)?);
        let per_page = |bytes: usize| bytes as f64 / f64::from(flash_pages);
        let before = HEAP.current_usage();
        let policy = policy(&options)?;
        let of_policy = HEAP.current_usage() - before;
        drop(policy);
        let mut engine = Engine::new(Shard::new(options)?, Nothing::default());
        work(&mut engine, flash_pages, disk_pages)?;
        let frames = engine.shard().frames();
        let frames_bytes = frames.len() as usize * frames.frame_bytes();
        let all = HEAP.current_usage() - before - frames_bytes;
        println!(
            "{name}: {:.1}, of which the policy {:.1}, when it is empty; as reported {:.1}",
            per_page(all),
            per_page(of_policy),
            per_page(engine.shard().memory_bytes())
        );
    }
    Ok(())
}

fn policy(options: &Options) -> Result<thermocline_core::BoxedPolicy, Box<dyn std::error::Error>> {
    let (policy, pages) = (&options.policy, u32::try_from(options.backing_pages)?);
    let setup = Setup {
        costs: policy.costs.clone(),
        write_miss: policy.write_miss,
        indexing: Indexing::Sparse,
        ..Setup::new(Geometry::linear(pages), vec![options.ram_pages, options.flash_pages])
    };
    Ok(policy.entry.build(&setup, &policy.values)?)
}

/// Run accesses to pages anywhere, a third of them writes, until flash is full, and as many
/// again.
fn work(
    engine: &mut Engine<Nothing>,
    flash_pages: u32,
    disk_pages: u32,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut random = SplitMix64::new(1);
    let zeros = [0; 4096];
    for tag in 0..u64::from(flash_pages) * 5 / 2 {
        let offset_bytes = random.bits() % u64::from(disk_pages) * 4096;
        if tag % 3 == 0 {
            engine.submit(Request::write(tag, offset_bytes, 4096), &zeros)?;
        } else {
            engine.submit(Request::read(tag, offset_bytes, 4096), &[])?;
        }
        engine.wait_until_idle();
        while let Some(reply) = engine.next_reply() {
            reply.result?;
            engine.release(reply);
        }
    }
    Ok(())
}
