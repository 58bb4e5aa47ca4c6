//! Types of other crates in specifications that are sent to other processes.

use serde::{Deserialize, Serialize};
use thermocline_core::WriteMiss;
use thermocline_core::config::Given;

/// The form of a [`Given`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "Given")]
pub(super) enum Value {
    Integer(u64),
    Real(f64),
    Switch(bool),
    Text(String),
}

/// The form of a [`WriteMiss`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "WriteMiss")]
pub(super) enum WriteMissWord {
    Fetch,
    Allocate,
}

/// The form of a cost: milliseconds per page read and per page written.
pub(super) mod cost {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use thermocline_core::PageCost;

    #[expect(clippy::ref_option, reason = "it is the signature that serde calls")]
    pub(in crate::spec) fn serialize<S: Serializer>(
        cost: &Option<PageCost>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        cost.map(|cost| [cost.read_ms, cost.write_ms]).serialize(serializer)
    }

    pub(in crate::spec) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PageCost>, D::Error> {
        let cost = Option::<[f64; 2]>::deserialize(deserializer)?;
        Ok(cost.map(|[read_ms, write_ms]| PageCost { read_ms, write_ms }))
    }
}
