//! The configuration of an engine for the point that a plan chose.

use thermocline_trace::CompiledTrace;

use super::Plan;
use crate::LabError;
use crate::metric::byte_size;

impl Plan {
    /// A commented configuration of an engine for the point that was chosen, as TOML.
    pub fn engine_configuration(&self) -> String {
        let chosen = &self.front[self.chosen];
        let page = self.trace.page_size_bytes;
        let mut text = format!(
            "# What `thermocline plan` chose on {}: {:.4} of {} {}.\n# Put in the paths of your devices; `thermocline serve --example-config` explains every key.\n\npage_size = {page}\n\n[backing]\npath = \"disk.img\"\n\n[ram]\nsize = {}\n",
            self.trace.path.replace(['\n', '\r'], " "),
            chosen.cost,
            self.budget,
            self.currency,
            chosen.ram_pages * page
        );
        if chosen.flash_pages > 0 {
            text +=
                &format!("\n[flash]\npath = \"flash.img\"\nsize = {}\n", chosen.flash_pages * page);
        }
        text += &format!(
            "\n[policy]\nname = \"{}\"\nwrite_miss = \"{}\"\n\n[nbd]\nsocket = \"thermocline.sock\"\n",
            chosen.policy.name, chosen.policy.write_miss
        );
        text
    }
}

/// Whether an engine can have pages of the trace's size.
///
/// # Errors
/// [`LabError::EnginePages`] if they are not multiples of 4 KiB up to 1 MiB.
pub fn check_engine_pages(trace: &CompiledTrace) -> Result<(), LabError> {
    let page_size_bytes = trace.page_size_bytes();
    if page_size_bytes.is_multiple_of(4096) && page_size_bytes <= 1 << 20 {
        return Ok(());
    }
    Err(LabError::EnginePages { page_size: byte_size(page_size_bytes) })
}
