//! The page of devices: what the cost model charges, and which drives queue requests.

use anyhow::Result;
use serde::Deserialize;

use super::markdown::table;
use super::program::Program;

/// A device of the cost model.
#[derive(Deserialize)]
struct Device {
    name: String,
    summary: String,
    source: String,
    read_ms: f64,
    write_ms: f64,
}

/// Some of what the program says of drives.
#[derive(Deserialize)]
struct Drives {
    ssd: Vec<Drive>,
    hdd: Vec<Drive>,
}

#[derive(Deserialize)]
struct Drive {
    name: String,
    summary: String,
    source: String,
}

/// Return the page.
pub(crate) fn page(program: &Program) -> Result<(String, String)> {
    let devices: Vec<Device> = program.json("devices")?;
    let Drives { ssd, hdd } = program.json("drives")?;
    let device = |device: &Device| {
        let Device { name, summary, source, read_ms, write_ms } = device;
        let cells =
            [&format!("`{name}`"), summary, &read_ms.to_string(), &write_ms.to_string(), source];
        cells.map(String::clone).to_vec()
    };
    let drive = |drive: &Drive| {
        let Drive { name, summary, source } = drive;
        vec![format!("`{name}`"), summary.clone(), source.clone()]
    };
    let devices: Vec<Vec<String>> = devices.iter().map(device).collect();
    let [ssds, hdds] = [ssd, hdd].map(|drives| {
        let rows: Vec<Vec<String>> = drives.iter().map(drive).collect();
        table(&["name", "what it is", "source of its figures"], &rows)
    });
    let devices =
        table(&["name", "what it is", "read, ms", "write, ms", "source of its figures"], &devices);
    let text = format!(
        "# Devices\n\n\
         What the tiers of a hierarchy may be made of: \
         [two ways to count time](concepts.md#two-ways-to-count-time).\n\n\
         ## The cost model\n\n\
         Times are per page. `--device flash=nvme-ssd` gives a tier a device, \
         `--cost flash=0.09/0.03` costs of its own; [`thermocline devices`](cli/devices.md) takes a \
         file of more.\n\n{devices}\n\
         ## Solid-state drives\n\n\
         They queue requests, collect garbage and wear: `thermocline buffer --ssd NAME`, or \
         `--timing events --model flash=NAME`. [A file](drives.md) describes one of your own.\n\n{ssds}\n\
         ## Hard disks\n\n\
         They seek and rotate: `--timing events --model disk=NAME`.\n\n{hdds}"
    );
    Ok(("docs/devices.md".to_owned(), text))
}
