//! The kinds of caches that people run, and the settings of each that are worth a try.

use serde::Serialize;
use thermocline_core::config::Given;

use super::Cache;

/// A kind of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// lvmcache, which is dm-cache.
    Lvmcache,
    /// The write cache of lvm, which is dm-writecache.
    Writecache,
    /// bcache.
    Bcache,
    /// Open CAS.
    OpenCas,
    /// ZFS with a cache device.
    Zfs,
    /// The engine of this project.
    Thermocline,
}

/// What is known of a kind.
struct Row {
    kind: Kind,
    /// What people call it.
    name: &'static str,
    /// The policy that stands for it; those of the engine have a name of their own.
    policies: &'static [&'static str],
    /// Parameters and the values that are tried, each with each.
    tried: &'static [(&'static str, &'static [Word])],
}

/// A value of a parameter.
#[derive(Clone, Copy, Debug)]
enum Word {
    Text(&'static str),
    Count(u64),
}

use Word::{Count, Text};

const ROWS: &[Row] = &[
    Row {
        kind: Kind::Lvmcache,
        name: "lvmcache",
        policies: &["dm-cache"],
        tried: &[
            ("mode", &[Text("writethrough"), Text("writeback")]),
            ("block_pages", &[Count(16)]),
        ],
    },
    Row {
        kind: Kind::Writecache,
        name: "lvm writecache",
        policies: &["dm-writecache"],
        tried: &[("high_watermark", &[Count(50), Count(90)])],
    },
    Row {
        kind: Kind::Bcache,
        name: "bcache",
        policies: &["bcache"],
        tried: &[
            ("mode", &[Text("writethrough"), Text("writeback"), Text("writearound")]),
            ("sequential_cutoff", &[Count(1024), Count(0)]),
        ],
    },
    Row {
        kind: Kind::OpenCas,
        name: "Open CAS",
        policies: &["open-cas"],
        tried: &[
            ("mode", &[Text("wt"), Text("wb"), Text("wa"), Text("wo")]),
            ("promotion", &[Text("always"), Text("nhit")]),
        ],
    },
    Row { kind: Kind::Zfs, name: "ZFS L2ARC", policies: &["arc-l2arc"], tried: &[] },
    Row {
        kind: Kind::Thermocline,
        name: "thermocline",
        policies: &["hat", "face-gsc", "tac", "hca", "two-tier"],
        tried: &[],
    },
];

impl Word {
    fn given(self) -> Given {
        match self {
            Text(text) => Given::Text(text.into()),
            Count(count) => Given::Integer(count),
        }
    }
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Lvmcache,
        Self::Writecache,
        Self::Bcache,
        Self::OpenCas,
        Self::Zfs,
        Self::Thermocline,
    ];

    fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.kind == self).expect("every kind has a row")
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The kind that a policy stands for; none if nobody ships it.
    pub fn of_policy(policy: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.policies.contains(&policy)).map(|row| row.kind)
    }
}

/// The settings of a kind that are worth a try, at these sizes.
pub fn settings_of(kind: Kind, ram_bytes: u64, flash_bytes: u64) -> Vec<Cache> {
    let row = kind.row();
    let mut all = vec![];
    for policy in row.policies {
        let mut parameters: Vec<Vec<(String, Given)>> = vec![vec![]];
        for (name, values) in row.tried {
            parameters = parameters
                .iter()
                .flat_map(|before| {
                    values.iter().map(|value| {
                        let mut parameters = before.clone();
                        parameters.push(((*name).to_owned(), value.given()));
                        parameters
                    })
                })
                .collect();
        }
        let caches = parameters.into_iter().map(|parameters| Cache {
            name: match row.policies {
                [_] => row.name.to_owned(),
                _ => format!("{} {policy}", row.name),
            },
            policy: (*policy).to_owned(),
            parameters,
            ram_bytes,
            flash_bytes,
        });
        all.extend(caches);
    }
    all
}
