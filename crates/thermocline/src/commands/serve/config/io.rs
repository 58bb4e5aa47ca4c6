//! `[io]`: how devices are driven.

use serde::Deserialize;

/// Driver of the devices.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Io {
    #[serde(default)]
    pub(crate) engine: IoEngine,
    #[serde(default = "default_direct")]
    pub(crate) direct: bool,
}

/// Which interface of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IoEngine {
    #[default]
    Auto,
    IoUring,
    Threads,
}

const fn default_direct() -> bool {
    true
}

impl Default for Io {
    fn default() -> Self {
        Self { engine: IoEngine::Auto, direct: default_direct() }
    }
}
