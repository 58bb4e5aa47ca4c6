//! Measures the speed at which a trace is read into requests, and compiled: `speed FILE [FORMAT]`.

use std::time::Instant;

use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader, Requests, TraceError};

#[expect(clippy::print_stdout, reason = "the purpose of this example")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: speed FILE [FORMAT]")?;
    let format = std::env::args().nth(2).map(|name| name.parse()).transpose()?;
    let options = ReadOptions { format, ..ReadOptions::default() };
    let open = || -> Result<Reader, TraceError> { Reader::open(&path, &options) };

    let begin = Instant::now();
    let mut reader = open()?;
    let (mut batch, mut requests) = (Vec::new(), 0_u64);
    while reader.read_batch(&mut batch)? {
        requests += batch.len() as u64;
    }
    let read_s = begin.elapsed().as_secs_f64();
    println!(
        "read: {requests} requests in {read_s:.3} s, {:.1} M/s",
        requests as f64 / read_s / 1e6
    );

    let begin = Instant::now();
    let trace = CompiledTrace::compile(&mut open()?, PageSize::DEFAULT)?;
    let compile_s = begin.elapsed().as_secs_f64();
    let (accesses, pages) = (trace.len(), trace.footprint_pages());
    let rate = accesses as f64 / compile_s / 1e6;
    println!("compiled: {accesses} accesses to {pages} pages in {compile_s:.3} s, {rate:.1} M/s");
    Ok(())
}
