//! `thermocline drives`: the drives that queue requests, and where their figures come from.

use anyhow::Result;
use thermocline_device::hdd::HddConfig;
use thermocline_device::ssd::SsdConfig;

use crate::arguments::DrivesOptions;
use crate::output;

/// Runs the command.
pub(crate) fn run(options: &DrivesOptions) -> Result<String> {
    let drives = thermocline_lab::listing::drives();
    if options.json {
        return output::json(&drives);
    }
    let list = |times: &[f64]| times.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let ssd = |drive: &SsdConfig| {
        vec![
            drive.name.clone(),
            drive.summary.clone(),
            drive.source.clone(),
            output::bytes(drive.logical_bytes()),
            output::bytes(drive.page_size_bytes()),
            drive.pages_per_block.to_string(),
            list(&drive.read_us),
            list(&drive.program_us),
            drive.erase_us.to_string(),
            output::count(drive.erase_limit.into()),
        ]
    };
    let header = [
        "ssd",
        "what it is",
        "source",
        "capacity",
        "page",
        "pages per block",
        "read us",
        "program us",
        "erase us",
        "erases",
    ];
    let rows: Vec<Vec<String>> = drives.ssd.iter().map(ssd).collect();
    let ssds = output::table(&header, &rows, 3);
    let hdd = |drive: &HddConfig| {
        vec![
            drive.name.clone(),
            drive.summary.clone(),
            drive.source.clone(),
            output::bytes(drive.capacity_bytes),
            output::count(drive.rotations_per_minute.into()),
        ]
    };
    let rows: Vec<Vec<String>> = drives.hdd.iter().map(hdd).collect();
    let hdds = output::table(&["hdd", "what it is", "source", "capacity", "rpm"], &rows, 3);
    Ok(format!(
        "{ssds}{hdds}Put one behind a write buffer with `thermocline buffer --ssd NAME`, or behind a cache tier with `thermocline simulate --timing events --model flash=NAME --model disk=NAME`.\n"
    ))
}
