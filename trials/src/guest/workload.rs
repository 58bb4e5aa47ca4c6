//! The traces that the guest and the models replay: page by page, one request at a time, at even times.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use thermocline_core::{Access, Op};
use thermocline_trace::generate::{self, Generator, Pattern};
use thermocline_trace::{
    CompiledTrace, PageSize, Part, PartOptions, ReadOptions, Reader, Requests,
};

/// Pages that stay together where the space between what is accessed is left out: 4 MiB, of which the
/// blocks and hotspots of every case are parts.
const EXTENT_PAGES: u64 = 1024;
/// Bytes of a page on the guest's devices, whatever the trace says.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// A trace on a device that is as large as what it accesses.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// The accesses, with page numbers of the device.
    pub(crate) accesses: Vec<Access>,
    /// Pages of the device.
    pub(crate) pages: u32,
}

/// A trace that can be had.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// A file of the project.
    Bundled(&'static str),
    /// A file in the folder of published and captured traces.
    Traces(&'static str),
    Generated {
        pages: u64,
        alpha: f64,
    },
}

const WORKLOADS: [(&str, Origin); 5] = [
    ("pgbench", Origin::Bundled("testdata/pgbench/pgbench.csv.zst")),
    ("zipf", Origin::Generated { pages: 20_000, alpha: 1.0 }),
    ("cloudphysics", Origin::Traces("public/cloudphysics-head114k.vscsi.xz")),
    ("tpcb", Origin::Traces("captured/tpcb.csv.zst")),
    ("mlk", Origin::Traces("captured/mlk.csv.zst")),
];

/// Reads the first accesses of every trace that is there, and says which are not.
pub(crate) fn load(root: &Path, accesses: usize) -> Result<Vec<Workload>> {
    let traces = std::env::var_os("THERMOCLINE_TRACES").map(PathBuf::from);
    let mut workloads = vec![];
    for (name, origin) in WORKLOADS {
        let file = match origin {
            Origin::Bundled(path) => Some(root.join(path)),
            Origin::Traces(path) => {
                let found = traces.as_ref().map(|folder| folder.join(path));
                let found = found.filter(|path| path.is_file());
                if found.is_none() {
                    eprintln!("skipped: {name}, as THERMOCLINE_TRACES has no `{path}`");
                    continue;
                }
                found
            }
            Origin::Generated { .. } => None,
        };
        let trace = match (file, origin) {
            (Some(path), _) => compile(Reader::open(&path, &ReadOptions::default())?, accesses)?,
            (None, Origin::Generated { pages, alpha }) => {
                let pattern = Pattern::Zipf { alpha };
                let options = generate::Options { pattern, pages, ..generate::Options::default() };
                compile(Generator::new(options)?, accesses)?
            }
            (None, _) => continue,
        };
        workloads.push(Workload::new(name, &trace, accesses)?);
    }
    Ok(workloads)
}

/// Compile a trace; each request has at least one access.
fn compile(requests: impl Requests, accesses: usize) -> Result<CompiledTrace> {
    let page_size = PageSize::new(PAGE_BYTES)?;
    let options = PartOptions { limit: accesses as u64, ..PartOptions::default() };
    Ok(CompiledTrace::compile(&mut Part::new(requests, options), page_size)?)
}

impl Workload {
    fn new(name: &'static str, trace: &CompiledTrace, accesses: usize) -> Result<Self> {
        let numbers = trace.page_numbers();
        let accesses: Vec<Access> = trace.accesses().take(accesses).collect();
        let mut extents: Vec<u64> =
            accesses.iter().map(|access| numbers[access.page.index()] / EXTENT_PAGES).collect();
        extents.sort_unstable();
        extents.dedup();
        let pages = u32::try_from(extents.len() as u64 * EXTENT_PAGES)
            .with_context(|| format!("{name} accesses too much"))?;
        let moved = accesses.into_iter().map(|access| {
            let number = numbers[access.page.index()];
            let extent = extents.binary_search(&(number / EXTENT_PAGES));
            let extent = extent.expect("the extent of an access is among those of all") as u64;
            let page = u32::try_from(extent * EXTENT_PAGES + number % EXTENT_PAGES)
                .expect("it is less than the pages of the device");
            if access.op == Op::Write { Access::write(page) } else { Access::read(page) }
        });
        Ok(Self { name, accesses: moved.collect(), pages })
    }

    /// Return the trace as a log that fio replays, with so much time between two accesses.
    pub(crate) fn iolog(&self, interval: Duration) -> String {
        let us = |number| (interval * number).as_micros();
        let mut log = String::from("fio version 3 iolog\n0 /dev/cached add\n0 /dev/cached open\n");
        for (number, access) in (0..).zip(&self.accesses) {
            let op = if access.op == Op::Write { "write" } else { "read" };
            let (at, offset) = (us(number), u64::from(access.page.0) * PAGE_BYTES);
            writeln!(log, "{at} /dev/cached {op} {offset} {PAGE_BYTES}").expect("a string grows");
        }
        log.push_str("0 /dev/cached close\n");
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(csv: &str) -> Workload {
        let input = std::io::Cursor::new(csv.to_owned());
        let reader = Reader::from_read("few.spc", input, &ReadOptions::default());
        let trace = compile(reader.expect("it is a trace"), 100).expect("it is valid");
        Workload::new("few", &trace, 100).expect("it is small")
    }

    #[test]
    fn what_is_accessed_moves_together_and_keeps_its_place_in_an_extent() {
        // Pages 5 and 1030, and one a long way off.
        let few = workload("0,40,4096,r,0.5\n0,8240,4096,w,0.6\n0,819200040,4096,r,0.7\n");
        let pages: Vec<u32> = few.accesses.iter().map(|access| access.page.0).collect();
        assert_eq!(pages, [5, 1030, 2053]);
        assert_eq!(few.pages, 3 * 1024);
    }

    #[test]
    fn a_log_names_times_operations_and_bytes() {
        let log = workload("0,40,4096,r,0.5\n0,48,8192,w,0.6\n").iolog(Duration::from_millis(10));
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(
            lines,
            [
                "fio version 3 iolog",
                "0 /dev/cached add",
                "0 /dev/cached open",
                "0 /dev/cached read 20480 4096",
                "10000 /dev/cached write 24576 4096",
                "20000 /dev/cached write 28672 4096",
                "0 /dev/cached close",
            ]
        );
    }
}
