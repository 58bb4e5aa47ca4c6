//! `thermocline devices`: what the cost model charges, and where the figures come from.

use anyhow::Result;

use crate::arguments::DevicesOptions;
use crate::output;

/// Runs the command.
pub(crate) fn run(options: &DevicesOptions) -> Result<String> {
    let catalogue = thermocline_lab::catalogue(options.devices.as_deref())?;
    if options.json {
        return output::json(&catalogue.devices());
    }
    let rows: Vec<Vec<String>> = catalogue
        .devices()
        .iter()
        .map(|device| {
            vec![
                device.name.clone(),
                device.summary.clone(),
                device.source.clone(),
                device.read_ms.to_string(),
                device.write_ms.to_string(),
            ]
        })
        .collect();
    let table = output::table(&["device", "what it is", "source", "read ms", "write ms"], &rows, 3);
    Ok(format!(
        "{table}Costs are per page. Give a tier its device with --device flash=nvme-ssd, or its costs with --cost flash=0.09/0.03.\n"
    ))
}
