//! The configuration of an engine for the point that a plan chose.

use thermocline_trace::CompiledTrace;

use super::Plan;
use crate::metric::byte_size;
use crate::{LabError, PolicySummary};

impl Plan {
    /// Return a commented configuration of an engine for the point that was chosen, as TOML.
    pub fn engine_configuration(&self) -> String {
        let chosen = &self.front[self.chosen];
        let origin = format!(
            "What `thermocline plan` chose on {}: {:.4} of {} {}.",
            self.trace.path, chosen.cost, self.budget, self.currency
        );
        let page_size_bytes = self.trace.page_size_bytes;
        let point = EnginePoint {
            page_size_bytes,
            ram_pages: chosen.ram_pages,
            flash_pages: chosen.flash_pages,
            policy: &chosen.policy,
        };
        point.configuration(&origin)
    }
}

/// Configuration of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EnginePoint<'a> {
    /// Bytes of a page, which [`check_engine_pages`] accepts.
    pub page_size_bytes: u64,
    /// Pages of RAM.
    pub ram_pages: u64,
    /// Pages of flash; 0 for none.
    pub flash_pages: u64,
    /// The policy, with its default parameters.
    pub policy: &'a PolicySummary,
}

impl EnginePoint<'_> {
    /// Return a commented configuration of such an engine, as TOML; `origin` says in a sentence
    /// where it is from.
    pub fn configuration(&self, origin: &str) -> String {
        let page = self.page_size_bytes;
        let mut text = format!(
            "# {}\n# Put in the paths of your devices; `thermocline serve --example-config` explains every key.\n\npage_size = {page}\n\n[backing]\npath = \"disk.img\"\n\n[ram]\nsize = {}\n",
            origin.replace(['\n', '\r'], " "),
            self.ram_pages * page
        );
        if self.flash_pages > 0 {
            text +=
                &format!("\n[flash]\npath = \"flash.img\"\nsize = {}\n", self.flash_pages * page);
        }
        text += &format!(
            "\n[policy]\nname = \"{}\"\nwrite_miss = \"{}\"\n\n[nbd]\nsocket = \"thermocline.sock\"\n",
            self.policy.name, self.policy.write_miss
        );
        text
    }
}

/// Check that an engine can have pages of the trace's size.
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
